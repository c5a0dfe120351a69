//! A 3x3 filter bank transformed and packed once for each version of the weight, and the way back for its gradient.
//!
//! Filters are transformed straight into the panels that products read: each value of the 36 matrices is written once.

use std::ops::Range;

use super::split;
use super::tiles::Layout;
use super::winograd::{Filter, FilterBack, both_sides};
use crate::batch_norm::whole;
use crate::gemm::micro::LINE;
use crate::gemm::{PackedMatrix, blocks, k_block};
use crate::share::Shared;
use crate::simd::{SQUARE, Simd, dispatch};
use crate::sweep::sweep;
use crate::tasks::for_each;
use crate::workspace::{Workspace, beyond_caches};

/// The convolution that filters are transformed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stride {
    /// [`Conv3x3`](super::Conv3x3).
    One,
    /// [`Strided3x3`](super::Strided3x3).
    Two,
}

/// `U = G g Gᵀ`: 36 matrices inputs x outputs, packed for the forward, and their transposes for the input's gradient.
#[derive(Clone, Debug)]
pub struct WinogradWeight {
    inputs: usize,
    outputs: usize,
    stride: Stride,
    pub(crate) forward: Vec<PackedMatrix>,
    pub(crate) backward: Vec<PackedMatrix>,
}

impl WinogradWeight {
    /// Transforms a 3 x 3 x inputs x outputs weight.
    ///
    /// # Panics
    /// If the length does not fit.
    pub fn new(weight: &[f32], inputs: usize, outputs: usize, ws: &Workspace) -> Self {
        Self::with_stride(Stride::One, weight, (inputs, outputs), ws)
    }

    /// The same for a convolution of either stride.
    ///
    /// # Panics
    /// If the length does not fit.
    pub fn with_stride(
        stride: Stride,
        weight: &[f32],
        (inputs, outputs): (usize, usize),
        ws: &Workspace,
    ) -> Self {
        let blank = |k, n| (0..36).map(|_| PackedMatrix::blank(ws.isa(), k, n)).collect();
        let (forward, backward) = (blank(inputs, outputs), blank(outputs, inputs));
        let mut transformed = Self { inputs, outputs, stride, forward, backward };
        transformed.repack(weight, ws);
        transformed
    }

    /// Transforms a weight for one use alone: a forward, or with `transposed` a derivative. `blank` gives memory to each
    /// matrix of the given rows and columns.
    ///
    /// # Panics
    /// If the length does not fit.
    pub fn half(
        stride: Stride,
        weight: &[f32],
        (inputs, outputs): (usize, usize),
        transposed: bool,
        blank: impl Fn(usize, usize) -> PackedMatrix,
        ws: &Workspace,
    ) -> Self {
        let (k, n) = if transposed { (outputs, inputs) } else { (inputs, outputs) };
        let mut used: Vec<_> = (0..36).map(|_| blank(k, n)).collect();
        let unused = vec![PackedMatrix::shape_only(ws.isa(), n, k); 36];
        transform(stride, weight, transposed, &mut used, ws);
        let (forward, backward) = if transposed { (unused, used) } else { (used, unused) };
        Self { inputs, outputs, stride, forward, backward }
    }

    /// The matrices, with their memory: first the forward's, then the derivative's.
    pub fn into_packed(self) -> impl Iterator<Item = PackedMatrix> {
        self.forward.into_iter().chain(self.backward)
    }

    /// Transforms a new version of the weight into the same memory.
    ///
    /// # Panics
    /// If the length does not fit.
    pub fn repack(&mut self, weight: &[f32], ws: &Workspace) {
        transform(self.stride, weight, false, &mut self.forward, ws);
        transform(self.stride, weight, true, &mut self.backward, ws);
    }

    /// What the filters are transformed for.
    pub fn stride(&self) -> Stride {
        self.stride
    }

    /// Input channels.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Output channels.
    pub fn outputs(&self) -> usize {
        self.outputs
    }
}

/// Rows of a transposed weight that are made at once: a cache line of each of its columns, and nine matrices of them fit into
/// half of a first-level cache.
const TURNED: usize = LINE;

/// Rows of a weight that are asked for before they are transformed: each is a few lines of nine matrices, which no cache
/// expects.
const AHEAD: usize = 8;

/// Floats from what is read of each of 36 matrices of gradients to what is asked for: more than a core has streams for.
const FAR: usize = 4 * LINE;

/// Floats of each matrix that are transformed before they are copied: a few rows of the widest panel, and 36 times as many
/// fit into half of a first-level cache.
const STAGE: usize = 128;

