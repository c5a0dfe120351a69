//! What stages tell about their work.

use burn::tensor::TensorData;

use crate::Score;

/// What is known of a batch when it has come down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// The batch.
    pub batch: u64,
    /// Its loss.
    pub loss: f32,
    /// How good the output was.
    pub score: Score,
    /// The most bytes of activations of any stage so far.
    pub activation_peak: u64,
    /// The batch of the last record that all stages above have saved.
    pub(crate) saved: Option<u64>,
}

impl Report {
    pub(crate) fn pack(self) -> TensorData {
        let Self { loss, score: Score { right, seen }, activation_peak, saved, .. } = self;
        let saved = saved.map_or(-1, |batch| batch as i64);
        let loss = i64::from(loss.to_bits());
        numbers(&[loss, right as i64, seen as i64, activation_peak as i64, saved])
    }

    pub(crate) fn unpack(batch: u64, data: &TensorData) -> Option<Self> {
        let numbers: Vec<i64> = data.iter::<i64>().collect();
        let [loss, right, seen, peak, saved] = numbers[..] else { return None };
        Some(Self {
            batch,
            loss: f32::from_bits(loss as u32),
            score: Score { right: right as u64, seen: seen as u64 },
            activation_peak: peak as u64,
            saved: u64::try_from(saved).ok(),
        })
    }
}

/// What a stage held at most, and waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The stage.
    pub stage: usize,
    /// Bytes of its parameters.
    pub parameter_bytes: u64,
    /// The most bytes of inputs of batches in flight.
    pub input_bytes: u64,
    /// The most bytes of older parameters.
    pub version_bytes: u64,
    /// The most bytes of activations, inputs included.
    pub activation_peak: u64,
    /// Microseconds that it waited for messages.
    pub waited_micros: u64,
}

impl Summary {
    pub(crate) fn pack(self) -> TensorData {
        let Self { stage, parameter_bytes, input_bytes, version_bytes, activation_peak, waited_micros } =
            self;
        let all = [stage as u64, parameter_bytes, input_bytes, version_bytes, activation_peak, waited_micros];
        numbers(&all.map(|number| number as i64))
    }

    pub(crate) fn unpack(data: &TensorData) -> Option<Self> {
        let numbers: Vec<u64> = data.iter::<i64>().map(|number| number as u64).collect();
        let [stage, parameter_bytes, input_bytes, version_bytes, activation_peak, waited_micros] =
            numbers[..]
        else {
            return None;
        };
        let stage = stage as usize;
        Some(Self { stage, parameter_bytes, input_bytes, version_bytes, activation_peak, waited_micros })
    }
}

/// Numbers as a tensor.
pub(crate) fn numbers(values: &[i64]) -> TensorData {
    TensorData::new(values.to_vec(), [values.len()])
}
