//! Both ends of a masked language model, which share the table of tokens, or have one each.
//!
//! ```text
//! x1 = x2 = E[token] + P[place]
//! a = norm((y1 + y2) / 2) W + b,   logits = norm(gelu(a)) S^T + b,   S = E where they share it
//! loss = -mean over the tokens asked for of log p(token)
//! ```
//! The tokens asked for are picked before anything else is done, so that the head's work and memory are theirs alone.

mod scores;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};
use reprop_kernels::embedding;

use self::scores::Scores;
use super::Initial;
use super::linear::{linear, linear_vjp, value};
use super::mlp::{density, distribution};
use super::norm::{affine, norm_vjp, normalise};
use crate::kernels::{Floats, modify};
use crate::{Context, Error, Footprint, Gradients, Head, Precision, Result, Stem, Streams, host};

/// The target of a token that is not asked for.
pub const NOT_ASKED: i64 = -100;

/// Settings of a [`Language`].
#[derive(Config, Debug)]
pub struct LanguageConfig {
    /// Number of tokens.
    pub vocabulary: usize,
    /// Places of a sequence.
    pub length: usize,
    /// Width of a stream.
    pub width: usize,
    /// The part of a sequence that is asked for, as the batches have it: predictions of memory count on it.
    #[config(default = 0.15)]
    pub asked: f64,
    /// Whether scores come from the table of tokens. Ends that share nothing can be stages on machines of their own.
    #[config(default = true)]
    pub tied: bool,
}

impl LanguageConfig {
    /// Ends with initial parameters.
    pub fn init(&self, initial: &mut Initial) -> Language {
        let Self { vocabulary, length, width, asked, tied } = *self;
        Language {
            tokens: initial.truncated_normal([vocabulary, width]),
            positions: initial.truncated_normal([length, width]),
            norm: initial.norm(width),
            dense: initial.linear(width, width),
            dense_norm: initial.norm(width),
            bias: initial.zeros([vocabulary]),
            scores: (!tied).then(|| initial.truncated_normal([vocabulary, width])),
            vocabulary,
            length,
            width,
            asked,
        }
    }
}

/// Tokens to streams, and streams to the scores of tokens. Unless there is a table for scores, that of tokens is used both
/// ways, and its gradient is the sum of both.
///
/// # Shapes
///
/// `[batch, places] -> [batch, places, width]` twice `-> [asked, vocabulary]`, with up to `length` places; targets are
/// `[batch, places]`, with [`NOT_ASKED`] for tokens that are not asked for. Without targets the scores are those of all
/// tokens.
#[derive(Module, Debug)]
pub struct Language {
    /// One vector a token: `[vocabulary, width]`.
    pub tokens: Param<Tensor<2>>,
    /// One vector a place: `[length, width]`.
    pub positions: Param<Tensor<2>>,
    /// Of the mean stream.
    pub norm: LayerNorm,
    /// Before GELU.
    pub dense: Linear,
    /// After GELU.
    pub dense_norm: LayerNorm,
    /// Of the scores.
    pub bias: Param<Tensor<1>>,
    /// What tokens are scored with, if not with [`Self::tokens`]: `[vocabulary, width]`.
    pub scores: Option<Param<Tensor<2>>>,
    vocabulary: usize,
    length: usize,
    width: usize,
    asked: f64,
}

/// What the head's derivative needs, all of the tokens asked for alone.
pub struct HeadSaved {
    shape: [usize; 3],
    /// Places of the tokens asked for, in rows of all tokens.
    asked: Tensor<1, Int>,
    mean: (Tensor<2>, Tensor<2>),
    h: Tensor<2>,
    dense: (Tensor<2>, Tensor<2>),
    /// The loss's gradient by the scores, `[asked, vocabulary]`.
    dlogits: Tensor<2>,
}

impl crate::Saved for HeadSaved {
    fn bytes(&self) -> u64 {
        let norms = self.mean.bytes() + self.dense.bytes();
        self.asked.bytes() + norms + self.h.bytes() + self.dlogits.bytes()
    }
}

/// What the head makes of rows: both norms' normalised inputs and scales, `h`, and the scores.
type Scored = ((Tensor<2>, Tensor<2>), Tensor<2>, (Tensor<2>, Tensor<2>), Tensor<2>);

