//! Attention between given queries, keys and values, one task for each head of a few samples; the derivative is in
//! `heads_vjp`.
//!
//! A head's queries are taken in equal blocks of at most [`QUERIES`] and [`BLOCK`] scores, so that its scores stay in the second-level cache
//! however long the sequence is; sums over queries (`dK`, `dV`) run over the blocks in order. What belongs to one query
//! goes in steps of [`STEP`] queries: their scores pass from product to softmax to product in the first-level cache.

use super::softmax::{HeadMasks, softmax_rows};
use crate::gemm::{Init, Mat, Right, Target, blocks, multiply, pack_all, packed_len};
use crate::share::Shared;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace};

const QUERIES: usize = 256;
/// Scores of a block, about: they and their gradients share a second-level cache.
const BLOCK: usize = 1 << 17;
pub(super) const STEP: usize = 24;
/// Scores of a task, about, if a sample has fewer.
const SCORES: usize = 1 << 14;

/// Whether the probabilities are kept for the derivative or computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keep `batch x heads x tokens x tokens` floats.
    Probabilities,
    /// Keep none; the derivative pays one more product and softmax.
    Nothing,
}

/// What is added to or hidden from the scores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Masks<'a> {
    /// Added to every sample's scores: heads x queries x keys. Its gradient can be asked for.
    pub bias: Option<&'a [f32]>,
    /// Added to every head's scores: sample `i` takes table `i mod tables` of tables x queries x keys (shifted windows).
    pub groups: Option<&'a [f32]>,
    /// Batch x keys: false hides a key.
    pub keys: Option<&'a [bool]>,
    /// Query `i` sees keys up to `i`.
    pub causal: bool,
}

/// Shape and layout of attention on rows `sample x token`, in each of which head `h` takes columns
/// `h * head_width..(h + 1) * head_width` of its query, key and value parts.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names)]
pub(crate) struct Heads<'a> {
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
    /// Masks and biases.
    pub masks: Masks<'a>,
}

/// Rows of queries, keys or values: where the first begins and how far apart they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub data: &'a [f32],
    pub stride: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn head(self, row: usize, column: usize, rows: usize, width: usize) -> Mat<'a> {
        Mat::strided(
            &self.data[(row * self.stride + column).min(self.data.len())..],
            rows,
            width,
            self.stride,
            1,
        )
    }
}

/// Where `dQ`, `dK` and `dV` go (rows as in [`Rows`], overwritten), and the bias's gradient.
pub(crate) struct HeadsGrads<'a, 'b> {
    pub(crate) q: (&'b Shared<'a>, usize, usize),
    pub(crate) k: (&'b Shared<'a>, usize, usize),
    pub(crate) v: (&'b Shared<'a>, usize, usize),
    pub(crate) bias: Option<&'b mut [f32]>,
}

