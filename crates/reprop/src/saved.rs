//! What a forward evaluation keeps for its derivative, and how many bytes that is.

use std::any::Any;

use burn::tensor::{Bool, Int, Tensor};

use crate::Storing;

/// Tensors kept between a `forward_saving` and its `vjp`.
///
/// Implemented for tensors, options, vectors and tuples, so that most sub-blocks need no type of their own.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use reprop::Saved;
///
/// let device = Device::flex();
/// let saved = (Tensor::<2>::zeros([2, 3], &device), Some(Tensor::<1>::zeros([4], &device)));
/// assert_eq!(saved.bytes(), (2 * 3 + 4) * 4);
/// ```
pub trait Saved: Send + 'static {
    /// The bytes that these tensors hold in the device's memory.
    fn bytes(&self) -> u64;

    /// Shows `storing` every tensor of floats that may be rounded, in any order: for a pass that keeps them in
    /// [16 bits](crate::Pass::saved_in), once after the forward and once before the derivative. Where this does nothing, all stay as
    /// they are.
    fn store(&mut self, storing: &Storing<'_>) {
        let _ = storing;
    }
}

/// The bytes of `elements` elements of the type of `tensor`.
fn tensor_bytes(elements: usize, dtype: burn::tensor::DType) -> u64 {
    (elements * dtype.size()) as u64
}

impl<const D: usize> Saved for Tensor<D> {
    fn bytes(&self) -> u64 {
        tensor_bytes(self.shape().num_elements(), self.dtype())
    }

    fn store(&mut self, storing: &Storing<'_>) {
        storing.tensor(self);
    }
}

impl<const D: usize> Saved for Tensor<D, Int> {
    fn bytes(&self) -> u64 {
        tensor_bytes(self.shape().num_elements(), self.dtype())
    }
}

impl<const D: usize> Saved for Tensor<D, Bool> {
    fn bytes(&self) -> u64 {
        tensor_bytes(self.shape().num_elements(), self.dtype())
    }
}

impl Saved for () {
    fn bytes(&self) -> u64 {
        0
    }
}

impl<S: Saved> Saved for Option<S> {
    fn bytes(&self) -> u64 {
        self.as_ref().map_or(0, Saved::bytes)
    }

    fn store(&mut self, storing: &Storing<'_>) {
        if let Some(saved) = self {
            saved.store(storing);
        }
    }
}

impl<S: Saved> Saved for Vec<S> {
    fn bytes(&self) -> u64 {
        self.iter().map(Saved::bytes).sum()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        for saved in self {
            saved.store(storing);
        }
    }
}

macro_rules! tuple {
    ($($name:ident)+) => {
        impl<$($name: Saved),+> Saved for ($($name,)+) {
            fn bytes(&self) -> u64 {
                #[allow(non_snake_case, reason = "the tuple's fields carry their types' names")]
                let ($($name,)+) = self;
                0 $(+ $name.bytes())+
            }

            fn store(&mut self, storing: &Storing<'_>) {
                #[allow(non_snake_case, reason = "the tuple's fields carry their types' names")]
                let ($($name,)+) = self;
                $($name.store(storing);)+
            }
        }
    };
}
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);

/// A [`Saved`] whose type only the block that made it knows, so that blocks of different types share a stack.
pub struct AnySaved(Box<dyn Erased>);

/// A [`Saved`] behind a pointer.
trait Erased: Saved {
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl<S: Saved> Erased for S {
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

impl AnySaved {
    /// Forgets the type of `saved`.
    pub fn new<S: Saved>(saved: S) -> Self {
        Self(Box::new(saved))
    }

    /// The saved tensors as the type they were made with.
    ///
    /// # Panics
    ///
    /// Panics if they are of another type: a block was handed another block's saved tensors.
    pub fn into<S: Saved>(self) -> S {
        *self.0.into_any().downcast().unwrap_or_else(|_| {
            panic!(
                "saved tensors of another block were handed to a block that expects {}",
                std::any::type_name::<S>()
            )
        })
    }
}

impl Saved for AnySaved {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.0.store(storing);
    }
}
