//! The derivative of attention between given queries, keys and values.

use super::heads::{Heads, HeadsGrads, Rows, STEP};
use super::softmax::softmax_back;
use crate::gemm::{Init, Mat, Right, Target, blocks, multiply, pack_all, packed_len};
use crate::share::Shared;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace};

/// What a derivative begins with.
#[derive(Clone, Copy)]
pub(crate) enum Known<'a> {
    /// Probabilities that were kept.
    Probabilities(&'a [f32]),
    /// The output alone: probabilities are computed again.
    Output,
    /// Nothing: probabilities are computed, and the output with them. It goes there, as [`Heads::forward`] writes it.
    Nothing(&'a Shared<'a>),
}

impl<'a> Known<'a> {
    /// What a forward left.
    pub(crate) fn of(kept: Option<&'a [f32]>) -> Self {
        kept.map_or(Known::Output, Known::Probabilities)
    }
}

/// Memory of one task, for one sample after the other.
struct Scratch {
    /// `Vᵀ` and `K`, packed.
    v: Buffer,
    k: Buffer,
    /// `Kᵀ`, packed, and a block of probabilities, where these are computed.
    again: Option<(Buffer, Buffer)>,
    /// `V`, packed, where the output is computed.
    values: Option<Buffer>,
    /// What hides a sample's keys.
    hidden: Buffer,
    /// A block of gradients of the scores.
    ds: Buffer,
    /// A block of queries, or of `dO`, packed.
    rows: Buffer,
}

impl Scratch {
    fn new(heads: &Heads, known: Known, ws: &Workspace) -> Self {
        let packed = |k, n| ws.take(packed_len(ws.isa(), k, n));
        let (keys, wide, scores) = (heads.keys, heads.head_width, heads.block() * heads.row());
        let again = !matches!(known, Known::Probabilities(_));
        Self {
            v: packed(wide, keys),
            k: packed(keys, wide),
            again: again.then(|| (packed(wide, keys), ws.take(scores))),
            values: matches!(known, Known::Nothing(_)).then(|| packed(keys, wide)),
            hidden: heads.room_to_hide(ws),
            ds: ws.take(scores),
            rows: packed(heads.block(), wide),
        }
    }
}