/// `U` of each filter, packed: 36 matrices of `k x n` from the nine of `weight`, or from their transposes.
fn transform(stride: Stride, weight: &[f32], transposed: bool, packed: &mut [PackedMatrix], ws: &Workspace) {
    let (k, n) = (packed[0].k(), packed[0].n());
    assert_eq!(weight.len(), 9 * k * n, "the weight must be nine matrices of {k} x {n}");
    let (isa, width) = (ws.isa(), ws.isa().panel_width());
    let wide = n.next_multiple_of(width);
    let points: Vec<Shared> = packed.iter_mut().map(|packed| Shared::new(packed.data_mut())).collect();
    for_each(n.div_ceil(width), |panel| {
        let columns = panel * width..((panel + 1) * width).min(n);
        // Columns beyond the last stay zero.
        let mut stage = ws.take_zeroed(36 * STAGE);
        let mut turned = ws.take(if transposed { 9 * TURNED * columns.len() } else { 0 });
        for depth in blocks(k, k_block(k)) {
            for some in blocks(depth.len(), if transposed { TURNED } else { depth.len() }) {
                let start = depth.start * wide + columns.start * depth.len() + some.start * width;
                // SAFETY: each task has its own panel of each block of each matrix.
                let mut to: [&mut [f32]; 36] = std::array::from_fn(|point| unsafe {
                    points[point].slice(start..start + width * some.len())
                });
                let rows = depth.start + some.start..depth.start + some.end;
                if !transposed {
                    transform_panel(isa, stride, (weight, k, n), columns.clone(), rows, &mut stage, &mut to);
                    continue;
                }
                let (k_some, n_some) = (some.len(), columns.len());
                for (tap, turned) in turned.chunks_exact_mut(k_some * n_some).take(9).enumerate() {
                    let matrix = &weight[(tap * n + columns.start) * k..][..n_some * k];
                    turn_columns(isa, matrix, k, rows.clone(), turned);
                }
                let turned = (&turned[..], k_some, n_some);
                transform_panel(isa, stride, turned, 0..n_some, 0..k_some, &mut stage, &mut to);
            }
        }
    });
}

/// `dg = Gᵀ dU G` of the sum of `dU` over groups, each 36 matrices inputs x outputs laid out as `layout` says, in order; more
/// matrices are more parts of the last one.
pub(crate) fn filter_gradient(
    groups: &[f32],
    layout: Layout,
    stride: Stride,
    (inputs, outputs): (usize, usize),
    dw: &mut [f32],
    ws: &Workspace,
) {
    assert_eq!(dw.len(), 9 * inputs * outputs, "the gradient must be 3 x 3 x {inputs} x {outputs}");
    let past = beyond_caches(dw.len());
    let dw = Shared::new(dw);
    for_each(inputs, |input| {
        // SAFETY: each task has its own input channel: one row of each tap.
        let rows: [&mut [f32]; 9] = std::array::from_fn(|tap| unsafe {
            let at = (tap * inputs + input) * outputs;
            dw.slice(at..at + outputs)
        });
        transform_gradients(ws.isa(), groups, layout, stride, input * layout.row, rows, past);
    });
}

dispatch! {
    /// Some columns of a matrix with rows of `width` floats, as rows; as many columns behind them are asked for.
    fn turn_columns(s: Isa, matrix: &[f32], width: usize, columns: Range<usize>, to: &mut [f32]) {
        let rows = matrix.len() / width;
        assert!(columns.end <= width && to.len() == columns.len() * rows, "columns must fit");
        let (down, across) = (rows - rows % SQUARE, columns.len() - columns.len() % SQUARE);
        for row in (0..down).step_by(SQUARE) {
            for i in row..row + SQUARE {
                s.prefetch_far(matrix.as_ptr().wrapping_add(i * width + columns.end));
            }
            for column in (0..across).step_by(SQUARE) {
                let (from, at) = (row * width + columns.start + column, column * rows + row);
                // SAFETY: the square lies inside the matrix, and turned inside the rows that its columns become.
                unsafe { s.transpose(matrix.as_ptr().add(from), width, to.as_mut_ptr().add(at), rows) };
            }
        }
        for (row, line) in matrix.chunks_exact(width).enumerate() {
            let done = if row < down { across } else { 0 };
            for (column, x) in line[columns.clone()].iter().enumerate().skip(done) {
                to[column * rows + row] = *x;
            }
        }
    }
}

