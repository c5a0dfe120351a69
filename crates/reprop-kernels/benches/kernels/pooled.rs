//! Pooled attention: RevMViT-B's first and third stage, and the transition after the first, which pools queries too.

use divan::{Bencher, black_box};
use reprop_kernels::Workspace;
use reprop_kernels::attention::{Keep, Pool, PoolGrads, PooledAttention, PooledGrads, PooledSaved};
use reprop_kernels::conv::Images;
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::heap::Values;
use reprop_kernels::output::{Base, Output};

use crate::support::{Norm, blank, data, flops, weight};

/// Columns of a head.
const HEAD: usize = 96;

#[derive(Clone, Copy, Debug)]
enum Place {
    First,
    Transition,
    Third,
}

use Place::{First, Third, Transition};

struct Sizes {
    images: Images,
    width: usize,
    /// Of the queries' pool, if they are pooled.
    query: Option<usize>,
    /// Of the keys' and values' pools.
    key: usize,
}

impl Sizes {
    fn new(place: Place) -> Self {
        let (side, width, query, key) = match place {
            First => (56, 96, None, 4),
            Transition => (56, 192, Some(2), 2),
            Third => (14, 384, None, 1),
        };
        Self { images: Images { batch: 8, height: side, width: side }, width, query, key }
    }

    fn len(&self) -> usize {
        self.images.len(self.width)
    }

    /// Queries of a sample, and floats of all.
    fn queries(&self) -> (usize, usize) {
        let queries = self.images.pixels() / self.query.unwrap_or(1).pow(2);
        (queries, self.images.batch * queries * self.width)
    }

    /// Operations of all products and pools forward.
    fn flops(&self) -> usize {
        let keys = self.images.pixels() / self.key.pow(2);
        let (_, queries) = self.queries();
        let pooled =
            2 * self.images.batch * keys * self.width + if self.query.is_some() { queries } else { 0 };
        2 * (3 * self.len() * self.width + queries * (self.width + 2 * keys) + 9 * pooled)
    }

    /// Qkv, its bias, out, its bias, the pools of queries, keys and values.
    fn parameters(&self) -> [usize; 7] {
        let width = self.width;
        [3 * width * width, 3 * width, width * width, width, 9 * HEAD, 9 * HEAD, 9 * HEAD]
    }

    /// Of all rows, and of the pools' heads.
    fn norms(&self) -> [Norm; 4] {
        [self.width, HEAD, HEAD, HEAD].map(Norm::new)
    }
}

struct Block {
    sizes: Sizes,
    norms: [Norm; 4],
    parameters: [Values; 7],
    qkv: PackedWeight,
    out: PackedWeight,
}

impl Block {
    fn new(place: Place, ws: &Workspace) -> Self {
        let sizes = Sizes::new(place);
        let (width, parameters) = (sizes.width, sizes.parameters().map(weight));
        let qkv = PackedWeight::new(ws.isa(), &parameters[0], width, 3 * width);
        let out = PackedWeight::new(ws.isa(), &parameters[2], width, width);
        Self { norms: sizes.norms(), sizes, parameters, qkv, out }
    }

    fn kernel(&self) -> PooledAttention<'_> {
        let [_, qkv_bias, _, out_bias, pools @ ..] = &self.parameters;
        let [norm, norms @ ..] = &self.norms;
        let pool = |at: usize, stride| Pool { stride, weight: &pools[at], norm: norms[at].kernel() };
        PooledAttention {
            images: self.sizes.images,
            heads: self.sizes.width / HEAD,
            norm: norm.kernel(),
            qkv: (&self.qkv).into(),
            qkv_bias,
            query: self.sizes.query.map(|stride| pool(0, stride)),
            key: pool(1, self.sizes.key),
            value: pool(2, self.sizes.key),
            out: (&self.out).into(),
            out_bias,
        }
    }

    fn forward(&self, x: &[f32], y: &mut [f32], ws: &Workspace) -> PooledSaved {
        let saved = self.kernel().forward_saving(x, &mut Output::Value(y), Keep::Probabilities, ws);
        saved.expect("floats do not overflow")
    }
}

#[divan::bench(args = [First, Transition, Third])]
fn forward(bencher: Bencher, place: Place) {
    let ws = Workspace::default();
    let block = Block::new(place, &ws);
    let (x, [mut y]) = (data(block.sizes.len()), blank([block.sizes.queries().1]));
    bencher.counter(flops(block.sizes.flops())).bench_local(|| block.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench(args = [First, Transition, Third])]
fn vjp(bencher: Bencher, place: Place) {
    let ws = Workspace::default();
    let block = Block::new(place, &ws);
    let (len, (_, queries)) = (block.sizes.len(), block.sizes.queries());
    let (x, dy, [mut y, mut dx]) = (data(len), data(queries), blank([queries, len]));
    let (mut d_norms, mut d) = (block.sizes.norms(), blank(block.sizes.parameters()));
    bencher
        .counter(flops(2 * block.sizes.flops()))
        .with_inputs(|| block.forward(&x, &mut y, &ws))
        .bench_local_values(|saved| {
            let [qkv, qkv_bias, out, out_bias, q, k, v] = d.each_mut().map(|d| &mut **d);
            let [norm, q_norm, k_norm, v_norm] = d_norms.each_mut().map(Norm::grads);
            let pool = |weight, norm| PoolGrads { weight, norm };
            let query = block.sizes.query.map(|_| pool(q, q_norm));
            let (key, value) = (pool(k, k_norm), pool(v, v_norm));
            let grads = PooledGrads { norm, qkv, qkv_bias, query, key, value, out, out_bias };
            block.kernel().vjp(&x, saved, &dy, &mut dx, Base::Nothing, grads, &ws);
        });
}
