//! Values that travel: as tensors in messages.

use std::vec::IntoIter;

use burn::tensor::{Device, Int, Tensor, TensorData, Transaction};
use reprop::{Saved, Streams};

/// A value that can be sent: inputs, targets and streams of a network.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use reprop_pipeline::Wire;
///
/// let device = Device::flex();
/// let mut sent = Vec::new();
/// Tensor::<1, Int>::from_ints([3, 7], &device).pack(&mut sent);
/// let labels = Tensor::<1, Int>::unpack(&mut sent.into_iter(), &device).unwrap();
/// assert_eq!(labels.into_data().iter::<i64>().collect::<Vec<_>>(), [3, 7]);
/// ```
pub trait Wire: Saved + Clone + Sized {
    /// Adds its tensors to a message.
    fn pack(self, tensors: &mut Vec<TensorData>);

    /// Takes its tensors from a message, if they are there and of the right shape.
    fn unpack(tensors: &mut IntoIter<TensorData>, device: &Device) -> Option<Self>;
}

impl<const D: usize> Wire for Tensor<D> {
    fn pack(self, tensors: &mut Vec<TensorData>) {
        tensors.push(self.into_data());
    }

    fn unpack(tensors: &mut IntoIter<TensorData>, device: &Device) -> Option<Self> {
        let data = tensors.next()?;
        (data.shape().len() == D).then(|| Self::from_data(data, device))
    }
}

impl<const D: usize> Wire for Tensor<D, Int> {
    fn pack(self, tensors: &mut Vec<TensorData>) {
        tensors.push(self.into_data());
    }

    fn unpack(tensors: &mut IntoIter<TensorData>, device: &Device) -> Option<Self> {
        let data = tensors.next()?;
        (data.shape().len() == D).then(|| Self::from_data(data, device))
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn pack(self, tensors: &mut Vec<TensorData>) {
        self.0.pack(tensors);
        self.1.pack(tensors);
    }

    fn unpack(tensors: &mut IntoIter<TensorData>, device: &Device) -> Option<Self> {
        Some((A::unpack(tensors, device)?, B::unpack(tensors, device)?))
    }
}

impl<const D: usize> Wire for Streams<D> {
    fn pack(self, tensors: &mut Vec<TensorData>) {
        // Both at once: their device is waited for once.
        tensors.extend(Transaction::default().register(self.x1).register(self.x2).execute());
    }

    fn unpack(tensors: &mut IntoIter<TensorData>, device: &Device) -> Option<Self> {
        Some(Self::new(Tensor::unpack(tensors, device)?, Tensor::unpack(tensors, device)?))
    }
}
