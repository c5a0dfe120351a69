//! A picture of any size, its file, and its parts at another size.

use std::path::Path;

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use crate::{Error, Result};

/// Channels of a picture from a file.
pub(crate) const CHANNELS: usize = 3;
/// How a PNG begins.
const PNG: [u8; 4] = *b"\x89PNG";

/// A picture in planes of pixels in `[0, 1]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub width: usize,
    pub height: usize,
    /// `[channels, height, width]`.
    pub planes: Vec<f32>,
}

/// A part of a picture, in pixels of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Region {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Picture {
    /// The picture in a JPEG or PNG file, in red, green and blue. Which of the two is told by its first bytes: names of
    /// files are not always right.
    pub fn decode(path: &Path, file: &[u8]) -> Result<Self> {
        let damaged = |reason: String| Error::Damaged { path: path.into(), reason };
        let (width, height, pixels) =
            if file.starts_with(&PNG) { png(file) } else { jpeg(file) }.map_err(damaged)?;
        if width == 0 || height == 0 || pixels.len() != CHANNELS * width * height {
            return Err(damaged(format!("{} bytes of {width} x {height} pixels", pixels.len())));
        }
        let plane = |channel: usize| pixels.iter().skip(channel).step_by(CHANNELS);
        let planes = (0..CHANNELS).flat_map(plane).map(|&pixel| f32::from(pixel) / 255.0).collect();
        Ok(Self { width, height, planes })
    }

    /// The middle square that is left when the shorter side becomes `side / part` pixels.
    pub fn centre(&self, part: f64) -> Region {
        let side = self.width.min(self.height) as f64 * part;
        let start = |length: usize| (length as f64 - side) / 2.0;
        Region { left: start(self.width), top: start(self.height), width: side, height: side }
    }

    /// A region at `side x side` pixels: means of its pixels with weights that fall linearly, over as many of them as make
    /// one (the bilinear filter of imaging libraries, which does not alias when it shrinks).
    pub fn resized(&self, region: Region, side: usize) -> Vec<f32> {
        let columns = taps(region.left, region.width, self.width, side);
        let rows = taps(region.top, region.height, self.height, side);
        let first = rows.first().map_or(0, |taps| taps.first);
        let last = rows.last().map_or(0, |taps| taps.first + taps.weights.len());
        let mut result = Vec::with_capacity(self.planes.len() / (self.width * self.height) * side * side);
        for plane in self.planes.chunks(self.width * self.height) {
            // Rows that the region needs, at the new width.
            let narrow: Vec<f32> = plane
                .chunks(self.width)
                .take(last)
                .skip(first)
                .flat_map(|row| columns.iter().map(|taps| taps.of(|column| row[column])))
                .collect();
            for taps in &rows {
                result.extend((0..side).map(|column| taps.of(|row| narrow[(row - first) * side + column])));
            }
        }
        result
    }
}

/// Weights of the pixels from `first` on.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

impl Taps {
    fn of(&self, pixel: impl Fn(usize) -> f32) -> f32 {
        self.weights.iter().enumerate().map(|(index, weight)| weight * pixel(self.first + index)).sum()
    }
}

/// What each of `count` pixels takes of a row of `limit` pixels, of which they show `length` from `start` on.
fn taps(start: f64, length: f64, limit: usize, count: usize) -> Vec<Taps> {
    let scale = length / count as f64;
    let reach = scale.max(1.0);
    let (lowest, highest) = (start.floor().max(0.0), (start + length).ceil().min(limit as f64));
    let tap = |index: usize| {
        let middle = start + (index as f64 + 0.5) * scale;
        let first = (middle - reach).floor().max(lowest) as usize;
        let last = (middle + reach).ceil().min(highest) as usize;
        let weight = |pixel: usize| (1.0 - (pixel as f64 + 0.5 - middle).abs() / reach).max(0.0);
        let weights: Vec<f64> = (first..last).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        Taps { first, weights: weights.into_iter().map(|weight| (weight / sum) as f32).collect() }
    };
    (0..count).map(tap).collect()
}

type Decoded = std::result::Result<(usize, usize, Vec<u8>), String>;

fn jpeg(file: &[u8]) -> Decoded {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB).set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    let pixels = decoder.decode().map_err(|error| format!("not a JPEG or PNG file: {error:?}"))?;
    let (width, height) = decoder.dimensions().ok_or("its size is not told")?;
    Ok((width, height, pixels))
}

fn png(file: &[u8]) -> Decoded {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(file));
    // Palettes become colours, other depths become bytes.
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let size = reader.output_buffer_size().ok_or("its size overflows")?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(|error| error.to_string())?;
    pixels.truncate(info.buffer_size());
    let rgb = match info.color_type {
        png::ColorType::Rgb => pixels,
        png::ColorType::Rgba => pixels.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
        png::ColorType::Grayscale => pixels.iter().flat_map(|&grey| [grey; CHANNELS]).collect(),
        png::ColorType::GrayscaleAlpha => pixels.chunks_exact(2).flat_map(|p| [p[0]; CHANNELS]).collect(),
        png::ColorType::Indexed => return Err("its palette was not applied".into()),
    };
    Ok((info.width as usize, info.height as usize, rgb))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(picture: &Picture) -> Region {
        Region { left: 0.0, top: 0.0, width: picture.width as f64, height: picture.height as f64 }
    }

    #[test]
    fn the_own_size_changes_nothing_and_halves_are_means() {
        let planes: Vec<f32> = (0..16).map(|pixel| pixel as f32).collect();
        let picture = Picture { width: 4, height: 4, planes: planes.clone() };
        assert_eq!(picture.resized(whole(&picture), 4), planes);
        // Weights 1/8, 3/8, 3/8, 1/8 over the pixels around the middle, less those outside: worked out by hand.
        let half = picture.resized(whole(&picture), 2);
        let ends = [(0.0 * 3.0 + 1.0 * 3.0 + 2.0) / 7.0, (1.0 + 2.0 * 3.0 + 3.0 * 3.0) / 7.0];
        for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let expected = 4.0 * ends[row] + ends[column];
            assert!((half[2 * row + column] - expected).abs() < 1e-5, "{half:?}");
        }
    }

    #[test]
    fn a_slope_stays_a_slope_in_any_part_and_size() {
        let (width, height) = (37, 23);
        let planes = (0..height).flat_map(|_| (0..width).map(|column| column as f32 + 0.5)).collect();
        let picture = Picture { width, height, planes };
        let region = Region { left: 7.0, top: 2.0, width: 20.0, height: 15.0 };
        let resized = picture.resized(region, 10);
        for (index, pixel) in resized.iter().enumerate() {
            let expected = 7.0 + (index % 10) as f32 * 2.0 + 1.0;
            // At the ends the filter is cut off.
            let allowed = if (1..9).contains(&(index % 10)) { 1e-4 } else { 0.4 };
            assert!((pixel - expected).abs() < allowed, "{pixel} against {expected}");
        }
        assert_eq!(picture.centre(1.0), Region { left: 7.0, top: 0.0, width: 23.0, height: 23.0 });
    }
}
