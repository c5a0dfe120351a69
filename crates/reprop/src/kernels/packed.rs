//! A weight in the order in which kernels read it.

use std::ops::Deref;

use burn::module::Param;
use burn::tensor::Tensor;
use reprop_kernels::gemm::{Mat, PackedMatrix, PackedWeight, Weight};
use reprop_kernels::linear::FEW_ROWS;

use super::{Floats, Workspace, lent};

/// What a sub-block does with its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Multiplies by them.
    Forward,
    /// Multiplies by their transposes.
    Vjp,
    /// Both.
    Reverse,
}

/// A weight packed for one call of one sub-block; its memory goes back to the workspace.
///
/// It is packed anew for each call and never kept: a forward reads another half of it than a derivative, so that
/// `Stored` packs nothing twice; a copy of all weights would outweigh the activations of a network that is recovered;
/// and no version of a weight can be met after another has taken its place.
#[derive(Debug)]
pub(crate) struct Packed {
    /// Empty only while it is dropped.
    weight: Option<PackedWeight>,
    home: Workspace,
}

impl Packed {
    /// A weight whose last axis are the outputs, and whose others are the inputs.
    pub fn new<const D: usize>(param: &Param<Tensor<D>>, usage: Use, home: &Workspace) -> Self {
        let dims = param.dims();
        let (inputs, outputs) = (dims[..D - 1].iter().product(), dims[D - 1]);
        let values = Floats::param(param);
        let matrix = Mat::new(&values, inputs, outputs);
        let isa = home.kernels().isa();
        let forward = match usage {
            Use::Forward | Use::Reverse => home.pack(matrix),
            Use::Vjp => PackedMatrix::shape_only(isa, inputs, outputs),
        };
        let backward = match usage {
            Use::Vjp | Use::Reverse => home.pack(matrix.t()),
            Use::Forward => PackedMatrix::shape_only(isa, outputs, inputs),
        };
        let weight = PackedWeight { forward, backward };
        Self { weight: Some(weight), home: home.clone() }
    }

    /// Two weights, packed side by side.
    pub fn pair(
        first: &Param<Tensor<2>>,
        second: &Param<Tensor<2>>,
        usage: Use,
        home: &Workspace,
    ) -> (Self, Self) {
        rayon::join(|| Self::new(first, usage, home), || Self::new(second, usage, home))
    }

    /// Bytes of a packed weight.
    pub fn bytes(inputs: usize, outputs: usize) -> u64 {
        (inputs * outputs * size_of::<f32>()) as u64
    }
}

impl Deref for Packed {
    type Target = PackedWeight;

    fn deref(&self) -> &PackedWeight {
        self.weight.as_ref().expect("empty only while it is dropped")
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        if let Some(PackedWeight { forward, backward }) = self.weight.take() {
            for packed in [forward, backward].into_iter().filter(|packed| !packed.is_shape_only()) {
                self.home.take_back(packed);
            }
        }
    }
}

/// A weight for so many rows: packed for many, as it is for few.
pub(crate) enum RowsWeight {
    Many(Packed),
    Few(Floats, [usize; 2]),
}

impl RowsWeight {
    /// Two weights for the same rows.
    pub fn pair(
        rows: usize,
        first: &Param<Tensor<2>>,
        second: &Param<Tensor<2>>,
        usage: Use,
        home: &Workspace,
    ) -> (Self, Self) {
        if rows <= FEW_ROWS {
            let few = |param: &Param<Tensor<2>>| Self::Few(Floats::param(param), param.dims());
            return (few(first), few(second));
        }
        let (first, second) = Packed::pair(first, second, usage, home);
        (Self::Many(first), Self::Many(second))
    }

    /// As kernels take it.
    pub fn weight(&self) -> Weight<'_> {
        match self {
            Self::Many(packed) => Weight::Packed(packed),
            Self::Few(values, [inputs, outputs]) => Weight::Fresh(Mat::new(values, *inputs, *outputs)),
        }
    }

    /// Bytes that it takes beside the parameter: a packed weight for many rows, and for few the given buffers, in which whole tensors
    /// go from one product to the next.
    pub fn bytes<const N: usize>(rows: usize, [inputs, outputs]: [usize; 2], few: [usize; N]) -> u64 {
        if rows <= FEW_ROWS { lent(few) } else { Packed::bytes(inputs, outputs) }
    }
}
