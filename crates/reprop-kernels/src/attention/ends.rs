//! What attention does to rows before and after its heads: `p = norm(x) W + b`, and `y = c Wₒ + bₒ`.
//!
//! Backward: `dc = dy Wₒᵀ`; then `dn = dp Wᵀ` and the norm's `dx`; and with `n = norm(x)`, computed again, the weights'
//! `dW = nᵀ dp` and `dWₒ = cᵀ dy`.

use crate::gemm::{Init, Mat, Product, Weight, run_all};
use crate::grid::GridOverflow;
use crate::layer_norm::{LayerNorm, NormGrads, back, finish, normalize, partials, reapply};
use crate::linear::{self, by_columns, times_packed};
use crate::output::{Base, Output, Sink};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::workspace::{Buffer, Workspace};

/// Norm and weights on both sides of the heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends<'a> {
    pub norm: LayerNorm<'a>,
    pub qkv: Weight<'a>,
    pub qkv_bias: &'a [f32],
    pub out: Weight<'a>,
    pub out_bias: &'a [f32],
}

/// Where their gradients go; each is overwritten.
pub(super) struct EndsGrads<'a> {
    pub norm: NormGrads<'a>,
    pub qkv: &'a mut [f32],
    pub qkv_bias: &'a mut [f32],
    pub out: &'a mut [f32],
    pub out_bias: &'a mut [f32],
}

/// What went into the derivative: the input with the norm's statistics, and what the heads gave.
pub(super) struct Seen<'a> {
    pub x: &'a [f32],
    pub stats: &'a [f32],
    pub context: &'a [f32],
}