dispatch! {
    /// A panel of all 36 matrices: some columns, the rows in `depth`, zeros beyond the last column.
    ///
    /// A few rows are transformed beside each other and then copied: 36 matrices whose sizes are powers of two share the sets
    /// of every cache, and a line that is written in pieces would be lost from it between two pieces. The copies go past the
    /// caches: whole lines, which would else be read before they are written, and of which little would be left there when
    /// all matrices are done.
    fn transform_panel(
        s: Isa, stride: Stride, weight: (&[f32], usize, usize), columns: Range<usize>, depth: Range<usize>, stage: &mut [f32],
        to: &mut [&mut [f32]; 36],
    ) {
        let (weight, k, n) = weight;
        let width = to[0].len() / depth.len().max(1);
        for some in blocks(depth.len(), STAGE / width) {
            for (at, row) in some.clone().map(|i| depth.start + i).enumerate() {
                let taps: [&[f32]; 9] = std::array::from_fn(|tap| &weight[(tap * k + row) * n..][columns.clone()]);
                for tap in &taps {
                    for line in tap.chunks(LINE) {
                        s.prefetch(line.as_ptr().wrapping_add(AHEAD * n));
                    }
                }
                let at = at * width..at * width + columns.len();
                sweep!(s, columns.len(), c, load, store, {
                    let mut g = [[s.zero(); 3]; 3];
                    for (tap, filter) in taps.iter().enumerate() {
                        g[tap / 3][tap % 3] = load(s, filter, c, 0.0);
                    }
                    let u = match stride {
                        Stride::One => both_sides::<Filter, _, _, _>(s, g),
                        Stride::Two => both_sides::<split::Filter, _, _, _>(s, g),
                    };
                    for (point, row) in stage.chunks_exact_mut(STAGE).enumerate() {
                        store(s, &mut row[at.clone()], c, u[point / 6][point % 6]);
                    }
                });
            }
            let span = some.start * width..some.end * width;
            for (to, rows) in to.iter_mut().zip(stage.chunks_exact(STAGE)) {
                stream(s, &rows[..span.len()], &mut to[span.clone()]);
            }
        }
    }
}

/// Copies past the caches.
#[inline(always)]
fn stream<S: Simd>(s: S, from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    let whole = from.len() - from.len() % S::LANES;
    let aligned = (to.as_ptr() as usize).is_multiple_of(size_of::<f32>() * S::LANES);
    let whole = if aligned { whole } else { 0 };
    for i in (0..whole).step_by(S::LANES) {
        // SAFETY: whole vectors of both, and aligned as tested.
        unsafe { s.stream_ptr(to.as_mut_ptr().add(i), s.load_ptr(from.as_ptr().add(i))) };
    }
    to[whole..].copy_from_slice(&from[whole..]);
}

dispatch! {
    fn transform_gradients(
        s: Isa, groups: &[f32], layout: Layout, stride: Stride, at: usize, rows: [&mut [f32]; 9], past: bool,
    ) {
        let mut rows = rows;
        let outputs = rows[0].len();
        let past = past && rows.iter().all(|row| whole(s, row, outputs));
        // Cleared once, for no group at all: the first one overwrites it.
        let mut du = [[s.zero(); 6]; 6];
        sweep!(s, outputs, c, load, store, {
            for (i, group) in groups.chunks_exact(layout.len()).enumerate() {
                for point in 0..36 {
                    let row = &group[point * layout.matrix + at..][..outputs];
                    s.prefetch(row.as_ptr().wrapping_add(c + FAR));
                    let (v, sum) = (load(s, row, c, 0.0), &mut du[point / 6][point % 6]);
                    *sum = if i == 0 { v } else { s.add(*sum, v) };
                }
                for part in 36..layout.count {
                    let row = &group[part * layout.matrix + at..][..outputs];
                    du[5][5] = s.add(du[5][5], load(s, row, c, 0.0));
                }
            }
            let dg = match stride {
                Stride::One => both_sides::<FilterBack, _, _, _>(s, du),
                Stride::Two => both_sides::<split::FilterBack, _, _, _>(s, du),
            };
            for (tap, row) in rows.iter_mut().enumerate() {
                if past {
                    // SAFETY: rows are whole vectors, and aligned as tested.
                    unsafe { s.stream_ptr(row[c..c + S::LANES].as_mut_ptr(), dg[tap / 3][tap % 3]) };
                } else {
                    store(s, row, c, dg[tap / 3][tap % 3]);
                }
            }
        });
    }
}