impl Heads<'_> {
    pub(super) fn width(&self) -> usize {
        self.heads * self.head_width
    }

    pub(super) fn scale(&self) -> f32 {
        1.0 / (self.head_width as f32).sqrt()
    }

    /// Distance between rows of probabilities: whole cache lines.
    pub(super) fn row(&self) -> usize {
        self.keys.next_multiple_of(16)
    }

    /// Queries of a block.
    pub(super) fn block(&self) -> usize {
        let most = (BLOCK / self.row().max(1)).clamp(STEP, QUERIES);
        self.queries.div_ceil(self.queries.div_ceil(most).max(1)).next_multiple_of(12)
    }

    /// Samples of a task: more than one of short sequences, so that what a task needs beside its work is little.
    pub(super) fn samples(&self) -> usize {
        (SCORES / (self.queries * self.keys).max(1)).max(1)
    }

    /// Floats of all probabilities.
    pub(crate) fn probabilities_len(&self) -> usize {
        self.batch * self.heads * self.queries * self.row()
    }

    pub(super) fn check(&self) {
        let scores = self.queries * self.keys;
        assert!(
            self.masks.bias.is_none_or(|b| b.len() == self.heads * scores),
            "bias must be heads x queries x keys"
        );
        assert!(
            self.masks.groups.is_none_or(|g| !g.is_empty() && g.len().is_multiple_of(scores)),
            "groups must be tables x queries x keys"
        );
        assert!(
            self.masks.keys.is_none_or(|k| k.len() == self.batch * self.keys),
            "key mask must be batch x keys"
        );
        assert!(
            !self.masks.causal || self.queries == self.keys,
            "a causal mask needs as many keys as queries"
        );
    }

    /// Memory for what hides a sample's keys.
    pub(super) fn room_to_hide(&self, ws: &Workspace) -> Buffer {
        ws.take(if self.masks.keys.is_some() { self.keys } else { 0 })
    }

    /// The masks of one head of a sample; `room` gets what hides the sample's keys.
    pub(super) fn masks<'r>(&'r self, sample: usize, head: usize, room: &'r mut [f32]) -> HeadMasks<'r> {
        let scores = self.queries * self.keys;
        HeadMasks {
            bias: self.masks.bias.map(|b| &b[head * scores..(head + 1) * scores]),
            group: self.masks.groups.map(|g| {
                let table = sample % (g.len() / scores);
                &g[table * scores..(table + 1) * scores]
            }),
            keys: self.masks.keys.map(|visible| {
                let visible = &visible[sample * self.keys..(sample + 1) * self.keys];
                for (hidden, visible) in room.iter_mut().zip(visible) {
                    *hidden = if *visible { 0.0 } else { f32::NEG_INFINITY };
                }
                &*room
            }),
            causal: self.masks.causal,
        }
    }

    /// `O = softmax(scale Q Kᵀ + masks) V` into `o` (rows `width` apart); `kept` gets the probabilities if given.
    pub(crate) fn forward(
        &self,
        (q, k, v): (Rows, Rows, Rows),
        o: &mut [f32],
        kept: Option<&mut [f32]>,
        ws: &Workspace,
    ) {
        self.check();
        let (keys, wide, row) = (self.keys, self.head_width, self.row());
        let (o, kept) = (Shared::new(o), kept.map(Shared::new));
        let part = self.samples();
        for_each(self.batch.div_ceil(part) * self.heads, |task| {
            let (group, head) = (task / self.heads, task % self.heads);
            let column = head * wide;
            let mut packed_k = ws.take(packed_len(ws.isa(), wide, keys));
            let mut packed_v = ws.take(packed_len(ws.isa(), keys, wide));
            let mut scratch = kept.is_none().then(|| ws.take(STEP * row));
            let mut room = self.room_to_hide(ws);
            for sample in group * part..((group + 1) * part).min(self.batch) {
                pack_all(ws.isa(), k.head(sample * keys, column, keys, wide).t(), &mut packed_k);
                pack_all(ws.isa(), v.head(sample * keys, column, keys, wide), &mut packed_v);
                let masks = self.masks(sample, head, &mut room);
                for range in blocks(self.queries, STEP) {
                    let (first, count) = (range.start, range.len());
                    let at = sample * self.queries + first;
                    let p = match (&kept, &mut scratch) {
                        (Some(kept), _) => {
                            let from = ((sample * self.heads + head) * self.queries + first) * row;
                            // SAFETY: each task has its own samples and head.
                            unsafe { kept.slice(from..from + count * row) }
                        }
                        (None, scratch) => {
                            &mut scratch.as_mut().expect("made when none is kept")[..count * row]
                        }
                    };
                    let q = q.head(at, column, count, wide);
                    self.probabilities(q, &packed_k, p, first, masks, ws);
                    let p = Mat::strided(p, count, keys, row, 1);
                    // SAFETY: each task has its own rows and columns.
                    let o =
                        unsafe { Target::part(&o, at * self.width() + column, count, wide, self.width()) };
                    multiply(ws.isa(), p, Right::Packed(&packed_v), o, Init::Zero);
                }
            }
        });
    }

    pub(super) fn probabilities(
        &self,
        q: Mat,
        k: &[f32],
        p: &mut [f32],
        first: usize,
        masks: HeadMasks,
        ws: &Workspace,
    ) {
        let row = self.row();
        multiply(ws.isa(), q, Right::Packed(k), Target::new(p, q.rows, self.keys, row), Init::Zero);
        softmax_rows(ws.isa(), p, row, self.keys, first, self.scale(), masks);
    }
}
