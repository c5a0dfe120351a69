//! A 3x3 filter bank transformed and packed once for each version of the weight.

use super::tiles::Layout;
use crate::gemm::{Mat, PackedMatrix};
use crate::rows::for_each;
use crate::share::Shared;
use crate::simd::Isa;
use rayon::prelude::*;

/// `G`, the filter's transform.
const G: [[f32; 3]; 6] = [
    [1.0 / 4.0, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
    [0.0, 0.0, 1.0],
];

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
    pub fn new(isa: Isa, weight: &[f32], inputs: usize, outputs: usize) -> Self {
        let zeros = vec![0.0; inputs * outputs];
        let zeros = Mat::new(&zeros, inputs, outputs);
        let forward = vec![PackedMatrix::new(isa, zeros); 36];
        let backward = vec![PackedMatrix::new(isa, zeros.t()); 36];
        let mut transformed = Self { inputs, outputs, forward, backward };
        transformed.repack(weight);
        transformed
    }

    /// Transforms a new version of the weight into the same memory.
    ///
    /// # Panics
    /// If the length does not fit.
    pub fn repack(&mut self, weight: &[f32]) {
        let (inputs, outputs) = (self.inputs, self.outputs);
        assert_eq!(weight.len(), 9 * inputs * outputs, "the weight must be 3 x 3 x {inputs} x {outputs}");
        let packs = self.forward.par_iter_mut().zip(&mut self.backward).enumerate();
        packs.for_each_init(
            || vec![0.0; inputs * outputs],
            |u, (point, (forward, backward))| {
                let (i, j) = (point / 6, point % 6);
                u.fill(0.0);
                for (tap, filter) in weight.chunks_exact((inputs * outputs).max(1)).enumerate() {
                    let factor = G[i][tap / 3] * G[j][tap % 3];
                    if factor != 0.0 {
                        u.iter_mut().zip(filter).for_each(|(u, w)| *u += factor * w);
                    }
                }
                let u = Mat::new(u, inputs, outputs);
                forward.repack(u);
                backward.repack(u.t());
            },
        );
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

/// `dg = Gᵀ dU G` summed over `groups` partial sums of `dU`, each 36 matrices inputs x outputs (rows `layout.row` apart), in
/// order.
pub(crate) fn filter_gradient(
    partials: &[f32],
    layout: Layout,
    inputs: usize,
    outputs: usize,
    dw: &mut [f32],
) {
    assert_eq!(dw.len(), 9 * inputs * outputs, "the gradient must be 3 x 3 x {inputs} x {outputs}");
    let dw = Shared::new(dw);
    for_each(inputs, |input| {
        for tap in 0..9 {
            let at = (tap * inputs + input) * outputs;
            // SAFETY: each task has its own input channel.
            let dw = unsafe { dw.slice(at..at + outputs) };
            dw.fill(0.0);
            for group in partials.chunks_exact(layout.len()) {
                for point in 0..36 {
                    let factor = G[point / 6][tap / 3] * G[point % 6][tap % 3];
                    if factor != 0.0 {
                        let du = &group[point * layout.matrix + input * layout.row..][..outputs];
                        dw.iter_mut().zip(du).for_each(|(d, u)| *d += factor * u);
                    }
                }
            }
        }
    });
}
