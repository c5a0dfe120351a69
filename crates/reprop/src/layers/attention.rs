//! Multi-head self-attention as a sub-block: pre-norm, no residual inside.
//!
//! ```text
//! q, k, v = split(norm(x) Wqkv + b),   p = softmax(q k^T / sqrt(e)),   y = (p v) Wo + b
//! dv = p^T do,   dp = do v^T,   ds = p * (dp - sum(dp * p)),   dq = ds k / sqrt(e),   dk = ds^T q / sqrt(e)
//! ```
//! with `e` the width of a head and `do` the gradient of `o = p v`. The sum over the keys is taken as the equal
//! `sum(do * o)` over a head's width (Dao et al., *Flash attention*, 2022, eq. 4), which needs no tensor of the size of
//! the probabilities. Saved: the normalised input, its scale, `q k v`, the
//! probabilities, and `p v`.
//!
//! Scores, and their gradients, are made for a group of samples or heads at a time: what is not saved of them then needs
//! the memory of a group only. A head's values do not depend on its group.

mod fused;

use std::ops::Range;

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Bool, Tensor, activation::softmax};

use crate::{Context, Footprint, Gradients, HiddenKeys, Precision};

use super::Initial;
use super::linear::{linear, linear_vjp};
use super::norm::{affine, norm_vjp, normalise};
use super::ways::{BurnWay, Rates};

/// Scores of hidden keys. Finite, so that a sample whose keys are all hidden gives the mean and not `NaN`, and within
/// the range of half floats.
const HIDDEN: f32 = -6e4;

/// Settings of an [`Attention`].
#[derive(Config, Debug)]
pub struct AttentionConfig {
    /// Width of the stream.
    pub width: usize,
    /// Number of heads; divides the width.
    pub heads: usize,
    /// Rate at which elements of the output are dropped.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Rate at which whole samples of the output are dropped.
    #[config(default = 0.0)]
    pub drop_path: f64,
}

impl AttentionConfig {
    /// An attention with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if the heads do not divide the width.
    pub fn init(&self, initial: &mut Initial) -> Attention {
        let Self { width, heads, dropout, drop_path } = *self;
        assert!(heads > 0 && width.is_multiple_of(heads), "{heads} heads do not divide a width of {width}");
        Attention {
            norm: initial.norm(width),
            qkv: initial.linear(width, 3 * width),
            projection: initial.linear(width, width),
            width,
            heads,
            dropout,
            drop_path,
        }
    }
}

/// Multi-head self-attention over all tokens, with hidden keys where the pass has [`HiddenKeys`].
///
/// # Shapes
///
/// `[batch, tokens, width] -> [batch, tokens, width]`
#[derive(Module, Debug)]
pub struct Attention {
    /// Before everything.
    pub norm: LayerNorm,
    /// Queries, keys and values: `[width, 3 * width]`, in that order, heads inside each.
    pub qkv: Linear,
    /// From the heads' values to the output.
    pub projection: Linear,
    width: usize,
    heads: usize,
    dropout: f64,
    drop_path: f64,
}

/// Queries, keys, values or probabilities of heads: `[1, b, h, n, _]`. The first axis is what is left of `q k v` when one
/// of them is taken out: to drop it would copy them.
type Heads = Tensor<5>;

/// Normalised input `[b, n, d]`, its scale `[b, n, 1]`, `qkv [b n, 3 d]`, probabilities by groups, `p v [b n, d]`.
type BurnSaved = (Tensor<3>, Tensor<3>, Tensor<2>, Vec<Heads>, Tensor<2>);

/// Samples and heads that are worked on together.
type Group = [Range<usize>; 3];

/// Scores of a group, unless one head has more: 4 MB. Enough heads to keep all threads busy at the usual numbers of
/// tokens, and little beside what a block saves where tokens are many.
const GROUP: usize = 1 << 20;

