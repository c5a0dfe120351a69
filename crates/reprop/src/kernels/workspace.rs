//! Memory that passes on fused kernels share.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use reprop_kernels::gemm::{Mat, PackedMatrix};

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
    packs: Mutex<Packs>,
}

/// Memory of packed weights.
#[derive(Debug, Default)]
struct Packs {
    /// What nobody uses.
    free: Vec<PackedMatrix>,
    /// Bytes in use.
    used: usize,
    /// The most bytes that were in use at once.
    most: usize,
}

fn bytes(packed: &PackedMatrix) -> usize {
    packed.k() * packed.n() * size_of::<f32>()
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

    /// Bytes that it keeps though no pass had lent them all at once: buffers of other sizes, and weights packed in other
    /// orders.
    pub fn idle(&self) -> u64 {
        let usage = self.kernels().usage();
        let packs = self.packs();
        let packed = packs.used + packs.free.iter().map(bytes).sum::<usize>();
        (usage.owned.saturating_sub(usage.peak) + packed.saturating_sub(packs.most)) as u64
    }

    /// Gives all memory that no pass uses back to the system.
    pub fn shrink(&self) {
        self.shared.kernels.shrink();
        self.packs().free.clear();
    }

    /// For kernels.
    pub(crate) fn kernels(&self) -> &reprop_kernels::Workspace {
        &self.shared.kernels
    }

    /// The matrix, packed as a right-hand operand.
    pub(crate) fn pack(&self, matrix: Mat) -> PackedMatrix {
        let mut packed = self.blank(matrix.rows, matrix.cols);
        packed.repack(matrix);
        packed
    }

    /// Memory for a packed matrix of `k` rows and `n` columns.
    pub(crate) fn blank(&self, k: usize, n: usize) -> PackedMatrix {
        let free = {
            let mut packs = self.packs();
            packs.used += k * n * size_of::<f32>();
            packs.most = packs.most.max(packs.used);
            let fits = |packed: &PackedMatrix| (packed.k(), packed.n()) == (k, n);
            packs.free.iter().position(fits).map(|index| packs.free.swap_remove(index))
        };
        free.unwrap_or_else(|| PackedMatrix::blank(self.kernels().isa(), k, n))
    }

    /// Keeps the memory of a packed matrix for the next one of its shape.
    pub(crate) fn take_back(&self, packed: PackedMatrix) {
        let mut packs = self.packs();
        packs.used -= bytes(&packed);
        packs.free.push(packed);
    }

    /// A panic while the lock is held leaves a whole list behind, so a poisoned lock is still good.
    fn packs(&self) -> MutexGuard<'_, Packs> {
        self.shared.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of buffers of these lengths, as a workspace lends them.
pub(crate) fn lent(lens: impl IntoIterator<Item = usize>) -> u64 {
    lens.into_iter().map(|len| reprop_kernels::Workspace::bytes(len) as u64).sum()
}

/// By how many bytes less buffers of these lengths take in 16 bits.
pub(crate) fn spared(lens: impl IntoIterator<Item = usize>) -> u64 {
    let less = |len: usize| lent([len]) - lent([len.div_ceil(2)]);
    lens.into_iter().map(less).sum()
}
