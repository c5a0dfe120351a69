//! Side inputs: what every block may look at beside its stream.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use burn::tensor::{Bool, Int, Tensor};

/// Values that every block sees beside its stream: masks, positions, conditions. One value a type.
///
/// No gradient flows into them.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use reprop::Side;
///
/// struct Positions(Tensor<2>);
///
/// let side = Side::new().with(Positions(Tensor::zeros([4, 8], &Device::flex())));
/// assert_eq!(side.get::<Positions>().map(|p| p.0.dims()), Some([4, 8]));
/// ```
#[derive(Clone, Default)]
pub struct Side {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Side {
    /// No side inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// These side inputs and `value`, which replaces one of its type.
    pub fn with<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.values.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// The side input of type `T`.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref())
    }
}

impl std::fmt::Debug for Side {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Side({} values)", self.values.len())
    }
}

/// Keys that attention must not look at: `true` hides token `j` of sample `i`.
///
/// # Shapes
///
/// `[batch, tokens]`
#[derive(Clone, Debug)]
pub struct HiddenKeys(pub Tensor<2, Bool>);

/// Other labels of the samples, in a batch whose samples were mixed: each belongs to its own label by `weight`, and to the
/// other one by the rest. Classifiers take them into their loss.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use reprop::{MixedLabels, Pass, Side};
///
/// let others = Tensor::from_ints([7, 3], &Device::flex());
/// let pass = Pass::training(42).side(Side::new().with(MixedLabels { others, weight: 0.8 }));
/// ```
#[derive(Clone, Debug)]
pub struct MixedLabels {
    /// `[batch]`, below the number of classes.
    pub others: Tensor<1, Int>,
    /// In `[0, 1]`.
    pub weight: f64,
}
