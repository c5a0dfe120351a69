//! Attention between given queries, keys and values, one task for each head of a few samples.
//!
//! A head's queries are taken in equal blocks of at most [`QUERIES`], so that its scores stay in the second-level cache
//! however long the sequence is; sums over queries (`dK`, `dV`) run over the blocks in order. What belongs to one query
//! goes in steps of [`STEP`] queries: their scores pass from product to softmax to product in the first-level cache.

use super::softmax::{HeadMasks, softmax_back, softmax_rows};
use crate::gemm::{Init, Mat, Right, Target, blocks, multiply, pack_all, packed_len};
use crate::rows::for_each;
use crate::share::Shared;
use crate::workspace::{Buffer, Workspace};

const QUERIES: usize = 256;
const STEP: usize = 24;

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
    fn head(self, row: usize, column: usize, rows: usize, width: usize) -> Mat<'a> {
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
    fn width(&self) -> usize {
        self.heads * self.head_width
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_width as f32).sqrt()
    }

    /// Distance between rows of probabilities: whole cache lines.
    fn row(&self) -> usize {
        self.keys.next_multiple_of(16)
    }

    /// Queries of a block.
    fn block(&self) -> usize {
        self.queries.div_ceil(self.queries.div_ceil(QUERIES).max(1)).next_multiple_of(12)
    }

    /// Floats of all probabilities.
    pub(crate) fn probabilities_len(&self) -> usize {
        self.batch * self.heads * self.queries * self.row()
    }

    fn check(&self) {
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

    fn masks(&self, sample: usize, head: usize) -> HeadMasks<'_> {
        let scores = self.queries * self.keys;
        HeadMasks {
            bias: self.masks.bias.map(|b| &b[head * scores..(head + 1) * scores]),
            group: self.masks.groups.map(|g| {
                let table = sample % (g.len() / scores);
                &g[table * scores..(table + 1) * scores]
            }),
            keys: self.masks.keys.map(|k| &k[sample * self.keys..(sample + 1) * self.keys]),
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
        for_each(self.batch * self.heads, |task| {
            let (sample, head) = (task / self.heads, task % self.heads);
            let column = head * wide;
            let k = pack(ws, k.head(sample * keys, column, keys, wide).t());
            let v = pack(ws, v.head(sample * keys, column, keys, wide));
            let mut scratch = kept.is_none().then(|| ws.take(STEP * row));
            for range in blocks(self.queries, STEP) {
                let (first, count) = (range.start, range.len());
                let at = sample * self.queries + first;
                let p = match (&kept, &mut scratch) {
                    (Some(kept), _) => {
                        let from = (task * self.queries + first) * row;
                        // SAFETY: each task has its own sample and head.
                        unsafe { kept.slice(from..from + count * row) }
                    }
                    (None, scratch) => &mut scratch.as_mut().expect("made when none is kept")[..count * row],
                };
                let q = q.head(at, column, count, wide);
                self.probabilities(q, &k, p, first, self.masks(sample, head), ws);
                // SAFETY: each task has its own rows and columns.
                let o = unsafe { Target::part(&o, at * self.width() + column, count, wide, self.width()) };
                multiply(ws.isa(), Mat::strided(p, count, keys, row, 1), Right::Packed(&v), o, Init::Zero);
            }
        });
    }

    fn probabilities(
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

    /// Derivatives from `dO`; the probabilities are computed again if not given.
    pub(crate) fn vjp(
        &self,
        (q, k, v): (Rows, Rows, Rows),
        d_o: &[f32],
        kept: Option<&[f32]>,
        grads: HeadsGrads,
        ws: &Workspace,
    ) {
        self.check();
        let scores = self.queries * self.keys;
        // The bias's gradient is a sum over samples: in parts of fixed size, added in order.
        let part = if grads.bias.is_some() { self.batch.div_ceil(16).max(1) } else { 1 };
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
                for sample in group * part..((group + 1) * part).min(self.batch) {
                    let kept = kept.map(|kept| {
                        let size = self.queries * self.row();
                        &kept[(sample * self.heads + head) * size..][..size]
                    });
                    self.head_vjp((sample, head), (q, k, v), d_o, kept, to, sums.as_deref_mut(), ws);
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
        kept: Option<&[f32]>,
        to: [(&Shared, usize, usize); 3],
        mut dbias: Option<&mut [f32]>,
        ws: &Workspace,
    ) {
        let (isa, keys, wide, row) = (ws.isa(), self.keys, self.head_width, self.row());
        let column = head * wide;
        let d_o = Rows { data: d_o, stride: self.width() };
        let (k, v) = (k.head(sample * keys, column, keys, wide), v.head(sample * keys, column, keys, wide));
        let packed_v = pack(ws, v.t());
        let packed_k = pack(ws, k);
        let again = kept.is_none().then(|| (pack(ws, k.t()), ws.take(self.block() * row)));
        let (again_k, mut again_p) = again.unzip();
        let mut ds = ws.take(self.block() * row);
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
                let p = match (kept, &mut again_p, &again_k) {
                    (Some(kept), _, _) => &kept[first * row..(first + count) * row],
                    (None, Some(p), Some(k)) => {
                        let p = &mut p[range.start * row..range.end * row];
                        let q = q.head(at, column, count, wide);
                        self.probabilities(q, k, p, first, self.masks(sample, head), ws);
                        p
                    }
                    _ => unreachable!("packed when the probabilities are not kept"),
                };
                let ds = &mut ds[range.start * row..range.end * row];
                let to = Target::new(ds, count, keys, row);
                multiply(isa, d_o.head(at, column, count, wide), Right::Packed(&packed_v), to, Init::Zero);
                let dbias = dbias.as_deref_mut().map(|d| &mut d[first * keys..(first + count) * keys]);
                softmax_back(isa, p, ds, row, keys, self.scale(), dbias);
                let ds = Mat::strided(ds, count, keys, row, 1);
                multiply(isa, ds, Right::Packed(&packed_k), target(0, at, count), Init::Zero);
            }
            let count = block.len();
            let at = sample * self.queries + block.start;
            let p = match (kept, &again_p) {
                (Some(kept), _) => &kept[block.start * row..block.end * row],
                (None, Some(p)) => &p[..count * row],
                _ => unreachable!("made when the probabilities are not kept"),
            };
            let over_queries = |left: &[f32], right: Mat, which| {
                let left = Mat::strided(left, count, keys, row, 1).t();
                multiply(
                    isa,
                    left,
                    Right::Packed(&pack(ws, right)),
                    target(which, sample * keys, keys),
                    init,
                );
            };
            over_queries(p, d_o.head(at, column, count, wide), 2);
            over_queries(&ds, q.head(at, column, count, wide), 1);
            init = Init::Add;
        }
    }
}

fn pack(ws: &Workspace, b: Mat) -> Buffer {
    let mut packed = ws.take(packed_len(ws.isa(), b.rows, b.cols));
    pack_all(ws.isa(), b, &mut packed);
    packed
}
