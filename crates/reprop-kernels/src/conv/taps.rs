//! Which input pixel each tap of a sliding square sees: shared by convolutions and pools.

use super::Images;

/// A square that slides over images with a border of nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide {
    /// Side of the square.
    pub kernel: usize,
    /// Distance between places.
    pub stride: usize,
    /// Border on each side.
    pub padding: usize,
}

impl Slide {
    /// The images that come out.
    ///
    /// # Panics
    /// If the square does not fit.
    pub fn output(self, images: Images) -> Images {
        let size = |n: usize| {
            let room = n + 2 * self.padding;
            assert!(room >= self.kernel, "a square of {} does not fit into {room} pixels", self.kernel);
            (room - self.kernel) / self.stride + 1
        };
        Images { batch: images.batch, height: size(images.height), width: size(images.width) }
    }

    /// For output pixel `pixel` of all images: `(tap, input pixel)` of each tap that falls inside, in order of taps.
    #[inline(always)]
    pub(crate) fn taps(self, images: Images, pixel: usize) -> impl Iterator<Item = (usize, usize)> {
        let out = self.output(images);
        let (image, rest) = (pixel / out.pixels(), pixel % out.pixels());
        let (y, x) = (rest / out.width * self.stride, rest % out.width * self.stride);
        (0..self.kernel * self.kernel).filter_map(move |tap| {
            let (y, x) = (y + tap / self.kernel, x + tap % self.kernel);
            let inside = y >= self.padding
                && x >= self.padding
                && y < images.height + self.padding
                && x < images.width + self.padding;
            inside
                .then(|| (tap, (image * images.height + y - self.padding) * images.width + x - self.padding))
        })
    }
}
