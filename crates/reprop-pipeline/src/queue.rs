//! How inputs wait for their backward: as they are, or in fewer bits.
//!
//! Parts that are not reversible keep the inputs of all batches in flight, which is most of what PETRA keeps. Fewer bits
//! make the queue really smaller, and its inputs, from which gradients are computed and which go further down, less exact.

use std::fmt;
use std::str::FromStr;
use std::vec::IntoIter;

use burn::tensor::{DType, Device, Tensor, TensorData};
use reprop::{Arithmetic, Streams};

/// The largest number in eight bits.
const STEPS: f32 = 255.0;

/// How inputs wait for their backward in parts that are not reversible.
///
/// ```
/// use reprop_pipeline::Queue;
///
/// assert_eq!(Queue::F32.bytes(&[2, 3, 4, 4]), 384);
/// assert_eq!("f16".parse::<Queue>().unwrap().bytes(&[2, 3, 4, 4]), 192);
/// // A byte for each number, and two floats for each channel of each sample.
/// assert_eq!(Queue::U8.bytes(&[2, 3, 4, 4]), 96 + 6 * 8);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Queue {
    /// As they are.
    #[default]
    F32,
    /// In half precision: eleven bits and an exponent.
    F16,
    /// In eight bits, between the least and the largest number of each channel (or token) of each sample.
    U8,
}

impl Queue {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::U8];

    /// Bytes of a waiting tensor of this shape.
    pub fn bytes(self, dims: &[usize]) -> u64 {
        let elements = dims.iter().product::<usize>() as u64;
        match self {
            Self::F32 => 4 * elements,
            Self::F16 => 2 * elements,
            Self::U8 => elements + 8 * rows(dims) as u64,
        }
    }

    /// Streams as they wait.
    pub(crate) fn pack<const D: usize>(self, streams: Streams<D>, tensors: &mut Vec<TensorData>) {
        for x in [streams.x1, streams.x2] {
            match self {
                Self::F32 => tensors.push(x.into_data()),
                Self::F16 => tensors.push(x.cast(DType::F16).into_data()),
                Self::U8 => tensors.extend(to_bytes(&x.into_data())),
            }
        }
    }

    /// Streams that have waited, in the arithmetic of streams.
    pub(crate) fn unpack<const D: usize>(
        self,
        tensors: &mut IntoIter<TensorData>,
        arithmetic: Arithmetic,
        device: &Device,
    ) -> Option<Streams<D>> {
        let mut next = || {
            let data = tensors.next().filter(|data| data.shape().len() == D)?;
            let data = if self == Self::U8 { from_bytes(&data, &tensors.next()?)? } else { data };
            let x = Tensor::<D>::from_data(data.convert::<f32>(), device);
            Some(if self == Self::F32 { x } else { arithmetic.enter(x) })
        };
        Some(Streams::new(next()?, next()?))
    }
}

/// Runs of numbers that share their least and largest one.
fn rows(dims: &[usize]) -> usize {
    dims.iter().take(2).product()
}

/// A byte for each number; the least number and the step between two bytes for each row.
fn to_bytes(data: &TensorData) -> [TensorData; 2] {
    let values: Vec<f32> = data.iter::<f32>().collect();
    let count = rows(data.shape());
    let mut bytes = Vec::with_capacity(values.len());
    let mut scales = Vec::with_capacity(2 * count);
    for row in values.chunks(values.len().checked_div(count).unwrap_or(0).max(1)) {
        let least = row.iter().copied().fold(f32::INFINITY, f32::min);
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let step = (largest - least) / STEPS;
        let scale = if step > 0.0 { step.recip() } else { 0.0 };
        bytes.extend(row.iter().map(|value| ((value - least) * scale).round() as u8));
        scales.extend([least, step]);
    }
    let shape = data.shape().to_vec();
    [TensorData::new(bytes, shape), TensorData::new(scales, [count, 2])]
}

fn from_bytes(bytes: &TensorData, scales: &TensorData) -> Option<TensorData> {
    let scales: Vec<f32> = scales.iter::<f32>().collect();
    let width = bytes.as_bytes().len().checked_div(scales.len() / 2)?.max(1);
    let mut values = Vec::with_capacity(bytes.as_bytes().len());
    for (row, scale) in bytes.as_bytes().chunks(width).zip(scales.chunks(2)) {
        values.extend(row.iter().map(|byte| f32::from(*byte).mul_add(scale[1], scale[0])));
    }
    (values.len() == bytes.as_bytes().len()).then(|| TensorData::new(values, bytes.shape().to_vec()))
}

impl fmt::Display for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::U8 => "u8",
        })
    }
}

/// A name that is not a queue's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no queue of `{0}`: choose f32, f16 or u8")]
pub struct UnknownQueue(String);

impl FromStr for Queue {
    type Err = UnknownQueue;

    fn from_str(name: &str) -> Result<Self, UnknownQueue> {
        let known = Self::ALL.into_iter().find(|queue| queue.to_string() == name);
        known.ok_or_else(|| UnknownQueue(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of the last of eleven bits, of numbers below 8.
    const HALF_PRECISION: f32 = 8.0 / 4096.0;

    fn streams(scale: f32) -> Streams<3> {
        let values = |offset: f32| -> Vec<f32> {
            (0..24).map(|index| ((index * 7 % 24) as f32 - 11.0 + offset) * scale).collect()
        };
        let tensor = |offset| Tensor::from_data(TensorData::new(values(offset), [2, 3, 4]), &Device::flex());
        Streams::new(tensor(0.0), tensor(0.25))
    }

    #[test]
    fn streams_come_back_as_exactly_as_the_queue_tells_in_the_bytes_it_tells() {
        // Multiples of 2^-14, below 4.
        let streams = streams(0.28).clone();
        let exact =
            Streams::new(Arithmetic::default().enter(streams.x1), Arithmetic::default().enter(streams.x2));
        for queue in Queue::ALL {
            let mut tensors = Vec::new();
            queue.pack(exact.clone(), &mut tensors);
            let bytes: u64 = tensors.iter().map(|data| data.as_bytes().len() as u64).sum();
            assert_eq!(bytes, 2 * queue.bytes(&[2, 3, 4]), "{queue}");
            let back: Streams<3> = queue
                .unpack(&mut tensors.into_iter(), Arithmetic::default(), &Device::flex())
                .expect("what was packed");
            let error =
                |a: &Tensor<3>, b: &Tensor<3>| (a.clone() - b.clone()).abs().max().into_scalar::<f32>();
            let worst = error(&back.x1, &exact.x1).max(error(&back.x2, &exact.x2));
            // A row reaches over at most 24 numbers of the sequence; half a step is lost, and half of 2^-14.
            let allowed = match queue {
                Queue::F32 => 0.0,
                Queue::F16 => HALF_PRECISION,
                Queue::U8 => 24.0 * 0.28 / STEPS,
            };
            assert!(worst <= allowed && (queue == Queue::F32 || worst > 0.0), "{queue}: {worst}");
        }
    }

    #[test]
    fn a_row_of_equal_numbers_comes_back_as_it_was() {
        let x = Tensor::<3>::full([1, 2, 3], 0.5, &Device::flex());
        let mut tensors = Vec::new();
        Queue::U8.pack(Streams::duplicate(x.clone()), &mut tensors);
        let back: Streams<3> =
            Queue::U8.unpack(&mut tensors.into_iter(), Arithmetic::default(), &Device::flex()).unwrap();
        assert_eq!(back.x2.into_data(), x.into_data());
    }
}
