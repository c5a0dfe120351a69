//! Convolutions alone. "Operations" of a 3x3 one are those of a direct one.

use divan::{Bencher, black_box};
use reprop_kernels::Workspace;
use reprop_kernels::conv::{Conv2d, Conv3x3, Depthwise, Images, Slide, Stride, Strided3x3, WinogradWeight};
use reprop_kernels::gemm::PackedWeight;

use crate::support::{blank, bytes, data, flops, weight};
use crate::units::convolution::{flops as per_conv, images};

/// Channels of the stages of RevResNet-18, at batch 32.
pub const STAGES: [usize; 4] = [64, 128, 256, 512];

#[divan::bench(args = STAGES)]
fn three_forward(bencher: Bencher, channels: usize) {
    let (ws, images) = (Workspace::default(), images(channels));
    let weight = WinogradWeight::new(&weight(9 * channels * channels), channels, channels, &ws);
    let conv = Conv3x3 { images, weight: &weight };
    let (x, [mut y]) = (data(images.len(channels)), blank([images.len(channels)]));
    bencher.counter(flops(per_conv(channels))).bench_local(|| conv.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench(args = STAGES)]
fn three_vjp(bencher: Bencher, channels: usize) {
    let (ws, images, filters) = (Workspace::default(), images(channels), 9 * channels * channels);
    let weight = WinogradWeight::new(&weight(filters), channels, channels, &ws);
    let conv = Conv3x3 { images, weight: &weight };
    let (x, dy) = (data(images.len(channels)), data(images.len(channels)));
    let [mut dx, mut dw] = blank([x.len(), filters]);
    bencher
        .counter(flops(2 * per_conv(channels)))
        .bench_local(|| conv.vjp(black_box(&x), &dy[..], Some(&mut dx), &mut dw, &ws));
}

/// From one stage to the next, with twice the channels.
#[divan::bench(args = &STAGES[..3])]
fn three_strided_forward(bencher: Bencher, inputs: usize) {
    let (ws, images, outputs) = (Workspace::default(), images(inputs), 2 * inputs);
    let weight = weight(9 * inputs * outputs);
    let weight = WinogradWeight::with_stride(Stride::Two, &weight, (inputs, outputs), &ws);
    let conv = Strided3x3 { images, weight: &weight };
    let (x, [mut y]) = (data(images.len(inputs)), blank([conv.output().len(outputs)]));
    bencher.counter(flops(18 * y.len() * inputs)).bench_local(|| conv.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench(args = &STAGES[..3])]
fn three_strided_vjp(bencher: Bencher, inputs: usize) {
    let (ws, images, outputs) = (Workspace::default(), images(inputs), 2 * inputs);
    let filters = 9 * inputs * outputs;
    let weight = WinogradWeight::with_stride(Stride::Two, &weight(filters), (inputs, outputs), &ws);
    let conv = Strided3x3 { images, weight: &weight };
    let (x, dy) = (data(images.len(inputs)), data(conv.output().len(outputs)));
    let [mut dx, mut dw] = blank([x.len(), filters]);
    bencher
        .counter(flops(36 * dy.len() * inputs))
        .bench_local(|| conv.vjp(black_box(&x), &dy[..], Some(&mut dx), &mut dw, &ws));
}

/// Direct convolutions of ResNets.
#[derive(Clone, Copy, Debug)]
enum Direct {
    /// The wide 1x1 one of a bottleneck.
    Bottleneck,
    /// 1x1, every second pixel.
    Shortcut,
    /// 3x3, every second pixel.
    Strided,
    /// 3x3 on three colours of 32x32 pixels.
    SmallStem,
    /// 7x7 on every second pixel of 224x224.
    LargeStem,
}

use Direct::{Bottleneck, LargeStem, Shortcut, SmallStem, Strided};

impl Direct {
    /// Batch, side, kernel, stride, inputs and outputs.
    fn sizes(self) -> [usize; 6] {
        match self {
            Bottleneck => [8, 56, 1, 1, 64, 256],
            Shortcut => [32, 32, 1, 2, 64, 128],
            Strided => [32, 32, 3, 2, 64, 128],
            SmallStem => [32, 32, 3, 1, 3, 64],
            LargeStem => [8, 224, 7, 2, 3, 64],
        }
    }

    /// The images, how the square slides, rows and columns of the weight.
    fn shape(self) -> (Images, Slide, usize, [usize; 2]) {
        let [batch, side, kernel, stride, inputs, outputs] = self.sizes();
        let slide = Slide { kernel, stride, padding: kernel / 2 };
        let images = Images { batch, height: side, width: side };
        (images, slide, inputs, [kernel * kernel * inputs, outputs])
    }
}

#[divan::bench(args = [Bottleneck, Shortcut, Strided, SmallStem, LargeStem])]
fn direct_forward(bencher: Bencher, direct: Direct) {
    let (ws, (images, slide, inputs, [taps, outputs])) = (Workspace::default(), direct.shape());
    let weight = PackedWeight::new(ws.isa(), &weight(taps * outputs), taps, outputs);
    let conv = Conv2d { images, slide, inputs, weight: &weight };
    let (x, [mut y]) = (data(images.len(inputs)), blank([slide.output(images).len(outputs)]));
    bencher.counter(flops(2 * y.len() * taps)).bench_local(|| conv.forward(black_box(&x), &mut y, &ws));
}

/// A stem's images need no gradient.
#[divan::bench(args = [Bottleneck, Shortcut, Strided, SmallStem, LargeStem])]
fn direct_vjp(bencher: Bencher, direct: Direct) {
    let (ws, (images, slide, inputs, [taps, outputs])) = (Workspace::default(), direct.shape());
    let weight = PackedWeight::new(ws.isa(), &weight(taps * outputs), taps, outputs);
    let conv = Conv2d { images, slide, inputs, weight: &weight };
    let (x, dy) = (data(images.len(inputs)), data(slide.output(images).len(outputs)));
    let [dx, mut dw] = blank([x.len(), taps * outputs]);
    let mut dx = (!matches!(direct, SmallStem | LargeStem)).then_some(dx);
    let products = if dx.is_some() { 2 } else { 1 };
    bencher
        .counter(flops(products * 2 * dy.len() * taps))
        .bench_local(|| conv.vjp(black_box(&x), &dy[..], dx.as_deref_mut(), &mut dw, &ws));
}

/// Pools of RevMViT's first stage: stride, and floats from a pixel to the next (96, or 96 of queries, keys and values).
const DEPTHWISE: [(usize, usize); 3] = [(1, 96), (2, 288), (4, 288)];

/// Floats of `x` that are seen, and the convolution.
fn depthwise((stride, pitch): (usize, usize), weight: &[f32]) -> (usize, Depthwise<'_>) {
    let images = Images { batch: 8, height: 56, width: 56 };
    let slide = Slide { kernel: 3, stride, padding: 1 };
    let seen = if stride > 3 { images.len(96) * 9 / (stride * stride) } else { images.len(96) };
    (seen, Depthwise { images, slide, channels: 96, pitch, weight })
}

#[divan::bench(args = DEPTHWISE)]
fn depthwise_forward(bencher: Bencher, kind: (usize, usize)) {
    let (ws, weight) = (Workspace::default(), weight(9 * 96));
    let (seen, conv) = depthwise(kind, &weight);
    let x = data(conv.images.len(conv.pitch));
    let [mut y] = blank([conv.slide.output(conv.images).len(96)]);
    bencher
        .counter(flops(18 * y.len()))
        .counter(bytes(seen + y.len()))
        .bench_local(|| conv.forward(black_box(&x), &mut y, &ws));
}

/// Each gradient reads `dy`; the weight's reads `x` too.
#[divan::bench(args = DEPTHWISE)]
fn depthwise_vjp(bencher: Bencher, kind: (usize, usize)) {
    let (ws, weight) = (Workspace::default(), weight(9 * 96));
    let (seen, conv) = depthwise(kind, &weight);
    let (x, dy) = (data(conv.images.len(conv.pitch)), data(conv.slide.output(conv.images).len(96)));
    let [mut dx, mut dw] = blank([x.len(), weight.len()]);
    bencher
        .counter(flops(36 * dy.len()))
        .counter(bytes(seen + conv.images.len(96) + 2 * dy.len()))
        .bench_local(|| conv.vjp(black_box(&x), &dy, &mut dx, &mut dw, &ws));
}