impl Language {
    /// Whether both ends use the same table.
    pub fn is_tied(&self) -> bool {
        self.scores.is_none()
    }

    fn scoring(&self) -> Scores<'_> {
        Scores { table: self.scores.as_ref().unwrap_or(&self.tokens), bias: &self.bias }
    }

    fn score(&self, rows: Tensor<2>, context: &Context<'_>) -> Scored {
        let mean = normalise(rows);
        let h = linear(affine(mean.0.clone(), &self.norm), &self.dense, Precision::F32);
        let dense = normalise(distribution(h.clone()) * h.clone());
        let logits = self.scoring().forward(affine(dense.0.clone(), &self.dense_norm), context);
        (mean, h, dense, logits)
    }

    /// An error for the first number that is not a token's.
    fn check_tokens(&self, numbers: impl Iterator<Item = i64>) -> Result<()> {
        let mut strange = numbers.filter(|number| !(0..self.vocabulary as i64).contains(number));
        match strange.next() {
            Some(label) => Err(Error::Label { label, classes: self.vocabulary }),
            None => Ok(()),
        }
    }
}

/// The mean of both streams as rows.
fn mean_rows(Streams { x1, x2 }: Streams<3>) -> Tensor<2> {
    let [batch, places, width] = x1.dims();
    (x1 + x2).mul_scalar(0.5).reshape([batch * places, width])
}

impl Stem<3> for Language {
    type Input = Tensor<2, Int>;
    /// The tokens.
    type Saved = Tensor<1, Int>;

    fn check(&self, tokens: &Tensor<2, Int>) -> Result<()> {
        let [batch, places] = tokens.dims();
        if batch == 0 || !(1..=self.length).contains(&places) {
            return Err(Error::Shape {
                what: "tokens",
                expected: format!("[1 or more, 1 to {}]", self.length),
                found: format!("[{batch}, {places}]"),
            });
        }
        self.check_tokens(host::read(tokens.clone()).iter::<i64>())
    }

    fn forward_saving(&self, tokens: Tensor<2, Int>, _: &Context<'_>) -> (Streams<3>, Tensor<1, Int>) {
        let [batch, places] = tokens.dims();
        let tokens = tokens.reshape([batch * places]);
        let x = value(&self.tokens, Precision::F32).select(0, tokens.clone());
        let positions: Tensor<2> = value(&self.positions, Precision::F32).narrow(0, 0, places);
        (Streams::duplicate(x.reshape([batch, places, self.width]) + positions.unsqueeze()), tokens)
    }

    fn vjp(&self, tokens: Tensor<1, Int>, dx: Streams<3>, context: &Context<'_>, gradients: &mut Gradients) {
        let dx = dx.x1 + dx.x2;
        let [batch, places, width] = dx.dims();
        let zeros = |rows| Tensor::zeros([rows, width], &dx.device());
        gradients.add(&self.positions, || {
            let sum = dx.clone().sum_dim(0).squeeze_dim(0);
            if places == self.length { sum } else { Tensor::cat(vec![sum, zeros(self.length - places)], 0) }
        });
        if !context.fuses(&dx.device()) {
            gradients.add(&self.tokens, || {
                let rows = dx.clone().reshape([batch * places, width]);
                zeros(self.vocabulary).select_assign(0, tokens, rows, IndexingUpdateOp::Add)
            });
            return;
        }
        // Onto the head's gradient where they share the table, which is much larger than what is added. A token's rows are
        // added up first: the sum of both ends' gradients has the same bits as if each had a table of its own.
        gradients.add_onto(&self.tokens, |before| {
            let table = before.unwrap_or_else(|| zeros(self.vocabulary));
            let tokens: Vec<u32> = host::read(tokens).iter::<u32>().collect();
            let mut met: Vec<u32> = tokens.clone();
            met.sort_unstable();
            met.dedup();
            let numbers: Vec<u32> =
                tokens.iter().map(|token| met.partition_point(|other| other < token) as u32).collect();
            let mut sums = vec![0.0; met.len() * width];
            embedding::vjp(width, &numbers, &Floats::of(dx.clone()), &mut sums);
            modify(table, |table| embedding::vjp(width, &met, &sums, table)).0
        });
    }

