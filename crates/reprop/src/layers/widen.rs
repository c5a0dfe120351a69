//! The transition between two stages of a multiscale transformer: both streams are fused into one of twice the width, which
//! goes through an ordinary block whose queries, and whose residual path, are pooled by two.
//!
//! ```text
//! z = gelu([x1, x2] W + b) W + b,   a = pool(z) + attention(z),   y = a + mlp(a)
//! ```

use burn::config::Config;
use burn::module::Module;

use super::fuse::{Fuse, FuseSaved};
use super::max_pool::{MaxPool, MaxSaved};
use super::ways::{FusedWay, Ways};
use super::{Initial, Mlp, MlpConfig, PooledAttention, PooledAttentionConfig};
use crate::{AnySaved, Context, Footprint, Gradients, Residual, Saved, Storing, Streams, Transition};

/// Queries and the residual path are pooled by this.
const STRIDE: usize = 2;
/// Masks of the perceptron are apart from those of attention.
const MLP: u64 = 2;

/// Settings of a [`Widen`].
#[derive(Config, Debug)]
pub struct WidenConfig {
    /// Tokens along one side of the square image before it.
    pub side: usize,
    /// Width of each stream before it; doubled by it.
    pub width: usize,
    /// Heads after it.
    pub heads: usize,
    /// Stride of the keys' and values' convolutions.
    pub stride: usize,
    /// Hidden width of its perceptron.
    pub hidden: usize,
    /// Rate at which whole samples of attention and of perceptron are dropped.
    #[config(default = 0.0)]
    pub drop_path: f64,
}

impl WidenConfig {
    /// A transition with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if the heads do not divide the doubled width.
    pub fn init(&self, initial: &mut Initial) -> Widen {
        let Self { side, width, heads, stride, hidden, drop_path } = *self;
        let wide = 2 * width;
        Widen {
            fuse: Fuse::new(width, wide, initial),
            attention: PooledAttentionConfig::new(side, wide, heads, stride)
                .with_query_stride(Some(STRIDE))
                .with_drop_path(drop_path)
                .init(initial),
            mlp: MlpConfig::new(wide, hidden).with_drop_path(drop_path).init(initial),
            side,
        }
    }
}

/// Fuses both streams, doubles the width, halves the image's side, and begins two equal streams.
///
/// # Shapes
///
/// `[batch, side * side, width]` twice `-> [batch, half * half, 2 * width]` twice, with half a side rounded up
#[derive(Module, Debug)]
pub struct Widen {
    /// From both streams to one of twice the width.
    pub fuse: Fuse,
    /// Of pooled queries.
    pub attention: PooledAttention,
    /// After it.
    pub mlp: Mlp,
    side: usize,
}

/// What each part saved.
struct WidenSaved {
    fuse: FuseSaved,
    pool: MaxSaved,
    attention: <PooledAttention as Residual<3>>::Saved,
    mlp: <Mlp as Residual<3>>::Saved,
}

impl Saved for WidenSaved {
    fn bytes(&self) -> u64 {
        self.fuse.bytes() + self.pool.bytes() + self.attention.bytes() + self.mlp.bytes()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.fuse.store(storing);
        self.pool.store(storing);
        self.attention.store(storing);
        self.mlp.store(storing);
        if let Ways::Fused(attention) = &self.attention {
            self.pool.share(&attention.x);
        }
    }
}

impl Widen {
    fn pool(&self) -> MaxPool {
        MaxPool { side: self.side, stride: STRIDE }
    }
}

impl Transition<3> for Widen {
    fn forward_saving(&self, x: Streams<3>, context: &Context<'_>) -> (Streams<3>, AnySaved) {
        let (z, fuse) = self.fuse.forward_saving(x, context);
        let (pooled, pool) = self.pool().forward(z.clone(), context);
        let (f, attention) = self.attention.forward_saving(z, context);
        let a = pooled + f;
        let (g, mlp) = self.mlp.forward_saving(a.clone(), &context.branch(MLP));
        (Streams::duplicate(a + g), AnySaved::new(WidenSaved { fuse, pool, attention, mlp }))
    }

    fn vjp(
        &self,
        saved: AnySaved,
        dy: Streams<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<3> {
        let WidenSaved { fuse, pool, attention, mlp } = saved.into::<WidenSaved>();
        let dy = dy.x1 + dy.x2;
        let da = self.mlp.vjp_onto(mlp, dy.clone(), dy, &context.branch(MLP), gradients);
        let dz = self.pool().vjp(pool, da.clone());
        let dz = self.attention.vjp_onto(attention, da, dz, context, gradients);
        self.fuse.vjp(fuse, dz, context, gradients)
    }

    fn footprint(
        &self,
        dims @ [batch, tokens, width]: [usize; 3],
        context: &Context<'_>,
    ) -> Option<([usize; 3], Footprint)> {
        let wide = [batch, tokens, 2 * width];
        let output = self.attention.output_dims(wide);
        let bytes = |dims: [usize; 3]| (dims.iter().product::<usize>() * size_of::<f32>()) as u64;
        let (before, after) = (bytes(wide), bytes(output));
        let fuse = self.fuse.footprint(dims, context);
        let attention = Residual::footprint(&self.attention, wide, context)?;
        let mlp = Residual::footprint(&self.mlp, output, &context.branch(MLP))?;
        let (pool, pool_spared) =
            if self.attention.fuses(context) { (0, 0) } else { self.pool().burn_saved_bytes(wide) };
        let size = Footprint {
            saved: fuse.saved + pool + attention.saved + mlp.saved,
            spared: fuse.spared + pool_spared + attention.spared + mlp.spared,
            // The perceptron's result beside its sum; or attention's beside the pooled tokens, before the perceptron.
            forward: (mlp.forward + after).max((attention.forward + 2 * after).saturating_sub(mlp.saved)),
            // Gradients of the output, of attention's result and of the fused stream, beside what each part needs when
            // those after it have given back what they saved.
            vjp: [
                mlp.vjp + 2 * after,
                (attention.vjp + after + before).saturating_sub(mlp.saved),
                (fuse.vjp + before).saturating_sub(mlp.saved + attention.saved),
            ]
            .into_iter()
            .max()
            .unwrap_or(0),
        };
        Some((output, size))
    }
}
