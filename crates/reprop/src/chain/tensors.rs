//! Burn's tensors as states, and as the ends of a step's graph.

use burn::tensor::{Gradients as AutodiffGradients, Tensor, TensorData};

use super::Departure;
use super::state::{LENGTH, State, Unreadable, read_length, take, write_length};
use crate::autodiff::{leaf, take as gradient_of};

impl<const D: usize> State for Tensor<D> {
    fn bytes(&self) -> usize {
        D * LENGTH + self.shape().num_elements() * self.dtype().size()
    }

    fn element_bytes(&self) -> usize {
        self.dtype().size()
    }

    fn write(&self, out: &mut Vec<u8>) {
        for length in self.dims() {
            write_length(length, out);
        }
        out.extend_from_slice(self.clone().inner().into_data().as_bytes());
    }

    fn depart(&self, out: &mut Departure) {
        for length in self.dims() {
            write_length(length, out.bytes());
        }
        let tensor = self.clone().inner();
        out.copy(async move { tensor.into_data_async().await.expect("the device works") });
    }

    fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable> {
        let mut dims = [0; D];
        for length in &mut dims {
            *length = read_length(bytes, 0)?;
        }
        let dtype = self.dtype();
        let elements = dims.iter().try_fold(dtype.size(), |product, &length| product.checked_mul(length));
        let values = take(bytes, elements.unwrap_or(usize::MAX))?.to_vec();
        let data = TensorData::from_bytes_vec(values, dims, dtype);
        Ok(Tensor::from_data(data, (&self.clone().inner().device(), dtype)))
    }

    fn empty(&self) -> Self {
        Tensor::empty([0; D], (&self.clone().inner().device(), self.dtype()))
    }
}

impl<const D: usize> State for Vec<Tensor<D>> {
    fn bytes(&self) -> usize {
        LENGTH + self.iter().map(State::bytes).sum::<usize>()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_length(self.len(), out);
        for tensor in self {
            tensor.write(out);
        }
    }

    fn depart(&self, out: &mut Departure) {
        write_length(self.len(), out.bytes());
        for tensor in self {
            tensor.depart(out);
        }
    }

    fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable> {
        let length = read_length(bytes, 0)?;
        let Some(kind) = self.first().filter(|_| length > 0) else {
            return if length == 0 { Ok(vec![]) } else { Err(Unreadable { wanted: length, found: 0 }) };
        };
        (0..length).map(|_| kind.read(bytes)).collect()
    }

    fn empty(&self) -> Self {
        self.first().map(State::empty).into_iter().collect()
    }
}

/// A state that autodiff can go through: a tensor, some of them, or a tuple of both.
pub trait Tensors: State {
    /// As roots of a graph of their own.
    fn leaves(self) -> Self;
    /// For the operations of a graph, without one.
    fn untracked(self) -> Self;
    /// Off any graph.
    fn plain(self) -> Self;
    /// The gradients of these leaves.
    fn gradients(&self, found: &mut AutodiffGradients) -> Self;
    /// `sum(self * weights)`, through which `backward` gives the product with `weights`.
    fn weighted(self, weights: Self) -> Tensor<1>;
    /// Zeros of the same shapes.
    fn zeros(&self) -> Self;
}

impl<const D: usize> Tensors for Tensor<D> {
    fn leaves(self) -> Self {
        leaf(self)
    }

    fn untracked(self) -> Self {
        self.inner().autodiff()
    }

    fn plain(self) -> Self {
        self.inner()
    }

    fn gradients(&self, found: &mut AutodiffGradients) -> Self {
        gradient_of(self, found)
    }

    fn weighted(self, weights: Self) -> Tensor<1> {
        (self * weights).sum()
    }

    fn zeros(&self) -> Self {
        self.clone().inner().zeros_like()
    }
}

impl<const D: usize> Tensors for Vec<Tensor<D>> {
    fn leaves(self) -> Self {
        self.into_iter().map(Tensors::leaves).collect()
    }

    fn untracked(self) -> Self {
        self.into_iter().map(Tensors::untracked).collect()
    }

    fn plain(self) -> Self {
        self.into_iter().map(Tensors::plain).collect()
    }

    fn gradients(&self, found: &mut AutodiffGradients) -> Self {
        self.iter().map(|tensor| tensor.gradients(found)).collect()
    }

    fn weighted(self, weights: Self) -> Tensor<1> {
        let parts = self.into_iter().zip(weights).map(|(tensor, weights)| tensor.weighted(weights));
        parts.reduce(|sum, part| sum + part).expect("a state of tensors has at least one")
    }

    fn zeros(&self) -> Self {
        self.iter().map(Tensors::zeros).collect()
    }
}

macro_rules! tuple {
    ($first:ident $weights:ident, $($name:ident $own:ident),+) => {
        #[allow(non_snake_case, reason = "the tuple's fields carry their types' names")]
        impl<$first: Tensors, $($name: Tensors),+> Tensors for ($first, $($name,)+) {
            fn leaves(self) -> Self {
                let ($first, $($name,)+) = self;
                ($first.leaves(), $($name.leaves(),)+)
            }

            fn untracked(self) -> Self {
                let ($first, $($name,)+) = self;
                ($first.untracked(), $($name.untracked(),)+)
            }

            fn plain(self) -> Self {
                let ($first, $($name,)+) = self;
                ($first.plain(), $($name.plain(),)+)
            }

            fn gradients(&self, found: &mut AutodiffGradients) -> Self {
                let ($first, $($name,)+) = self;
                ($first.gradients(found), $($name.gradients(found),)+)
            }

            fn weighted(self, weights: Self) -> Tensor<1> {
                let ($first, $($name,)+) = self;
                let ($weights, $($own,)+) = weights;
                $first.weighted($weights) $(+ $name.weighted($own))+
            }

            fn zeros(&self) -> Self {
                let ($first, $($name,)+) = self;
                ($first.zeros(), $($name.zeros(),)+)
            }
        }
    };
}
tuple!(A wa, B wb);
tuple!(A wa, B wb, C wc);
tuple!(A wa, B wb, C wc, D wd);

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn tensors_come_back_bit_for_bit_and_damage_is_an_error() {
        let device = Device::flex();
        let values = TensorData::new(vec![1.0f32, -0.0, f32::NAN, 3.5e-42, 5.0, 6.0], [2, 3]);
        let state = (Tensor::<2>::from_data(values.clone(), &device), vec![Tensor::<1>::ones([2], &device)]);
        let mut bytes = vec![];
        state.write(&mut bytes);
        assert_eq!(bytes.len(), state.bytes());
        let (tensor, others) = state.empty().read(&mut &bytes[..]).unwrap();
        assert_eq!(tensor.dims(), [2, 3]);
        assert_eq!(tensor.into_data().as_bytes(), values.as_bytes());
        assert_eq!(others[0].to_data().try_to_vec::<f32>().unwrap(), [1.0, 1.0]);
        for cut in 0..bytes.len() {
            assert!(state.empty().read(&mut &bytes[..cut]).is_err(), "{cut}");
        }
    }
}
