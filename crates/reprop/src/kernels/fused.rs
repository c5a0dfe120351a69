//! What a layer needs to run on fused kernels.

use std::sync::Arc;

use burn::module::Param;
use burn::tensor::Tensor;

use super::{Packed, Packs, Workspace};
use crate::Meter;

/// Memory and packed weights of a pass that runs on fused kernels.
#[derive(Clone, Copy)]
pub(crate) struct Fused<'p> {
    pub workspace: &'p Workspace,
    pub packs: &'p Packs,
    pub meter: &'p Meter,
}

impl Fused<'_> {
    /// For kernels.
    pub fn memory(&self) -> &reprop_kernels::Workspace {
        self.workspace.kernels()
    }

    /// The weight, packed.
    pub fn pack(&self, weight: &Param<Tensor<2>>) -> Arc<Packed> {
        self.packs.get(weight, self.workspace, self.meter)
    }
}

/// Bytes of buffers of these lengths, as a workspace lends them.
pub(crate) fn lent(lens: impl IntoIterator<Item = usize>) -> u64 {
    lens.into_iter().map(|len| reprop_kernels::Workspace::bytes(len) as u64).sum()
}
