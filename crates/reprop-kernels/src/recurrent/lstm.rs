//! The LSTM cell.
//!
//! `(i, f, g, o) = x Wₓ + h Wₕ + b`, `i, f, o` through the sigmoid and `g` through tanh; `c' = f c + i g`, `h' = o tanh(c')`.
//! With `t = tanh(c')` and `e = dc' + dh' o (1 - t²)`: `dc = e f`, and before their functions
//! `di = e g i (1 - i)`, `df = e c f (1 - f)`, `dg = e i (1 - g²)`, `do = dh' t o (1 - o)`. Saved: the four gates and `t`.

use super::{product, weight_gradient};
use crate::gemm::{Init, PackedWeight, run_all};
use crate::math::{sigmoid, tanh};
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::workspace::{Buffer, Workspace};

/// Parameters of the cell.
#[derive(Clone, Copy, Debug)]
pub struct LstmCell<'a> {
    /// `Wₓ`, inputs x 4 hidden, gates in the order `i, f, g, o`.
    pub input: &'a PackedWeight,
    /// `Wₕ`, hidden x 4 hidden.
    pub hidden: &'a PackedWeight,
    /// 4 hidden.
    pub bias: &'a [f32],
}

/// What [`LstmCell::vjp`] needs beside `x`, `h` and `c`.
#[derive(Debug)]
pub struct LstmSaved {
    gates: Buffer,
    tanh: Buffer,
}

/// Where the gradients go; the state's are overwritten.
#[derive(Debug)]
pub struct LstmGrads<'a> {
    /// `dx`.
    pub x: &'a mut [f32],
    /// `dh`.
    pub h: &'a mut [f32],
    /// `dc`.
    pub c: &'a mut [f32],
    /// `dWₓ`.
    pub input: &'a mut [f32],
    /// `dWₕ`.
    pub hidden: &'a mut [f32],
    /// `db`.
    pub bias: &'a mut [f32],
    /// Add the parameters' gradients to what is there, as the steps of a chain do.
    pub accumulate: bool,
}

impl LstmCell<'_> {
    /// One step: `(h, c)` and `x` give `(h', c')`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn forward(
        &self,
        x: &[f32],
        (h, c): (&[f32], &[f32]),
        (next_h, next_c): (&mut [f32], &mut [f32]),
        ws: &Workspace,
    ) -> LstmSaved {
        let (rows, n) = self.check(x, h);
        assert!([c.len(), next_h.len(), next_c.len()] == [rows * n; 3], "states must be {rows} x {n}");
        let mut gates = ws.take(4 * rows * n);
        product(ws, &self.input.forward, Init::Bias(self.bias), x, &mut gates, rows);
        product(ws, &self.hidden.forward, Init::Add, h, &mut gates, rows);
        let mut tanh = ws.take(rows * n);
        for row in 0..rows {
            let at = row * n..(row + 1) * n;
            let (next_h, next_c) = (&mut next_h[at.clone()], &mut next_c[at.clone()]);
            step(
                ws.isa(),
                &mut gates[4 * at.start..4 * at.end],
                &c[at.clone()],
                next_h,
                next_c,
                &mut tanh[at],
            );
        }
        LstmSaved { gates, tanh }
    }

    /// Gradients from `dh'` and `dc'`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        (h, c): (&[f32], &[f32]),
        saved: LstmSaved,
        (dh, dc): (&[f32], &[f32]),
        grads: LstmGrads,
        ws: &Workspace,
    ) {
        let (rows, n) = self.check(x, h);
        let LstmSaved { mut gates, tanh } = saved;
        for row in 0..rows {
            let at = row * n..(row + 1) * n;
            let (dh, dc, d) = (&dh[at.clone()], &dc[at.clone()], &mut grads.c[at.clone()]);
            back(ws.isa(), &mut gates[4 * at.start..4 * at.end], &c[at.clone()], &tanh[at], dh, dc, d);
        }
        product(ws, &self.input.backward, Init::Zero, &gates, grads.x, rows);
        product(ws, &self.hidden.backward, Init::Zero, &gates, grads.h, rows);
        let input = weight_gradient(x, &gates, rows, grads.input, Some(grads.bias), grads.accumulate);
        let hidden = weight_gradient(h, &gates, rows, grads.hidden, None, grads.accumulate);
        run_all(ws, [input, hidden]);
    }

    fn check(&self, x: &[f32], h: &[f32]) -> (usize, usize) {
        let n = self.hidden.inputs();
        assert!(
            self.hidden.outputs() == 4 * n && self.input.outputs() == 4 * n,
            "weights must have {} columns",
            4 * n
        );
        let rows = h.len() / n;
        assert_eq!((x.len(), h.len()), (rows * self.input.inputs(), rows * n), "x and h do not fit");
        (rows, n)
    }
}

dispatch! {
    /// One sample: `gates` (before their functions, then after), `c'`, `h'` and `tanh(c')`.
    fn step(s: Isa, gates: &mut [f32], c: &[f32], next_h: &mut [f32], next_c: &mut [f32], t: &mut [f32]) {
        let n = c.len();
        let (gi, rest) = gates.split_at_mut(n);
        let (gf, rest) = rest.split_at_mut(n);
        let (gg, go) = rest.split_at_mut(n);
        sweep!(s, n, j, load, store, {
            let (i, f) = (sigmoid(s, load(s, gi, j, 0.0)), sigmoid(s, load(s, gf, j, 0.0)));
            let (g, o) = (tanh(s, load(s, gg, j, 0.0)), sigmoid(s, load(s, go, j, 0.0)));
            let state = s.fma(f, load(s, c, j, 0.0), s.mul(i, g));
            let bounded = tanh(s, state);
            store(s, gi, j, i);
            store(s, gf, j, f);
            store(s, gg, j, g);
            store(s, go, j, o);
            store(s, next_c, j, state);
            store(s, t, j, bounded);
            store(s, next_h, j, s.mul(o, bounded));
        });
    }
}

dispatch! {
    /// One sample: `gates` become the gradients before their functions, `out` becomes `dc`.
    fn back(s: Isa, gates: &mut [f32], c: &[f32], t: &[f32], dh: &[f32], dc: &[f32], out: &mut [f32]) {
        let n = c.len();
        let (gi, rest) = gates.split_at_mut(n);
        let (gf, rest) = rest.split_at_mut(n);
        let (gg, go) = rest.split_at_mut(n);
        let one = s.splat(1.0);
        sweep!(s, n, j, load, store, {
            let (i, f, g, o) = (load(s, gi, j, 0.0), load(s, gf, j, 0.0), load(s, gg, j, 0.0), load(s, go, j, 0.0));
            let (t, dh) = (load(s, t, j, 0.0), load(s, dh, j, 0.0));
            let e = s.fma(s.mul(dh, o), s.sub(one, s.mul(t, t)), load(s, dc, j, 0.0));
            store(s, gi, j, s.mul(s.mul(e, g), s.mul(i, s.sub(one, i))));
            store(s, gf, j, s.mul(s.mul(e, load(s, c, j, 0.0)), s.mul(f, s.sub(one, f))));
            store(s, gg, j, s.mul(s.mul(e, i), s.sub(one, s.mul(g, g))));
            store(s, go, j, s.mul(s.mul(dh, t), s.mul(o, s.sub(one, o))));
            store(s, out, j, s.mul(e, f));
        });
    }
}