impl Heads<'_> {
    /// Derivatives from `dO`.
    pub(crate) fn vjp(
        &self,
        (q, k, v): (Rows, Rows, Rows),
        d_o: &[f32],
        known: Known,
        grads: HeadsGrads,
        ws: &Workspace,
    ) {
        self.check();
        let scores = self.queries * self.keys;
        // The bias's gradient is a sum over samples: in parts of fixed size, added in order.
        let part = if grads.bias.is_some() { self.batch.div_ceil(16).max(1) } else { self.samples() };
        let parts = self.batch.div_ceil(part);
        let mut sums = grads.bias.as_ref().map(|_| ws.take_zeroed(parts * self.heads * scores));
        {
            let sums = sums.as_mut().map(|sums| Shared::new(sums));
            let to = [grads.q, grads.k, grads.v];
            for_each(parts * self.heads, |task| {
                let (group, head) = (task / self.heads, task % self.heads);
                // SAFETY: each task has its own sums.
                let mut sums =
                    sums.as_ref().map(|sums| unsafe { sums.slice(task * scores..(task + 1) * scores) });
                let mut scratch = Scratch::new(self, known, ws);
                for sample in group * part..((group + 1) * part).min(self.batch) {
                    let known = match known {
                        Known::Probabilities(kept) => {
                            let size = self.queries * self.row();
                            Known::Probabilities(&kept[(sample * self.heads + head) * size..][..size])
                        }
                        other => other,
                    };
                    self.head_vjp(
                        (sample, head),
                        (q, k, v),
                        d_o,
                        known,
                        to,
                        sums.as_deref_mut(),
                        &mut scratch,
                        ws,
                    );
                }
            });
        }
        if let (Some(bias), Some(sums)) = (grads.bias, sums) {
            bias.fill(0.0);
            for part in sums.chunks_exact((self.heads * scores).max(1)) {
                bias.iter_mut().zip(part).for_each(|(a, b)| *a += b);
            }
        }
    }

    fn head_vjp(
        &self,
        (sample, head): (usize, usize),
        (q, k, v): (Rows, Rows, Rows),
        d_o: &[f32],
        known: Known,
        to: [(&Shared, usize, usize); 3],
        mut dbias: Option<&mut [f32]>,
        scratch: &mut Scratch,
        ws: &Workspace,
    ) {
        let (isa, keys, wide, row) = (ws.isa(), self.keys, self.head_width, self.row());
        let column = head * wide;
        let d_o = Rows { data: d_o, stride: self.width() };
        let (k, v) = (k.head(sample * keys, column, keys, wide), v.head(sample * keys, column, keys, wide));
        let Scratch { v: packed_v, k: packed_k, again, values, hidden, ds, rows } = scratch;
        let masks = self.masks(sample, head, hidden);
        pack_all(isa, v.t(), packed_v);
        pack_all(isa, k, packed_k);
        if let Some((turned, _)) = again {
            pack_all(isa, k.t(), turned);
        }
        if let Some(values) = values {
            pack_all(isa, v, values);
        }
        // SAFETY: each task has its own samples and head, so its rows and columns of dQ, dK and dV.
        let target = |which: usize, at: usize, count: usize| unsafe {
            let (out, start, stride) = to[which];
            Target::part(out, start + at * stride + column, count, wide, stride)
        };
        let mut init = Init::Zero;
        for block in blocks(self.queries, self.block()) {
            for range in blocks(block.len(), STEP) {
                let (first, count) = (block.start + range.start, range.len());
                let at = sample * self.queries + first;
                let p = match (known, &mut *again) {
                    (Known::Probabilities(kept), _) => &kept[first * row..(first + count) * row],
                    (_, Some((k, p))) => {
                        let p = &mut p[range.start * row..range.end * row];
                        let q = q.head(at, column, count, wide);
                        self.probabilities(q, k, p, first, masks, ws);
                        p
                    }
                    _ => unreachable!("packed when the probabilities are not kept"),
                };
                if let (Known::Nothing(o), Some(values)) = (known, &*values) {
                    let p = Mat::strided(p, count, keys, row, 1);
                    // SAFETY: each task has its own rows and columns.
                    let o = unsafe { Target::part(o, at * self.width() + column, count, wide, self.width()) };
                    multiply(isa, p, Right::Packed(values), o, Init::Zero);
                }
                let ds = &mut ds[range.start * row..range.end * row];
                let to = Target::new(ds, count, keys, row);
                multiply(isa, d_o.head(at, column, count, wide), Right::Packed(packed_v), to, Init::Zero);
                let dbias = dbias.as_deref_mut().map(|d| &mut d[first * keys..(first + count) * keys]);
                softmax_back(isa, p, ds, row, keys, self.scale(), dbias);
                let ds = Mat::strided(ds, count, keys, row, 1);
                multiply(isa, ds, Right::Packed(packed_k), target(0, at, count), Init::Zero);
            }
            let count = block.len();
            let at = sample * self.queries + block.start;
            let p = match (known, &*again) {
                (Known::Probabilities(kept), _) => &kept[block.start * row..block.end * row],
                (_, Some((_, p))) => &p[..count * row],
                _ => unreachable!("made when the probabilities are not kept"),
            };
            let mut over_queries = |left: &[f32], right: Mat, which| {
                let left = Mat::strided(left, count, keys, row, 1).t();
                pack_all(isa, right, rows);
                multiply(isa, left, Right::Packed(rows), target(which, sample * keys, keys), init);
            };
            over_queries(p, d_o.head(at, column, count, wide), 2);
            over_queries(ds, q.head(at, column, count, wide), 1);
            init = Init::Add;
        }
    }
}
