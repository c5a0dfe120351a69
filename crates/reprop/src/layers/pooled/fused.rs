//! Pooled attention on fused kernels: saved are the input, the norm's statistics, `q k v`, what the pools save, the heads'
//! values and, where they take no more memory than these and the block is not being recovered, the probabilities.

use burn::tensor::Tensor;
use reprop_kernels::attention::{self as kernel, Keep, PoolGrads, PooledGrads, PooledSaved};
use reprop_kernels::conv::Images;
use reprop_kernels::grid::GridOverflow;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::output::{Base, Output};

use super::{Pool, PooledAttention};
use crate::kernels::{Floats, Grad, RowsWeight, Use, lent};
use crate::layers::norm::EPSILON;
use crate::layers::projections::{ProjectionParts, Projections, keep};
use crate::layers::ways::{FusedParts, FusedSaved, FusedScratch, FusedWay, KernelLens};
use crate::{Context, Gradients};

/// Parameters as the kernel takes them.
pub struct Parts<'p> {
    around: ProjectionParts<'p>,
    images: Images,
    heads: usize,
    keep: Keep,
    query: Option<PoolParts>,
    key: PoolParts,
    value: PoolParts,
}

struct PoolParts {
    stride: usize,
    weight: Floats,
    scale: Floats,
    bias: Floats,
}

impl PoolParts {
    fn new(pool: &Pool) -> Option<Self> {
        Some(Self {
            stride: pool.stride(),
            weight: Floats::param(&pool.weight),
            scale: Floats::param(&pool.norm.gamma),
            bias: Floats::param(pool.norm.beta.as_ref()?),
        })
    }

    fn kernel(&self) -> kernel::Pool<'_> {
        let norm = LayerNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 };
        kernel::Pool { stride: self.stride, weight: &self.weight, norm }
    }
}

/// Gradients of a pool's parameters.
struct PoolGrad<'p> {
    weight: Grad<'p, 4>,
    scale: Grad<'p, 1>,
    bias: Grad<'p, 1>,
}

impl<'p> PoolGrad<'p> {
    fn of(pool: &'p Pool) -> Self {
        let beta = pool.norm.beta.as_ref().expect("fused attention has all its biases");
        Self { weight: Grad::of(&pool.weight), scale: Grad::of(&pool.norm.gamma), bias: Grad::of(beta) }
    }

    fn kernel(&mut self) -> PoolGrads<'_> {
        let norm = NormGrads { scale: &mut self.scale, bias: &mut self.bias };
        PoolGrads { weight: &mut self.weight, norm }
    }

    fn add_to(self, gradients: &mut Gradients) {
        self.scale.add_to(gradients);
        self.bias.add_to(gradients);
        self.weight.add_to(gradients);
    }
}

impl PooledAttention {
    fn projections(&self) -> Projections<'_> {
        Projections { norm: &self.norm, qkv: &self.qkv, out: &self.projection }
    }

    /// Saved buffers that [`Keep`] does not choose: statistics, `q k v`, what the pools save, the heads' values.
    fn kept(&self, [batch, tokens, width]: [usize; 3]) -> KernelLens {
        let rows = batch * tokens;
        let mut lens = KernelLens {
            statistics: vec![2 * rows],
            values: vec![3 * rows * width, batch * self.queries() * width],
        };
        for pool in self.pools() {
            let tokens = batch * pool.side(self.side).pow(2);
            lens.statistics.push(2 * tokens * self.heads);
            lens.values.push(tokens * width);
        }
        lens
    }

    /// Floats of the probabilities.
    fn probabilities(&self, batch: usize) -> usize {
        batch * self.heads * self.queries() * self.keys().next_multiple_of(16)
    }

    /// Probabilities are kept where they take no more memory than all else that is saved, if memory is not dear.
    fn keep(&self, dims: [usize; 3], context: &Context<'_>) -> Keep {
        let KernelLens { statistics, values } = self.kept(dims);
        let small = self.probabilities(dims[0]) <= statistics.iter().chain(&values).sum();
        keep(small, context)
    }
}

impl FusedWay<3> for PooledAttention {
    type KernelSaved = PooledSaved;
    type Parts<'p> = Parts<'p>;

    fn fuses(&self, context: &Context<'_>) -> bool {
        self.projections().fuse(context) && self.pools().all(|pool| pool.norm.beta.is_some())
    }

    fn output_dims(&self, [batch, _, width]: [usize; 3]) -> [usize; 3] {
        [batch, self.queries(), width]
    }

