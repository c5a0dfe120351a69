//! A right-hand operand packed once and used many times: a layer's weight for as long as its version lives.

use super::{Mat, blocks, k_block, pack};
use crate::memory::Memory;
use crate::share::Shared;
use crate::simd::{Isa, dispatch};
use crate::tasks::for_each;

/// A `k x n` matrix packed as a right-hand operand for one instruction set.
#[derive(Clone, Debug)]
pub struct PackedMatrix {
    isa: Isa,
    k: usize,
    n: usize,
    /// Aligned to cache lines, so that a load of a vector touches one.
    data: Memory,
}

impl PackedMatrix {
    /// Packs `b`.
    pub fn new(isa: Isa, b: Mat) -> Self {
        let mut packed = Self::blank(isa, b.rows, b.cols);
        packed.repack(b);
        packed
    }

    /// Memory for a `k x n` matrix.
    pub fn blank(isa: Isa, k: usize, n: usize) -> Self {
        Self { isa, k, n, data: Memory::zeros(packed_len(isa, k, n)) }
    }

    /// A shape without memory, for the half of a [`PackedWeight`] that is not multiplied by.
    pub fn shape_only(isa: Isa, k: usize, n: usize) -> Self {
        Self { isa, k, n, data: Memory::zeros(0) }
    }

    /// Whether it is a shape without memory.
    pub fn is_shape_only(&self) -> bool {
        self.data.is_empty()
    }

    /// Packs another matrix of the same shape into the same memory.
    ///
    /// # Panics
    /// If the shape differs.
    pub fn repack(&mut self, b: Mat) {
        assert_eq!((b.rows, b.cols), (self.k, self.n), "a packed matrix keeps its shape");
        let wide = packed_len(self.isa, 1, self.n);
        let panel = self.isa.panel_width();
        // Some tens of kilobytes a task.
        let columns = (TASK / k_block(self.k).max(1)).next_multiple_of(panel);
        let tasks: Vec<_> = blocks(self.k, k_block(self.k))
            .flat_map(|depth| blocks(self.n, columns).map(move |columns| (depth.clone(), columns)))
            .collect();
        let (isa, data) = (self.isa, Shared::new(&mut self.data));
        for_each(tasks.len(), |i| {
            let (depth, columns) = tasks[i].clone();
            let at = depth.start * wide + columns.start * depth.len();
            // SAFETY: panels of other columns and depths lie elsewhere.
            let to = unsafe { data.slice(at..at + depth.len() * columns.len().next_multiple_of(panel)) };
            pack_part(isa, b, columns, depth, to);
        });
    }

    /// Rows.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Columns.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The instruction set it is packed for.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    pub(crate) fn data(&self) -> &[f32] {
        &self.data
    }

    pub(crate) fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }
}

/// A layer's weight packed for `x W` and for `x Wᵀ`: what its forward and its derivative multiply by.
#[derive(Clone, Debug)]
pub struct PackedWeight {
    /// `W`, inputs x outputs.
    pub forward: PackedMatrix,
    /// `Wᵀ`.
    pub backward: PackedMatrix,
}

impl PackedWeight {
    /// Packs a row-major `inputs x outputs` weight.
    pub fn new(isa: Isa, weight: &[f32], inputs: usize, outputs: usize) -> Self {
        let w = Mat::new(weight, inputs, outputs);
        Self { forward: PackedMatrix::new(isa, w), backward: PackedMatrix::new(isa, w.t()) }
    }

    /// Packs a new version of the weight into the same memory.
    ///
    /// # Panics
    /// If the weight is too short for the shape.
    pub fn repack(&mut self, weight: &[f32]) {
        let w = Mat::new(weight, self.inputs(), self.outputs());
        rayon::join(|| self.forward.repack(w), || self.backward.repack(w.t()));
    }

    /// Rows of `W`.
    pub fn inputs(&self) -> usize {
        self.forward.k
    }

    /// Columns of `W`.
    pub fn outputs(&self) -> usize {
        self.forward.n
    }
}

/// A layer's weight as a kernel takes it. Both ways give the same bits.
#[derive(Clone, Copy, Debug)]
pub enum Weight<'a> {
    /// Packed beforehand: tasks are rows, and each reads all of it.
    Packed(&'a PackedWeight),
    /// As it is, inputs x outputs: tasks are columns, and each packs its own. The better way for
    /// [few rows](crate::linear::FEW_ROWS), which would not outweigh reading a packed weight for each task, and packing it.
    Fresh(Mat<'a>),
}

impl<'a> From<&'a PackedWeight> for Weight<'a> {
    fn from(packed: &'a PackedWeight) -> Self {
        Self::Packed(packed)
    }
}

impl Weight<'_> {
    /// Rows of `W`.
    pub fn inputs(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.inputs(),
            Self::Fresh(values) => values.rows,
        }
    }

    /// Columns of `W`.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.outputs(),
            Self::Fresh(values) => values.cols,
        }
    }
}

/// Floats that a packed `k x n` matrix takes.
pub(crate) fn packed_len(isa: Isa, k: usize, n: usize) -> usize {
    k * n.next_multiple_of(isa.panel_width())
}

/// Floats that one task packs.
const TASK: usize = 1 << 14;

dispatch! {
    fn pack_part(s: Isa, b: Mat, columns: std::ops::Range<usize>, depth: std::ops::Range<usize>, out: &mut [f32]) {
        pack::columns(s, b, columns, depth, out);
    }
}

dispatch! {
    /// Packs the whole of `b`: block of `k` after block, in each all panels.
    pub(crate) fn pack_all(s: Isa, b: Mat, out: &mut [f32]) {
        let wide = b.cols.next_multiple_of(S::NR);
        for depth in blocks(b.rows, k_block(b.rows)) {
            let to = &mut out[depth.start * wide..depth.end * wide];
            pack::columns(s, b, 0..b.cols, depth, to);
        }
    }
}
