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

    /// What each output pixel sees.
    pub(crate) fn seen(self, images: Images) -> Meetings {
        let out = self.output(images);
        let spans = |count: usize, size: usize| {
            let span = |n: usize| {
                let from = n * self.stride;
                let tap = self.padding.saturating_sub(from);
                let end = (size + self.padding).saturating_sub(from).min(self.kernel);
                Span { count: end.saturating_sub(tap), tap, pixel: (from + tap).saturating_sub(self.padding) }
            };
            (0..count).map(span).collect()
        };
        let (down, across) = (spans(out.height, images.height), spans(out.width, images.width));
        Meetings { down, across, met: images, kernel: self.kernel, step: 1, direction: 1 }
    }

    /// Which output pixels see each input pixel.
    pub(crate) fn seeing(self, images: Images) -> Meetings {
        let out = self.output(images);
        let spans = |size: usize, count: usize| {
            let span = |n: usize| {
                // The last place that can see it does so by the first tap; each place before it by one that is a stride later.
                let pixel = ((n + self.padding) / self.stride).min(count - 1);
                let tap = n + self.padding - pixel * self.stride;
                let taps = self.kernel.saturating_sub(tap).div_ceil(self.stride);
                Span { count: taps.min(pixel + 1), tap, pixel }
            };
            (0..size).map(span).collect()
        };
        let (down, across) = (spans(images.height, out.height), spans(images.width, out.width));
        Meetings { down, across, met: out, kernel: self.kernel, step: self.stride, direction: -1 }
    }
}

/// Which pixels of some images meet which of others, and by which taps: along each axis a row of taps and a row of pixels.
#[derive(Clone, Debug)]
pub(crate) struct Meetings {
    down: Vec<Span>,
    across: Vec<Span>,
    /// The others.
    met: Images,
    kernel: usize,
    /// From tap to tap.
    step: usize,
    /// From pixel to pixel: forwards or backwards.
    direction: isize,
}

/// Along one axis: how many taps, the first one, and the pixel it falls on.
#[derive(Clone, Copy, Debug)]
struct Span {
    count: usize,
    tap: usize,
    pixel: usize,
}

/// The taps and pixels that one pixel meets: rows and columns of a rectangle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    pub rows: usize,
    pub columns: usize,
    tap: usize,
    pixel: usize,
    tap_steps: (usize, usize),
    pixel_steps: (isize, isize),
}

impl Meetings {
    /// Of pixel `pixel` of all images.
    #[inline(always)]
    pub(crate) fn of(&self, pixel: usize) -> Patch {
        let (line, x) = (pixel / self.across.len(), pixel % self.across.len());
        let (image, y) = (line / self.down.len(), line % self.down.len());
        let (down, across, width) = (self.down[y], self.across[x], self.met.width);
        Patch {
            rows: down.count,
            columns: across.count,
            tap: down.tap * self.kernel + across.tap,
            pixel: (image * self.met.height + down.pixel) * width + across.pixel,
            tap_steps: (self.step * self.kernel, self.step),
            pixel_steps: (self.direction * width as isize, self.direction),
        }
    }
}

impl Patch {
    /// The tap and the pixel in a row and a column, in order of taps.
    #[inline(always)]
    pub(crate) fn at(self, row: usize, column: usize) -> (usize, usize) {
        let pixel = row as isize * self.pixel_steps.0 + column as isize * self.pixel_steps.1;
        let tap = row * self.tap_steps.0 + column * self.tap_steps.1;
        (self.tap + tap, self.pixel.wrapping_add_signed(pixel))
    }
}
