//! The GRU cell.
//!
//! `a = x Wₓ + bₓ`, `b = h Wₕ + bₕ`, each in parts `r, z, n`: `r = σ(a_r + b_r)`, `z = σ(a_z + b_z)`, `n = tanh(a_n + r b_n)`,
//! `h' = (1 - z) n + z h`. With `e = dh' (1 - z) (1 - n²)`: `da_n = e`, `db_n = e r`, `da_r = db_r = e b_n r (1 - r)`,
//! `da_z = db_z = dh' (h - n) z (1 - z)`, and `dh = dh' z + db Wₕᵀ`. Saved: `r, z, n` and `b_n`.

use super::{product, weight_gradient};
use crate::gemm::{Init, PackedWeight, run_all};
use crate::math::{sigmoid, tanh};
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::workspace::{Buffer, Workspace};

/// Parameters of the cell.
#[derive(Clone, Copy, Debug)]
pub struct GruCell<'a> {
    /// `Wₓ`, inputs x 3 hidden, gates in the order `r, z, n`.
    pub input: &'a PackedWeight,
    /// `Wₕ`, hidden x 3 hidden.
    pub hidden: &'a PackedWeight,
    /// `bₓ`, 3 hidden.
    pub input_bias: &'a [f32],
    /// `bₕ`, 3 hidden.
    pub hidden_bias: &'a [f32],
}

/// What [`GruCell::vjp`] needs beside `x` and `h`.
#[derive(Debug)]
pub struct GruSaved {
    /// `r, z, n` of each sample.
    gates: Buffer,
    /// `b` of each sample, of which the last third counts.
    b: Buffer,
}

/// Where the gradients go; the state's are overwritten.
#[derive(Debug)]
pub struct GruGrads<'a> {
    /// `dx`.
    pub x: &'a mut [f32],
    /// `dh`.
    pub h: &'a mut [f32],
    /// `dWₓ`.
    pub input: &'a mut [f32],
    /// `dWₕ`.
    pub hidden: &'a mut [f32],
    /// `dbₓ`.
    pub input_bias: &'a mut [f32],
    /// `dbₕ`.
    pub hidden_bias: &'a mut [f32],
    /// Add the parameters' gradients to what is there, as the steps of a chain do.
    pub accumulate: bool,
}

impl GruCell<'_> {
    /// One step: `h` and `x` give `h'`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn forward(&self, x: &[f32], h: &[f32], next: &mut [f32], ws: &Workspace) -> GruSaved {
        let (rows, n) = self.check(x, h);
        assert_eq!(next.len(), h.len(), "states must be {rows} x {n}");
        let (mut gates, mut b) = (ws.take(3 * rows * n), ws.take(3 * rows * n));
        product(ws, &self.input.forward, Init::Bias(self.input_bias), x, &mut gates, rows);
        product(ws, &self.hidden.forward, Init::Bias(self.hidden_bias), h, &mut b, rows);
        for row in 0..rows {
            let at = row * n..(row + 1) * n;
            let wide = 3 * at.start..3 * at.end;
            step(ws.isa(), &mut gates[wide.clone()], &b[wide], &h[at.clone()], &mut next[at]);
        }
        GruSaved { gates, b }
    }

    /// Gradients from `dh'`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn vjp(&self, x: &[f32], h: &[f32], saved: GruSaved, dh: &[f32], grads: GruGrads, ws: &Workspace) {
        let (rows, n) = self.check(x, h);
        let GruSaved { gates: mut da, b: mut db } = saved;
        for row in 0..rows {
            let at = row * n..(row + 1) * n;
            let wide = 3 * at.start..3 * at.end;
            let out = &mut grads.h[at.clone()];
            back(ws.isa(), &mut da[wide.clone()], &mut db[wide], &h[at.clone()], &dh[at], out);
        }
        product(ws, &self.input.backward, Init::Zero, &da, grads.x, rows);
        product(ws, &self.hidden.backward, Init::Add, &db, grads.h, rows);
        let input = weight_gradient(x, &da, rows, grads.input, Some(grads.input_bias), grads.accumulate);
        let hidden = weight_gradient(h, &db, rows, grads.hidden, Some(grads.hidden_bias), grads.accumulate);
        run_all(ws, [input, hidden]);
    }

    fn check(&self, x: &[f32], h: &[f32]) -> (usize, usize) {
        let n = self.hidden.inputs();
        assert!(
            self.hidden.outputs() == 3 * n && self.input.outputs() == 3 * n,
            "weights must have {} columns",
            3 * n
        );
        let rows = h.len() / n;
        assert_eq!((x.len(), h.len()), (rows * self.input.inputs(), rows * n), "x and h do not fit");
        (rows, n)
    }
}

dispatch! {
    /// One sample: `gates` (`a`, then `r, z, n`) and `h'`.
    fn step(s: Isa, gates: &mut [f32], b: &[f32], h: &[f32], next: &mut [f32]) {
        let width = h.len();
        let (gr, rest) = gates.split_at_mut(width);
        let (gz, gn) = rest.split_at_mut(width);
        let (br, rest) = b.split_at(width);
        let (bz, bn) = rest.split_at(width);
        sweep!(s, width, j, load, store, {
            let r = sigmoid(s, s.add(load(s, gr, j, 0.0), load(s, br, j, 0.0)));
            let z = sigmoid(s, s.add(load(s, gz, j, 0.0), load(s, bz, j, 0.0)));
            let n = tanh(s, s.fma(r, load(s, bn, j, 0.0), load(s, gn, j, 0.0)));
            store(s, gr, j, r);
            store(s, gz, j, z);
            store(s, gn, j, n);
            store(s, next, j, s.fma(z, s.sub(load(s, h, j, 0.0), n), n));
        });
    }
}

dispatch! {
    /// One sample: `gates` become `da`, `b` becomes `db`, `out` becomes `dh' z`.
    fn back(s: Isa, gates: &mut [f32], b: &mut [f32], h: &[f32], dh: &[f32], out: &mut [f32]) {
        let width = h.len();
        let (gr, rest) = gates.split_at_mut(width);
        let (gz, gn) = rest.split_at_mut(width);
        let (br, rest) = b.split_at_mut(width);
        let (bz, bn) = rest.split_at_mut(width);
        let one = s.splat(1.0);
        sweep!(s, width, j, load, store, {
            let (r, z, n) = (load(s, gr, j, 0.0), load(s, gz, j, 0.0), load(s, gn, j, 0.0));
            let (d, inner) = (load(s, dh, j, 0.0), load(s, bn, j, 0.0));
            let e = s.mul(s.mul(d, s.sub(one, z)), s.sub(one, s.mul(n, n)));
            let dr = s.mul(s.mul(e, inner), s.mul(r, s.sub(one, r)));
            let dz = s.mul(s.mul(d, s.sub(load(s, h, j, 0.0), n)), s.mul(z, s.sub(one, z)));
            store(s, gr, j, dr);
            store(s, br, j, dr);
            store(s, gz, j, dz);
            store(s, bz, j, dz);
            store(s, gn, j, e);
            store(s, bn, j, s.mul(e, r));
            store(s, out, j, s.mul(d, z));
        });
    }
}
