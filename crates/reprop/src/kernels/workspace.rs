//! Memory that passes on fused kernels share.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use reprop_kernels::gemm::PackedWeight;

/// Memory for scratch, saved tensors and packed weights that goes from one pass to the next, so that a steady training
/// step finds it warm: the system clears fresh memory page by page, which costs more than many a kernel.
///
/// All passes of a process share one unless they are given their own.
///
/// ```
/// use reprop::{Pass, Workspace};
///
/// let workspace = Workspace::new();
/// let pass = Pass::training(42).workspace(&workspace);
/// // ... after the last step:
/// workspace.shrink();
/// ```
#[derive(Clone, Debug)]
pub struct Workspace {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    kernels: reprop_kernels::Workspace,
    /// Memory of packed weights that nobody uses.
    packs: Mutex<Vec<PackedWeight>>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Workspace {
    /// One with no memory yet.
    pub fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// The process's own.
    pub fn shared() -> Self {
        static SHARED: OnceLock<Workspace> = OnceLock::new();
        SHARED.get_or_init(Self::new).clone()
    }

    /// Gives all memory that no pass uses back to the system.
    pub fn shrink(&self) {
        self.shared.kernels.shrink();
        self.packs().clear();
    }

    /// For kernels.
    pub(crate) fn kernels(&self) -> &reprop_kernels::Workspace {
        &self.shared.kernels
    }

    /// The weight `inputs x outputs`, packed.
    pub(crate) fn pack(&self, weight: &[f32], [inputs, outputs]: [usize; 2]) -> PackedWeight {
        let free = {
            let mut packs = self.packs();
            let fits = |packed: &PackedWeight| (packed.inputs(), packed.outputs()) == (inputs, outputs);
            packs.iter().position(fits).map(|index| packs.swap_remove(index))
        };
        // The lock is gone by now: a thread that waits inside a parallel loop may take up work that wants it.
        match free {
            Some(mut packed) => {
                packed.repack(weight);
                packed
            }
            None => PackedWeight::new(self.kernels().isa(), weight, inputs, outputs),
        }
    }

    /// Keeps the memory of a packed weight for the next one of its shape.
    pub(crate) fn take_back(&self, packed: PackedWeight) {
        self.packs().push(packed);
    }

    /// A panic while the lock is held leaves a whole list behind, so a poisoned lock is still good.
    fn packs(&self) -> MutexGuard<'_, Vec<PackedWeight>> {
        self.shared.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
