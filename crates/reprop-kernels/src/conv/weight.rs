//! A 3x3 filter bank transformed and packed once for each version of the weight, and the way back for its gradient.

use rayon::prelude::*;

use super::tiles::Layout;
use super::winograd::{Filter, FilterBack, both_sides};
use crate::gemm::{Mat, PackedMatrix};
use crate::rows::for_each;
use crate::share::Shared;
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::workspace::{Buffer, Workspace};

/// `U = G g Gᵀ`: 36 matrices inputs x outputs, packed for the forward, and their transposes for the input's gradient.
#[derive(Clone, Debug)]
pub struct WinogradWeight {
    inputs: usize,
    outputs: usize,
    pub(crate) forward: Vec<PackedMatrix>,
    pub(crate) backward: Vec<PackedMatrix>,
}

impl WinogradWeight {
    /// Transforms a 3 x 3 x inputs x outputs weight.
    ///
    /// # Panics
    /// If the length does not fit.
    pub fn new(weight: &[f32], inputs: usize, outputs: usize, ws: &Workspace) -> Self {
        let zeros = vec![0.0; inputs * outputs];
        let zeros = Mat::new(&zeros, inputs, outputs);
        let forward = vec![PackedMatrix::new(ws.isa(), zeros); 36];
        let backward = vec![PackedMatrix::new(ws.isa(), zeros.t()); 36];
        let mut transformed = Self { inputs, outputs, forward, backward };
        transformed.repack(weight, ws);
        transformed
    }

    /// Transforms a weight for one use alone: a forward, or with `transposed` a derivative. `pack` gives memory to each
    /// matrix.
    ///
    /// # Panics
    /// If the length does not fit.
    pub fn half(
        weight: &[f32],
        (inputs, outputs): (usize, usize),
        transposed: bool,
        pack: impl Fn(Mat) -> PackedMatrix + Sync,
        ws: &Workspace,
    ) -> Self {
        let size = inputs * outputs;
        let u = transformed(weight, inputs, outputs, ws);
        let used = (0..36).into_par_iter().with_max_len(1).map(|point| {
            let u = Mat::new(&u[point * size..(point + 1) * size], inputs, outputs);
            pack(if transposed { u.t() } else { u })
        });
        let used = used.collect();
        let (k, n) = if transposed { (inputs, outputs) } else { (outputs, inputs) };
        let unused = vec![PackedMatrix::shape_only(ws.isa(), k, n); 36];
        let (forward, backward) = if transposed { (unused, used) } else { (used, unused) };
        Self { inputs, outputs, forward, backward }
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
        let (inputs, outputs) = (self.inputs, self.outputs);
        let size = inputs * outputs;
        let u = transformed(weight, inputs, outputs, ws);
        let packs = self.forward.par_iter_mut().zip(&mut self.backward).enumerate().with_max_len(1);
        packs.for_each(|(point, (forward, backward))| {
            let u = Mat::new(&u[point * size..(point + 1) * size], inputs, outputs);
            forward.repack(u);
            backward.repack(u.t());
        });
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

/// `U` of each filter: 36 matrices inputs x outputs.
fn transformed(weight: &[f32], inputs: usize, outputs: usize, ws: &Workspace) -> Buffer {
    assert_eq!(weight.len(), 9 * inputs * outputs, "the weight must be 3 x 3 x {inputs} x {outputs}");
    let size = inputs * outputs;
    let mut u = ws.take(36 * size);
    {
        let u = Shared::new(&mut u);
        for_each(inputs, |input| {
            // SAFETY: each task has its own input channel: one row of each of the 36 matrices.
            let rows: [&mut [f32]; 36] = std::array::from_fn(|point| unsafe {
                let at = point * size + input * outputs;
                u.slice(at..at + outputs)
            });
            let taps = std::array::from_fn(|tap| &weight[tap * size + input * outputs..][..outputs]);
            transform_filters(ws.isa(), taps, rows);
        });
    }
    u
}

/// `dg = Gᵀ dU G` of the sum of `dU` over groups, each 36 matrices inputs x outputs laid out as `layout` says, in order.
pub(crate) fn filter_gradient(
    groups: &[f32],
    layout: Layout,
    (inputs, outputs): (usize, usize),
    dw: &mut [f32],
    ws: &Workspace,
) {
    assert_eq!(dw.len(), 9 * inputs * outputs, "the gradient must be 3 x 3 x {inputs} x {outputs}");
    let dw = Shared::new(dw);
    for_each(inputs, |input| {
        // SAFETY: each task has its own input channel: one row of each tap.
        let rows: [&mut [f32]; 9] = std::array::from_fn(|tap| unsafe {
            let at = (tap * inputs + input) * outputs;
            dw.slice(at..at + outputs)
        });
        transform_gradients(ws.isa(), groups, layout, input * layout.row, rows);
    });
}

dispatch! {
    fn transform_filters(s: Isa, taps: [&[f32]; 9], rows: [&mut [f32]; 36]) {
        let mut rows = rows;
        sweep!(s, taps[0].len(), c, load, store, {
            let mut g = [[s.zero(); 3]; 3];
            for (tap, filter) in taps.iter().enumerate() {
                g[tap / 3][tap % 3] = load(s, filter, c, 0.0);
            }
            let u = both_sides::<Filter, _, _, _>(s, g);
            for (point, row) in rows.iter_mut().enumerate() {
                store(s, row, c, u[point / 6][point % 6]);
            }
        });
    }
}

dispatch! {
    fn transform_gradients(s: Isa, groups: &[f32], layout: Layout, at: usize, rows: [&mut [f32]; 9]) {
        let mut rows = rows;
        let outputs = rows[0].len();
        sweep!(s, outputs, c, load, store, {
            let mut du = [[s.zero(); 6]; 6];
            for group in groups.chunks_exact(layout.len()) {
                for point in 0..36 {
                    let row = &group[point * layout.matrix + at..][..outputs];
                    du[point / 6][point % 6] = s.add(du[point / 6][point % 6], load(s, row, c, 0.0));
                }
            }
            let dg = both_sides::<FilterBack, _, _, _>(s, du);
            for (tap, row) in rows.iter_mut().enumerate() {
                store(s, row, c, dg[tap / 3][tap % 3]);
            }
        });
    }
}
