//! Attention between given queries, keys and values, which may differ in number, without weights of its own.

use super::heads::{Heads, HeadsGrads, Keep, Masks, Rows};
use super::heads_vjp::Known;
use crate::share::Shared;
use crate::workspace::{Buffer, Workspace};

/// Shape of attention between `batch x queries x width` and `batch x keys x width`, `width = heads x head_width`.
#[derive(Clone, Copy, Debug)]
pub struct CrossAttention<'a> {
    /// Samples.
    pub batch: usize,
    /// Queries of a sample.
    pub queries: usize,
    /// Keys and values of a sample.
    pub keys: usize,
    /// Heads.
    pub heads: usize,
    /// Columns of a head.
    pub head_width: usize,
    /// Masks and biases of the scores.
    pub masks: Masks<'a>,
}

/// Where the gradients go; each is overwritten.
#[derive(Debug)]
pub struct CrossGrads<'a> {
    /// Like the queries.
    pub q: &'a mut [f32],
    /// Like the keys.
    pub k: &'a mut [f32],
    /// Like the values.
    pub v: &'a mut [f32],
    /// Of the additive bias heads x queries x keys, if wanted.
    pub bias: Option<&'a mut [f32]>,
}

impl CrossAttention<'_> {
    /// `o = softmax(q kᵀ / sqrt(head_width) + masks) v`; the probabilities, if they are to be kept.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward(
        &self,
        q: &[f32],
        k: &[f32],
        v: &[f32],
        o: &mut [f32],
        keep: Keep,
        ws: &Workspace,
    ) -> Option<Buffer> {
        self.check([q.len(), o.len()], [k.len(), v.len()]);
        let heads = self.inner();
        let mut kept = (keep == Keep::Probabilities).then(|| ws.take(heads.probabilities_len()));
        heads.forward(self.rows(q, k, v), o, kept.as_deref_mut(), ws);
        kept
    }

    /// Gradients from `d_o`; `kept` is what the forward returned.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        (q, k, v): (&[f32], &[f32], &[f32]),
        kept: Option<&[f32]>,
        d_o: &[f32],
        grads: CrossGrads,
        ws: &Workspace,
    ) {
        self.check([q.len(), d_o.len()], [k.len(), v.len()]);
        self.check([q.len(), grads.q.len()], [grads.k.len(), grads.v.len()]);
        let (dq, dk, dv) = (Shared::new(grads.q), Shared::new(grads.k), Shared::new(grads.v));
        let width = self.heads * self.head_width;
        let to = HeadsGrads { q: (&dq, 0, width), k: (&dk, 0, width), v: (&dv, 0, width), bias: grads.bias };
        self.inner().vjp(self.rows(q, k, v), d_o, Known::of(kept), to, ws);
    }

    fn rows<'b>(&self, q: &'b [f32], k: &'b [f32], v: &'b [f32]) -> (Rows<'b>, Rows<'b>, Rows<'b>) {
        let stride = self.heads * self.head_width;
        (Rows { data: q, stride }, Rows { data: k, stride }, Rows { data: v, stride })
    }

    fn inner(&self) -> Heads<'_> {
        let Self { batch, queries, keys, heads, head_width, masks } = *self;
        Heads { batch, queries, keys, heads, head_width, masks }
    }

    fn check(&self, queries: [usize; 2], keys: [usize; 2]) {
        let width = self.heads * self.head_width;
        let (q, k) = (self.batch * self.queries * width, self.batch * self.keys * width);
        assert!(queries == [q; 2] && keys == [k; 2], "queries must hold {q} floats, keys and values {k}");
    }
}