impl Attention {
    /// `q`, `k` and `v` as views of the rows of `qkv`.
    fn split(&self, qkv: Tensor<2>, [batch, tokens]: [usize; 2]) -> [Heads; 3] {
        let heads: Heads =
            qkv.reshape([batch, tokens, 3, self.heads, self.width / self.heads]).permute([2, 0, 3, 1, 4]);
        [0, 1, 2].map(|part| heads.clone().narrow(0, part, 1))
    }

    /// Heads as a view of rows `[b n, d]`.
    fn heads(&self, rows: Tensor<2>, [batch, tokens]: [usize; 2]) -> Heads {
        rows.reshape([1, batch, tokens, self.heads, self.width / self.heads]).swap_dims(2, 3)
    }

    /// Heads from groups.
    fn ungrouped(&self, groups: Vec<Heads>) -> Heads {
        // Either every group has all heads, or every sample has the same number of groups.
        let split = groups.first().map_or(1, |group| self.heads.div_ceil(group.dims()[2]));
        if split == 1 {
            return Tensor::cat(groups, 1);
        }
        Tensor::cat(groups.chunks(split).map(|sample| Tensor::cat(sample.to_vec(), 2)).collect(), 1)
    }

    /// Whole samples where a sample's scores fit a group, else some heads of one sample.
    fn groups(&self, [batch, tokens]: [usize; 2]) -> Vec<Group> {
        let heads = (GROUP / (tokens * tokens)).clamp(1, self.heads);
        let samples =
            if heads < self.heads { 1 } else { (GROUP / (tokens * tokens * heads)).clamp(1, batch) };
        let parts = |whole: usize, part: usize| {
            (0..whole).step_by(part).map(move |start| start..(start + part).min(whole))
        };
        parts(batch, samples)
            .flat_map(|samples| parts(self.heads, heads).map(move |heads| [0..1, samples.clone(), heads]))
            .collect()
    }

    /// Scores of the largest group.
    fn group_scores(&self, [batch, tokens]: [usize; 2]) -> u64 {
        let sizes =
            self.groups([batch, tokens]).into_iter().map(|[_, samples, heads]| samples.len() * heads.len());
        (sizes.max().unwrap_or(0) * tokens * tokens) as u64
    }

    /// What queries make of keys; `hidden` are those of the group's samples.
    fn probabilities(
        &self,
        q: Heads,
        k: Heads,
        hidden: Option<Tensor<2, Bool>>,
        precision: Precision,
    ) -> Heads {
        let mut scores = q.mul_scalar(self.scale()).matmul(k.transpose());
        if let Some(hidden) = hidden {
            let shape @ [_, samples, _, _, tokens] = scores.dims();
            scores = scores.mask_fill(hidden.reshape([1, samples, 1, 1, tokens]).expand(shape), HIDDEN);
        }
        precision.cast(softmax(Precision::F32.cast(scores), 4))
    }

    fn scale(&self) -> f64 {
        ((self.width / self.heads) as f64).sqrt().recip()
    }
}

/// Rows `[b n, d]` from heads.
fn rows(heads: Heads) -> Tensor<2> {
    let [_, batch, count, tokens, width] = heads.dims();
    heads.swap_dims(2, 3).reshape([batch * tokens, count * width])
}

impl BurnWay<3> for Attention {
    type BurnSaved = BurnSaved;

    fn rates(&self) -> Rates {
        Rates { dropout: self.dropout, drop_path: self.drop_path }
    }

