//! Packed weights of one pass.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Param, ParamId};
use burn::tensor::Tensor;
use reprop_kernels::gemm::PackedWeight;

use super::{Floats, Workspace};
use crate::{Held, Holder, Meter};

/// Weights packed for fused kernels, each once in a pass and once more for every version of it that the pass meets.
///
/// A pack that belongs to another version can never be met: an entry keeps its weight's memory, so that it is neither
/// written in place nor given to another tensor, and it is used only for a weight in that very memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packs {
    entries: Arc<Mutex<HashMap<ParamId, Entry>>>,
}

struct Entry {
    weight: Floats,
    packed: Arc<Packed>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Entry({} floats)", self.weight.len())
    }
}

/// A packed weight whose memory goes back to its workspace.
#[derive(Debug)]
pub(crate) struct Packed {
    /// Empty only while it is dropped.
    weight: Option<PackedWeight>,
    home: Workspace,
    _held: Held,
}

impl Deref for Packed {
    type Target = PackedWeight;

    fn deref(&self) -> &PackedWeight {
        self.weight.as_ref().expect("empty only while it is dropped")
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        if let Some(weight) = self.weight.take() {
            self.home.take_back(weight);
        }
    }
}

impl Packs {
    /// The weight packed, counted by `meter`.
    pub fn get(&self, param: &Param<Tensor<2>>, workspace: &Workspace, meter: &Meter) -> Arc<Packed> {
        let weight = Floats::param(param);
        if let Some(packed) = self.find(param.id, &weight) {
            return packed;
        }
        let shape @ [inputs, outputs] = param.dims();
        let packed = Arc::new(Packed {
            weight: Some(workspace.pack(&weight, shape)),
            home: workspace.clone(),
            _held: meter.hold(Holder::PackedWeights, 2 * (inputs * outputs * size_of::<f32>()) as u64),
        });
        let entry = Entry { weight, packed: packed.clone() };
        // What was there goes after the lock: it gives memory back to the workspace, which has a lock of its own.
        let before = self.entries.lock().unwrap_or_else(PoisonError::into_inner).insert(param.id, entry);
        drop(before);
        packed
    }

    fn find(&self, id: ParamId, weight: &Floats) -> Option<Arc<Packed>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(&id).filter(|entry| entry.weight.same(weight)).map(|entry| entry.packed.clone())
    }
}