    fn parts<'p>(&self, dims: [usize; 3], usage: Use, context: &Context<'p>) -> Option<Parts<'p>> {
        if !self.fuses(context) {
            return None;
        }
        let around = self.projections().parts(dims[0] * dims[1], usage, context)?;
        Some(Parts {
            images: Images { batch: dims[0], height: self.side, width: self.side },
            heads: self.heads,
            keep: self.keep(dims, context),
            query: self.query_pool.as_ref().and_then(PoolParts::new),
            key: PoolParts::new(&self.key_pool)?,
            value: PoolParts::new(&self.value_pool)?,
            around,
        })
    }

    fn kernel_saved(&self, dims: [usize; 3], context: &Context<'_>) -> KernelLens {
        let mut lens = self.kept(dims);
        if self.keep(dims, context) == Keep::Probabilities {
            lens.values.push(self.probabilities(dims[0]));
        }
        lens
    }

    fn fused_scratch(&self, dims: [usize; 3], _: &Context<'_>) -> FusedScratch {
        let [batch, tokens, width] = dims;
        let stream = batch * tokens * width;
        let weights = RowsWeight::bytes(batch * tokens, [width, 4 * width], [stream]);
        FusedScratch {
            // Pooled queries, keys and values.
            forward: weights + lent(self.pooled(dims)),
            vjp: weights + self.gradients(dims),
        }
    }

    fn reverse_scratch(&self, dims: [usize; 3], _: &Context<'_>) -> Option<u64> {
        let [batch, tokens, width] = dims;
        let weights = RowsWeight::bytes(batch * tokens, [2 * width, 4 * width], [batch * tokens * width]);
        let KernelLens { statistics, values } = self.kept(dims);
        Some(weights + lent(statistics.into_iter().chain(values)) + self.gradients(dims))
    }

    fn fused_reverse(
        &self,
        parts: &Parts<'_>,
        (x, dy): (Tensor<3>, Tensor<3>),
        output: &mut Output,
        (dx, base): (&mut [f32], Base),
        gradients: &mut Gradients,
    ) -> Result<(), GridOverflow> {
        let (x, dy, memory) = (Floats::of(x), Floats::of(dy), parts.around.memory());
        self.with_grads(gradients, |grads| parts.kernel().reverse(&x, output, &dy, dx, base, grads, memory))
    }

    fn fused_vjp(
        &self,
        FusedSaved { x, kernel: saved, .. }: FusedSaved<3, PooledSaved>,
        dy: Tensor<3>,
        (dx, base): (&mut [f32], Base),
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let parts = self.parts(x.dims(), Use::Vjp, context).expect("what ran fused before runs fused again");
        let (x, dy, memory) = (Floats::of(x), Floats::of(dy), parts.around.memory());
        self.with_grads(gradients, |grads| parts.kernel().vjp(&x, saved, &dy, dx, base, grads, memory));
    }
}

impl PooledAttention {
    /// Floats of pooled queries, keys and values.
    fn pooled(&self, [batch, _, width]: [usize; 3]) -> Vec<usize> {
        self.pools().map(|pool| batch * pool.side(self.side).pow(2) * width).collect()
    }

    /// Bytes of gradients, and of what they are made from beside what is saved.
    fn gradients(&self, [batch, tokens, width]: [usize; 3]) -> u64 {
        let stream = |tokens: usize| batch * tokens * width;
        let pooled = self.pooled([batch, tokens, width]);
        let twice = pooled.iter().chain(&pooled).copied();
        // The gradient of the heads' values beside pooled queries, keys and values and their gradients; or the norm's output.
        let inner = lent(twice.chain([stream(self.queries())])).max(lent([stream(tokens)]));
        lent([3 * stream(tokens)]) + inner
    }

    /// Adds to `gradients` what `run` writes.
    fn with_grads<R>(&self, gradients: &mut Gradients, run: impl FnOnce(PooledGrads) -> R) -> R {
        let mut around = self.projections().grads();
        let mut query = self.query_pool.as_ref().map(PoolGrad::of);
        let (mut key, mut value) = (PoolGrad::of(&self.key_pool), PoolGrad::of(&self.value_pool));
        let result = run(PooledGrads {
            norm: NormGrads { scale: &mut around.scale, bias: &mut around.bias },
            qkv: &mut around.qkv,
            qkv_bias: &mut around.qkv_bias,
            query: query.as_mut().map(PoolGrad::kernel),
            key: key.kernel(),
            value: value.kernel(),
            out: &mut around.out,
            out_bias: &mut around.out_bias,
        });
        around.add_to(gradients, |gradients| {
            for pool in [query, Some(key), Some(value)].into_iter().flatten() {
                pool.add_to(gradients);
            }
        });
        result
    }
}

impl Parts<'_> {
    fn kernel(&self) -> kernel::PooledAttention<'_> {
        kernel::PooledAttention {
            images: self.images,
            heads: self.heads,
            norm: self.around.norm(),
            qkv: self.around.qkv.weight(),
            qkv_bias: &self.around.qkv_bias,
            query: self.query.as_ref().map(PoolParts::kernel),
            key: self.key.kernel(),
            value: self.value.kernel(),
            out: self.around.out.weight(),
            out_bias: &self.around.out_bias,
        }
    }
}

impl FusedParts<3> for Parts<'_> {
    type Saved = PooledSaved;

    fn forward(&self, x: &Tensor<3>, output: &mut Output) -> Result<(), GridOverflow> {
        let x = Floats::of(x.clone());
        self.kernel().forward_saving(&x, output, Keep::Nothing, self.around.memory()).map(drop)
    }

    fn forward_saving(&self, x: &Tensor<3>, output: &mut Output) -> Result<PooledSaved, GridOverflow> {
        self.kernel().forward_saving(&Floats::of(x.clone()), output, self.keep, self.around.memory())
    }
}
