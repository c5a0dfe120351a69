//! Both streams of a reversible network into one, between stages: `y = gelu([x₁ x₂] W + b) V + c`, row by row.
//!
//! One phase forward: a task puts its rows of both streams side by side and takes them through `W`, GELU and `V` without
//! leaving the second-level cache. Saved: `u = [x₁ x₂] W + b`.
//!
//! Two phases backward. Rows: `du = dy Vᵀ gelu'(u)`, `[dx₁ dx₂] = du Wᵀ`. Then the weights: `dV = gelu(u)ᵀ dy`, and
//! `dW = [x₁ x₂]ᵀ du` in two halves, one for each stream.

use crate::gelu;
use crate::gemm::{Init, Mat, PackedWeight, Product, run_all};
use crate::linear::times_packed;
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::sixteen::Rounds;
use crate::workspace::{Buffer, Workspace};

/// Parameters of the perceptron.
#[derive(Clone, Copy, Debug)]
pub struct Fuse<'a> {
    /// `W`, two widths x hidden: rows of the first stream, then of the second.
    pub expand: &'a PackedWeight,
    /// `b`.
    pub expand_bias: &'a [f32],
    /// `V`, hidden x outputs.
    pub contract: &'a PackedWeight,
    /// `c`.
    pub contract_bias: &'a [f32],
}

/// What [`Fuse::vjp`] needs beside both streams.
#[derive(Debug)]
pub struct FuseSaved {
    u: Buffer,
}

impl Rounds for FuseSaved {
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer> {
        [&mut self.u].into_iter()
    }
}

/// Where the gradients go; each is overwritten.
#[derive(Debug)]
pub struct FuseGrads<'a> {
    /// `dx₁`.
    pub x1: &'a mut [f32],
    /// `dx₂`.
    pub x2: &'a mut [f32],
    /// `dW`.
    pub expand: &'a mut [f32],
    /// `db`.
    pub expand_bias: &'a mut [f32],
    /// `dV`.
    pub contract: &'a mut [f32],
    /// `dc`.
    pub contract_bias: &'a mut [f32],
}

impl Fuse<'_> {
    /// `y` from both streams, rows x width each, keeping what the derivative needs.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward_saving(&self, x1: &[f32], x2: &[f32], y: &mut [f32], ws: &Workspace) -> FuseSaved {
        let (rows, width) = self.sizes(x1, x2);
        let (hidden, outputs) = (self.expand.outputs(), self.contract.outputs());
        assert_eq!(y.len(), rows * outputs, "y must be {rows} x {outputs}");
        let mut u = ws.take(rows * hidden);
        {
            let (y, u) = (Shared::new(y), Shared::new(&mut u));
            for_chunks(ws.isa(), rows, |_, r| {
                // SAFETY: chunks do not overlap.
                let (y, u) = unsafe {
                    (y.slice(r.start * outputs..r.end * outputs), u.slice(r.start * hidden..r.end * hidden))
                };
                let span = r.start * width..r.end * width;
                let both = side_by_side(&x1[span.clone()], &x2[span], width, ws);
                times_packed(ws, &self.expand.forward, Init::Bias(self.expand_bias), &both, u);
                let mut h = ws.take(u.len());
                gelu::forward(ws.isa(), u, &mut h);
                times_packed(ws, &self.contract.forward, Init::Bias(self.contract_bias), &h, y);
            });
        }
        FuseSaved { u }
    }

    /// All gradients from `dy`.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        (x1, x2): (&[f32], &[f32]),
        FuseSaved { mut u }: FuseSaved,
        dy: &[f32],
        grads: FuseGrads,
        ws: &Workspace,
    ) {
        let (rows, width) = self.sizes(x1, x2);
        let (hidden, outputs) = (self.expand.outputs(), self.contract.outputs());
        assert_eq!(dy.len(), rows * outputs, "dy must be {rows} x {outputs}");
        assert!(grads.x1.len() == x1.len() && grads.x2.len() == x2.len(), "gradients of streams do not fit");
        let mut du = ws.take(rows * hidden);
        {
            let (u, du) = (Shared::new(&mut u), Shared::new(&mut du));
            let (dx1, dx2) = (Shared::new(grads.x1), Shared::new(grads.x2));
            for_chunks(ws.isa(), rows, |_, r| {
                let (span, wide) = (r.start * width..r.end * width, r.start * hidden..r.end * hidden);
                // SAFETY: chunks do not overlap.
                let (u, du) = unsafe { (u.slice(wide.clone()), du.slice(wide)) };
                // SAFETY: as above.
                let (dx1, dx2) = unsafe { (dx1.slice(span.clone()), dx2.slice(span)) };
                let dy = &dy[r.start * outputs..r.end * outputs];
                times_packed(ws, &self.contract.backward, Init::Zero, dy, du);
                gelu::vjp_in_place(ws.isa(), u, du);
                let mut both = ws.take(2 * dx1.len());
                times_packed(ws, &self.expand.backward, Init::Zero, du, &mut both);
                let halves = dx1.chunks_exact_mut(width).zip(dx2.chunks_exact_mut(width));
                for (both, (dx1, dx2)) in both.chunks_exact(2 * width).zip(halves) {
                    dx1.copy_from_slice(&both[..width]);
                    dx2.copy_from_slice(&both[width..]);
                }
            });
        }
        let mat = |x, columns| Mat::new(x, rows, columns);
        let (first, second) = grads.expand.split_at_mut(width * hidden);
        let first = Product::weight_gradient(mat(x1, width), mat(&du, hidden), first, grads.expand_bias);
        let second = Product {
            a: mat(x2, width).t(),
            b: mat(&du, hidden),
            c: second,
            accumulate: false,
            column_sums: None,
        };
        let contract =
            Product::weight_gradient(mat(&u, hidden), mat(dy, outputs), grads.contract, grads.contract_bias);
        run_all(ws, [first, second, contract]);
    }

    /// Rows, and columns of one stream.
    fn sizes(&self, x1: &[f32], x2: &[f32]) -> (usize, usize) {
        let width = self.expand.inputs() / 2;
        assert_eq!(self.expand.inputs(), 2 * width, "both streams must be equally wide");
        assert_eq!(self.expand.outputs(), self.contract.inputs(), "hidden sizes differ");
        assert!(
            x1.len() == x2.len() && x1.len().is_multiple_of(width.max(1)),
            "both streams must be rows x {width}"
        );
        (x1.len() / width.max(1), width)
    }
}

fn side_by_side(x1: &[f32], x2: &[f32], width: usize, ws: &Workspace) -> Buffer {
    let mut both = ws.take(x1.len() + x2.len());
    let halves = x1.chunks_exact(width).zip(x2.chunks_exact(width));
    for (both, (x1, x2)) in both.chunks_exact_mut(2 * width).zip(halves) {
        both[..width].copy_from_slice(x1);
        both[width..].copy_from_slice(x2);
    }
    both
}