    fn burn_forward(&self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, BurnSaved) {
        let precision = context.precision();
        let [batch, tokens, width] = x.dims();
        let (normalised, scale) = normalise(x);
        let input = precision.cast(affine(normalised.clone(), &self.norm)).reshape([batch * tokens, width]);
        let qkv = linear(input, &self.qkv, precision);

        let [q, k, v] = self.split(qkv.clone(), [batch, tokens]);
        let hidden = context.side::<HiddenKeys>().map(|HiddenKeys(hidden)| hidden);
        let (probabilities, values): (Vec<Heads>, Vec<Heads>) = self
            .groups([batch, tokens])
            .into_iter()
            .map(|group| {
                let part = |whole: &Heads| whole.clone().slice(group.clone());
                let hidden = hidden.map(|hidden| hidden.clone().slice(group[1].clone()));
                let probabilities = self.probabilities(part(&q), part(&k), hidden, precision);
                (probabilities.clone(), probabilities.matmul(part(&v)))
            })
            .unzip();
        let values = rows(self.ungrouped(values));

        let y = linear(values.clone(), &self.projection, precision);
        let y = Precision::F32.cast(y).reshape([batch, tokens, width]);
        (y, (normalised, scale, qkv, probabilities, values))
    }

    fn burn_vjp(
        &self,
        (normalised, scale, qkv, probabilities, values): BurnSaved,
        dy: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let precision = context.precision();
        let [batch, tokens, width] = dy.dims();
        let dy = precision.cast(dy).reshape([batch * tokens, width]);
        let dvalues = linear_vjp(|| values.clone(), dy, &self.projection, precision, gradients);
        let mean = self.heads(values * dvalues.clone(), [batch, tokens]).sum_dim(4);
        let dvalues = self.heads(dvalues, [batch, tokens]);

        let [q, k, v] = self.split(qkv, [batch, tokens]);
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        for (group, probabilities) in self.groups([batch, tokens]).into_iter().zip(probabilities) {
            let part = |whole: &Heads| whole.clone().slice(group.clone());
            let dvalues = part(&dvalues);
            parts[2].push(probabilities.clone().transpose().matmul(dvalues.clone()));
            let dp = dvalues.matmul(part(&v).transpose());
            let ds = (dp - part(&mean)) * probabilities;
            parts[0].push(ds.clone().matmul(part(&k)).mul_scalar(self.scale()));
            parts[1].push(ds.transpose().matmul(part(&q)).mul_scalar(self.scale()));
        }
        drop((q, k, v, dvalues));
        let parts = parts.map(|parts| rows(self.ungrouped(parts)));
        let dqkv = Tensor::cat(parts.to_vec(), 1);
        drop(parts);

        let input = {
            let normalised = normalised.clone();
            move || precision.cast(affine(normalised, &self.norm)).reshape([batch * tokens, width])
        };
        let dinput = linear_vjp(input, dqkv, &self.qkv, precision, gradients);
        let dinput = Precision::F32.cast(dinput).reshape([batch, tokens, width]);
        norm_vjp(normalised, scale, dinput, &self.norm, gradients)
    }

    fn burn_footprint(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> Footprint {
        let rows = (batch * tokens) as u64;
        let stream = rows * width as u64;
        let half = context.precision().bytes();
        let scores = rows * (self.heads * tokens) as u64;
        let group = self.group_scores([batch, tokens]);
        let masked = if context.masks(self.dropout, self.drop_path) { 4 * stream } else { 0 };
        let (projection, qkv) = (4 * (width * width) as u64, 4 * (3 * width * width) as u64);
        let saved = 4 * (stream + rows) + half * (4 * stream + scores);
        Footprint {
            saved,
            spared: saved / 2,
            // The last group's scores, twice, beside its scaled queries, before `p v` and the output are there; or the
            // output twice; or `q k v` twice.
            forward: [half * group, half * 2 * stream, half * 3 * stream.saturating_sub(scores)]
                .into_iter()
                .max()
                .unwrap_or(0)
                .saturating_sub(half * stream),
            vjp: [
                // The gradient of `p v`, twice, beside the masked one of the output; or that of the projection.
                half * 2 * stream + masked,
                projection + masked,
                // A group's gradient of the probabilities, twice, beside that of `p v` and parts of those of q, k, v.
                half * (2 * group + stream),
                // Those of q and v, and that of k twice, when `p v` is gone.
                half * 4 * stream,
                (half * 5 * stream + qkv).saturating_sub(saved),
            ]
            .into_iter()
            .max()
            .unwrap_or(0),
        }
    }
}