    fn footprint(&self, batch: usize, _: &Context<'_>) -> Option<([usize; 3], Footprint)> {
        let rows = (batch * self.length) as u64;
        let stream = rows * (self.width * size_of::<f32>()) as u64;
        let saved = rows * size_of::<i64>() as u64;
        let size = Footprint { saved, forward: stream, vjp: stream, spared: 0 };
        Some(([batch, self.length, self.width], size))
    }
}

impl Head<3> for Language {
    type Target = Tensor<2, Int>;
    type Output = Tensor<2>;
    type Saved = HeadSaved;

    fn check(&self, target: &Tensor<2, Int>, batch: usize) -> Result<()> {
        let [found, _] = target.dims();
        let numbers: Vec<i64> =
            host::read(target.clone()).iter::<i64>().filter(|&n| n != NOT_ASKED).collect();
        if found != batch || numbers.is_empty() {
            return Err(Error::Shape {
                what: "targets",
                expected: format!("{batch} sequences, with 1 or more tokens asked for"),
                found: format!("{found} sequences, with {}", numbers.len()),
            });
        }
        self.check_tokens(numbers.into_iter())
    }

    fn predict(&self, x: Streams<3>, context: &Context<'_>) -> Tensor<2> {
        self.score(mean_rows(x), context).3
    }

    fn loss_saving(
        &self,
        x: Streams<3>,
        target: Tensor<2, Int>,
        context: &Context<'_>,
    ) -> (Tensor<1>, Tensor<2>, HeadSaved) {
        let (shape, device) = (x.dims(), x.x1.device());
        let target: Vec<i64> = host::read(target).iter().collect();
        let places = (0..).zip(target).filter(|&(_, token)| token != NOT_ASKED);
        let (places, tokens): (Vec<i64>, Vec<i64>) = places.unzip();
        let count = places.len();
        let asked = Tensor::<1, Int>::from_data(TensorData::new(places, [count]), &device);
        let (mean, h, dense, logits) = self.score(mean_rows(x).select(0, asked.clone()), context);
        let (loss, dlogits) = self.scoring().loss(logits.clone(), tokens, context);
        (loss, logits, HeadSaved { shape, asked, mean, h, dense, dlogits })
    }

    fn vjp(
        &self,
        HeadSaved { shape, asked, mean, h, dense, dlogits }: HeadSaved,
        weight: f64,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<3> {
        let [batch, places, width] = shape;
        let features = || affine(dense.0.clone(), &self.dense_norm);
        // Of a mean over one batch alone the weight is one, and the scores are many.
        let dlogits = if weight.to_bits() == 1_f64.to_bits() { dlogits } else { dlogits.mul_scalar(weight) };
        let dfeatures = self.scoring().vjp(features, dlogits, context, gradients);
        let dgelu = norm_vjp(dense.0, dense.1, dfeatures, &self.dense_norm, gradients);
        let dh = dgelu * (density(h.clone()) * h.clone() + distribution(h));
        let input = || affine(mean.0.clone(), &self.norm);
        let dmean = linear_vjp(input, dh, &self.dense, Precision::F32, gradients);
        let drows = norm_vjp(mean.0, mean.1, dmean, &self.norm, gradients).mul_scalar(0.5);
        let zeros = Tensor::zeros([batch * places, width], &drows.device());
        let dx = zeros.select_assign(0, asked, drows, IndexingUpdateOp::Add);
        Streams::duplicate(dx.reshape([batch, places, width]))
    }

    fn footprint(&self, [batch, places, width]: [usize; 3], _: &Context<'_>) -> Option<Footprint> {
        let float = size_of::<f32>() as u64;
        let asked = (batch * (self.asked * places as f64).round().max(1.0) as usize) as u64;
        let scores = asked * self.vocabulary as u64 * float;
        let stream = (batch * places * width) as u64 * float;
        let saved = asked * (3 * width as u64 + 2) * float + scores + asked * size_of::<i64>() as u64;
        Some(Footprint { saved, forward: stream + 2 * scores, vjp: 2 * scores + stream, spared: 0 })
    }
}
