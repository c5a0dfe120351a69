//! Attention inside windows: Swin-T's first stage, without and with a shift, and its third.

use divan::{Bencher, black_box};
use reprop_kernels::Workspace;
use reprop_kernels::attention::{Keep, WindowAttention, WindowGrads, WindowSaved};
use reprop_kernels::conv::Images;
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::heap::Values;
use reprop_kernels::output::{Base, Output};

use crate::support::{Norm, blank, data, flops, weight};

const WINDOW: usize = 7;
/// Columns of a head.
const HEAD: usize = 32;
/// Side of the images, width and shift.
const STAGES: [(usize, usize, usize); 3] = [(56, 96, 0), (56, 96, 3), (14, 384, 3)];

struct Sizes {
    images: Images,
    width: usize,
    shift: usize,
}

impl Sizes {
    fn new((side, width, shift): (usize, usize, usize)) -> Self {
        Self { images: Images { batch: 8, height: side, width: side }, width, shift }
    }

    fn len(&self) -> usize {
        self.images.len(self.width)
    }

    /// Bias table, qkv, its bias, out, its bias.
    fn parameters(&self) -> [usize; 5] {
        let width = self.width;
        let table = (2 * WINDOW - 1).pow(2) * width / HEAD;
        [table, 3 * width * width, 3 * width, width * width, width]
    }

    /// Operations of all products forward.
    fn flops(&self) -> usize {
        2 * self.len() * (4 * self.width + 2 * WINDOW * WINDOW)
    }
}

struct Block {
    sizes: Sizes,
    norm: Norm,
    parameters: [Values; 5],
    qkv: PackedWeight,
    out: PackedWeight,
}

impl Block {
    fn new(sizes: Sizes, ws: &Workspace) -> Self {
        let (width, parameters) = (sizes.width, sizes.parameters().map(weight));
        let qkv = PackedWeight::new(ws.isa(), &parameters[1], width, 3 * width);
        let out = PackedWeight::new(ws.isa(), &parameters[3], width, width);
        Self { norm: Norm::new(width), sizes, parameters, qkv, out }
    }

    fn kernel(&self) -> WindowAttention<'_> {
        let [table, _, qkv_bias, _, out_bias] = &self.parameters;
        WindowAttention {
            images: self.sizes.images,
            window: WINDOW,
            shift: self.sizes.shift,
            heads: self.sizes.width / HEAD,
            table,
            norm: self.norm.kernel(),
            qkv: (&self.qkv).into(),
            qkv_bias,
            out: (&self.out).into(),
            out_bias,
        }
    }

    fn forward(&self, x: &[f32], y: &mut [f32], ws: &Workspace) -> WindowSaved {
        let saved = self.kernel().forward_saving(x, &mut Output::Value(y), Keep::Probabilities, ws);
        saved.expect("floats do not overflow")
    }
}

#[divan::bench(args = STAGES)]
fn forward(bencher: Bencher, stage: (usize, usize, usize)) {
    let ws = Workspace::default();
    let block = Block::new(Sizes::new(stage), &ws);
    let (x, [mut y]) = (data(block.sizes.len()), blank([block.sizes.len()]));
    bencher.counter(flops(block.sizes.flops())).bench_local(|| block.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench(args = STAGES)]
fn vjp(bencher: Bencher, stage: (usize, usize, usize)) {
    let ws = Workspace::default();
    let block = Block::new(Sizes::new(stage), &ws);
    let len = block.sizes.len();
    let (x, dy, [mut y, mut dx]) = (data(len), data(len), blank([len; 2]));
    let (mut d_norm, mut d) = (Norm::new(block.sizes.width), blank(block.sizes.parameters()));
    bencher
        .counter(flops(2 * block.sizes.flops()))
        .with_inputs(|| block.forward(&x, &mut y, &ws))
        .bench_local_values(|saved| {
            let [table, qkv, qkv_bias, out, out_bias] = d.each_mut().map(|d| &mut **d);
            let grads = WindowGrads { table, norm: d_norm.grads(), qkv, qkv_bias, out, out_bias };
            block.kernel().vjp(&x, saved, &dy, &mut dx, Base::Nothing, grads, &ws);
        });
}