impl Ends<'_> {
    /// Columns of a row.
    pub fn width(&self) -> usize {
        self.norm.width()
    }

    /// Rows of `x`.
    pub fn rows(&self, x: &[f32]) -> usize {
        let width = self.width();
        assert_eq!((self.qkv.inputs(), self.qkv.outputs()), (width, 3 * width), "qkv weight");
        assert_eq!((self.out.inputs(), self.out.outputs()), (width, width), "out weight");
        x.len() / width.max(1)
    }

    /// The norm's statistics, and queries, keys and values side by side.
    pub fn enter(&self, x: &[f32], ws: &Workspace) -> (Buffer, Buffer) {
        let (rows, width) = (self.rows(x), self.width());
        let (mut stats, mut qkv) = (ws.take(2 * rows), ws.take(3 * rows * width));
        let weight = match self.qkv {
            Weight::Packed(weight) => &weight.forward,
            Weight::Fresh(weight) => {
                let mut n = ws.take(x.len());
                self.norm.forward(x, &mut n, &mut stats, ws);
                let (n, to) = (Mat::new(&n, rows, width), (&Shared::new(&mut qkv), 3 * width));
                by_columns(ws, weight, Init::Bias(self.qkv_bias), n, to, |_| ());
                return (stats, qkv);
            }
        };
        {
            let (stats, qkv) = (Shared::new(&mut stats), Shared::new(&mut qkv));
            for_chunks(ws.isa(), rows, |_, r| {
                // SAFETY: chunks do not overlap.
                let (stats, qkv) = unsafe {
                    (stats.slice(2 * r.start..2 * r.end), qkv.slice(3 * width * r.start..3 * width * r.end))
                };
                let mut n = ws.take(r.len() * width);
                normalize(ws.isa(), self.norm, &x[r.start * width..r.end * width], &mut n, stats);
                times_packed(ws, weight, Init::Bias(self.qkv_bias), &n, qkv);
            });
        }
        (stats, qkv)
    }

    /// The heads' result to where the output goes.
    pub fn leave(&self, context: &[f32], output: &mut Output, ws: &Workspace) -> Result<(), GridOverflow> {
        let width = self.width();
        let sink = Sink::new(output, context.len());
        let y = match self.out {
            Weight::Packed(_) => None,
            Weight::Fresh(weight) => {
                let mut y = ws.take(context.len());
                let context = Mat::new(context, self.rows(context), width);
                by_columns(
                    ws,
                    weight,
                    Init::Bias(self.out_bias),
                    context,
                    (&Shared::new(&mut y), width),
                    |_| (),
                );
                Some(y)
            }
        };
        for_chunks(ws.isa(), self.rows(context), |_, r| {
            let span = r.start * width..r.end * width;
            let c = &context[span.clone()];
            // SAFETY: chunks do not overlap.
            unsafe {
                match (&y, self.out) {
                    (None, Weight::Packed(weight)) => sink.write(ws, span, |y| {
                        times_packed(ws, &weight.forward, Init::Bias(self.out_bias), c, y);
                    }),
                    (y, _) => {
                        sink.put(ws.isa(), span.clone(), &y.as_ref().expect("made for a fresh weight")[span]);
                    }
                }
            };
        });
        sink.finish()
    }

    /// The gradient of the heads' result.
    pub fn leave_vjp(&self, dy: &[f32], ws: &Workspace) -> Buffer {
        let mut d_context = ws.take(dy.len());
        match self.out {
            Weight::Packed(weight) => {
                linear::forward(ws, &weight.backward, None, dy, &mut d_context, self.rows(dy));
            }
            Weight::Fresh(weight) => {
                let (dy, to) =
                    (Mat::new(dy, self.rows(dy), self.width()), (&Shared::new(&mut d_context), self.width()));
                by_columns(ws, weight.t(), Init::Zero, dy, to, |_| ());
            }
        }
        d_context
    }

    /// `dx = base + …` and the gradients of all parameters.
    pub fn finish_vjp(
        &self,
        seen: Seen,
        d_qkv: &[f32],
        dy: &[f32],
        (dx, base): (&mut [f32], Base),
        grads: EndsGrads,
        ws: &Workspace,
    ) {
        let Seen { x, stats, context } = seen;
        let (rows, width) = (self.rows(x), self.width());
        let (mut n, mut sums) = (ws.take(rows * width), partials(ws, rows, width));
        let dn = match self.qkv {
            Weight::Packed(_) => None,
            Weight::Fresh(weight) => {
                let mut dn = ws.take(rows * width);
                let d_qkv = Mat::new(d_qkv, rows, 3 * width);
                by_columns(ws, weight.t(), Init::Zero, d_qkv, (&Shared::new(&mut dn), width), |_| ());
                Some(dn)
            }
        };
        {
            let (dx, sums, n) = (Shared::new(dx), Shared::new(&mut sums), Shared::new(&mut n));
            for_chunks(ws.isa(), rows, |i, r| {
                let span = r.start * width..r.end * width;
                // SAFETY: chunks do not overlap; each has its own sums.
                let (dx, n, sums) = unsafe {
                    let sums = sums.slice(2 * width * i..2 * width * (i + 1));
                    (dx.slice(span.clone()), n.slice(span.clone()), sums)
                };
                let (x, stats) = (&x[span.clone()], &stats[2 * r.start..2 * r.end]);
                let d_qkv = &d_qkv[3 * span.start..3 * span.end];
                let mut own = None;
                let dn = match (&dn, self.qkv) {
                    (None, Weight::Packed(weight)) => {
                        let dn = own.insert(ws.take(span.len()));
                        times_packed(ws, &weight.backward, Init::Zero, d_qkv, dn);
                        dn
                    }
                    (dn, _) => &dn.as_ref().expect("made for a fresh weight")[span.clone()],
                };
                back(ws.isa(), self.norm, x, stats, dn, dx, base.part(span.clone()), sums);
                reapply(ws.isa(), self.norm, x, n, stats);
            });
        }
        finish(&sums, grads.norm);
        let mat = |x, rows, columns| Mat::new(x, rows, columns);
        let (n, d_qkv) = (mat(&n, rows, width), mat(d_qkv, rows, 3 * width));
        let queries = self.rows(context);
        let (context, dy) = (mat(context, queries, width), mat(dy, queries, width));
        let qkv = Product::weight_gradient(n, d_qkv, grads.qkv, grads.qkv_bias);
        let out = Product::weight_gradient(context, dy, grads.out, grads.out_bias);
        run_all(ws, [qkv, out]);
    }
}
