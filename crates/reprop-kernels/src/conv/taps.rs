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

    /// For input pixel `pixel` of all images: `(tap, output pixel)` of each place that sees it, in order of taps.
    #[inline(always)]
    pub(crate) fn places(self, images: Images, pixel: usize) -> impl Iterator<Item = (usize, usize)> {
        let out = self.output(images);
        let (image, rest) = (pixel / images.pixels(), pixel % images.pixels());
        // The place whose tap in this direction falls on `n`, if there is one.
        let place = move |n: usize, tap: usize, count: usize| {
            let from = (n + self.padding).checked_sub(tap)?;
            (from.is_multiple_of(self.stride) && from / self.stride < count).then(|| from / self.stride)
        };
        let (y, x) = (rest / images.width, rest % images.width);
        let rows = (0..self.kernel).filter_map(move |tap| Some((tap, place(y, tap, out.height)?)));
        rows.flat_map(move |(down, v)| {
            let columns = (0..self.kernel).filter_map(move |tap| Some((tap, place(x, tap, out.width)?)));
            columns.map(move |(across, u)| {
                (down * self.kernel + across, (image * out.height + v) * out.width + u)
            })
        })
    }
}
