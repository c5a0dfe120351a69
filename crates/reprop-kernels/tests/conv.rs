//! Convolutions against `f64`.

mod common;
#[path = "common/convolution.rs"]
mod convolution;

use common::{Rng, assert_close, assert_same_bits, assert_thread_invariant, f64s, workspaces};
use convolution::{Reference, TOLERANCE};
use proptest::prelude::*;
use reprop_kernels::conv::{Conv2d, Conv3x3, Depthwise, Images, Slide, WinogradWeight, pool};
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::{Isa, Workspace, heap, relu};

/// Sums of up to a thousand products of either sign, in which larger partial sums cancel.
const DIRECT_TOLERANCE: f64 = 1e-5;

fn run_winograd(
    images: Images,
    (ci, co): (usize, usize),
    [x, w, dy]: [&[f32]; 3],
    ws: &Workspace,
) -> [Vec<f32>; 3] {
    let weight = WinogradWeight::new(w, ci, co, ws);
    let conv = Conv3x3 { images, weight: &weight };
    let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
    conv.forward(x, &mut y, ws);
    conv.vjp(x, dy, Some(&mut dx), &mut dw, ws);
    let mut alone = vec![0.0; w.len()];
    conv.vjp(x, dy, None, &mut alone, ws);
    assert_same_bits("dw without dx", &alone, &dw);
    [y, dx, dw]
}

fn check_winograd(
    images: Images,
    channels: (usize, usize),
    tensors: [&[f32]; 3],
    want: &[Vec<f64>; 3],
    ws: &Workspace,
) {
    for (got, want) in run_winograd(images, channels, tensors, ws).iter().zip(want) {
        assert_close("y, dx or dw", got, want, TOLERANCE);
    }
}

proptest! {
    #![proptest_config(common::cases(24))]

    #[test]
    fn winograd_and_its_gradients_equal_f64(
        batch in 0usize..4, height in 1usize..14, width in 1usize..14, ci in 1usize..40, co in 1usize..40, seed: u64,
    ) {
        let mut rng = Rng(seed);
        let images = Images { batch, height, width };
        let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(images.len(co)));
        let reference = Reference { images, ci, co, k: 3, stride: 1, pad: 1 };
        let want = reference.run(&f64s(&x), &f64s(&w), &f64s(&dy));
        for ws in workspaces() {
            check_winograd(images, (ci, co), [&x, &w, &dy], &want, &ws);
        }
    }
}

/// Small cases are products over all tiles, point by point; images that are many and large are taken a few at a time.
#[test]
fn many_large_images_equal_f64() {
    let mut rng = Rng(12);
    let (images, ci, co) = (Images { batch: 17, height: 33, width: 30 }, 3, 5);
    let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(images.len(co)));
    let reference = Reference { images, ci, co, k: 3, stride: 1, pad: 1 };
    let want = reference.run(&f64s(&x), &f64s(&w), &f64s(&dy));
    for ws in workspaces() {
        check_winograd(images, (ci, co), [&x, &w, &dy], &want, &ws);
    }
    assert_thread_invariant("many images", |ws| run_winograd(images, (ci, co), [&x, &w, &dy], ws).to_vec());
}

/// With many channels transformed pixels and gradients are packed before they are multiplied, and a large weight's gradient is stored past
/// the caches where it begins on a cache line.
#[test]
fn many_channels_equal_f64() {
    let mut rng = Rng(13);
    let (images, ci, co) = (Images { batch: 3, height: 6, width: 5 }, 260, 528);
    let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(images.len(co)));
    let reference = Reference { images, ci, co, k: 3, stride: 1, pad: 1 };
    let want = reference.run(&f64s(&x), &f64s(&w), &f64s(&dy));
    for ws in workspaces() {
        check_winograd(images, (ci, co), [&x, &w, &dy], &want, &ws);
        let weight = WinogradWeight::new(&w, ci, co, &ws);
        let conv = Conv3x3 { images, weight: &weight };
        let (mut anywhere, mut on_lines) = (vec![7.0; w.len() + 1], heap::blank(w.len()));
        conv.vjp(&x, &dy[..], None, &mut anywhere[1..], &ws);
        conv.vjp(&x, &dy[..], None, &mut on_lines, &ws);
        assert_same_bits("dw past the caches", &on_lines, &anywhere[1..]);
    }
}

/// Channels pass a depthwise convolution several vectors at a time, and one at a time where fewer are left.
#[test]
fn a_channel_of_a_depthwise_convolution_does_not_depend_on_its_neighbours() {
    let mut rng = Rng(11);
    let (channels, some) = (230, 7);
    let images = Images { batch: 2, height: 9, width: 6 };
    for (kernel, stride, padding) in [(3, 1, 1), (3, 2, 1), (3, 4, 1), (2, 3, 0)] {
        let slide = Slide { kernel, stride, padding };
        let (x, weight) = (rng.vec(images.len(channels)), rng.vec(kernel * kernel * channels));
        let dy = rng.vec(slide.output(images).len(channels));
        let columns = |of: &[f32], from: usize, count: usize| -> Vec<f32> {
            of.chunks(channels).flat_map(|row| row[from..from + count].to_vec()).collect()
        };
        for ws in workspaces() {
            let run = |from: usize, count: usize| {
                let [x, weight, dy] = [&x, &weight, &dy].map(|of| columns(of, from, count));
                let conv = Depthwise { images, slide, channels: count, pitch: count, weight: &weight };
                let (mut y, mut dx, mut dw) =
                    (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; weight.len()]);
                conv.forward(&x, &mut y, &ws);
                conv.vjp(&x, &dy, &mut dx, &mut dw, &ws);
                [y, dx, dw]
            };
            let all = run(0, channels);
            for from in (0..channels - some).step_by(some) {
                for (all, part) in all.iter().zip(run(from, some)) {
                    assert_same_bits("some channels", &columns(all, from, some), &part);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(common::cases(24))]

    #[test]
    fn direct_and_depthwise_convolutions_and_their_gradients_equal_f64(
        batch in 0usize..4, height in 3usize..17, width in 3usize..17, ci in 1usize..9, co in 1usize..20,
        slide in prop::sample::select(vec![(1, 1, 0), (1, 2, 0), (3, 2, 1), (3, 1, 1), (7, 2, 3), (2, 2, 0)]), seed: u64,
    ) {
        let mut rng = Rng(seed);
        let (k, stride, pad) = slide;
        let images = Images { batch, height, width };
        let reference = Reference { images, ci, co, k, stride, pad };
        let slide = Slide { kernel: k, stride, padding: pad };
        prop_assert_eq!(slide.output(images), reference.out());
        let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(k * k * ci * co), rng.vec(reference.out().len(co)));
        let want = reference.run(&f64s(&x), &f64s(&w), &f64s(&dy));
        // A depthwise convolution is a convolution of each channel alone.
        let dw_weight = rng.vec(k * k * ci);
        let dw_dy = rng.vec(reference.out().len(ci));
        let mut dw_want = [vec![0.0; dw_dy.len()], vec![0.0; x.len()], vec![0.0; dw_weight.len()]];
        reference.each(|i, t, o| {
            for c in 0..ci {
                let (x, w, d) = (f64::from(x[i * ci + c]), f64::from(dw_weight[t * ci + c]), f64::from(dw_dy[o * ci + c]));
                dw_want[0][o * ci + c] += x * w;
                dw_want[1][i * ci + c] += d * w;
                dw_want[2][t * ci + c] += d * x;
            }
        });
        for ws in workspaces() {
            let weight = PackedWeight::new(ws.isa(), &w, k * k * ci, co);
            let conv = Conv2d { images, slide, inputs: ci, weight: &weight };
            let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
            conv.forward(&x, &mut y, &ws);
            conv.vjp(&x, &dy, Some(&mut dx), &mut dw, &ws);
            assert_close("y", &y, &want[0], DIRECT_TOLERANCE);
            assert_close("dx", &dx, &want[1], DIRECT_TOLERANCE);
            assert_close("dw", &dw, &want[2], DIRECT_TOLERANCE);
            let conv = Depthwise { images, slide, channels: ci, pitch: ci, weight: &dw_weight };
            let (mut y, mut dx, mut dw) = (vec![0.0; dw_dy.len()], vec![0.0; x.len()], vec![0.0; dw_weight.len()]);
            conv.forward(&x, &mut y, &ws);
            conv.vjp(&x, &dw_dy, &mut dx, &mut dw, &ws);
            assert_close("depthwise y", &y, &dw_want[0], DIRECT_TOLERANCE);
            assert_close("depthwise dx", &dx, &dw_want[1], DIRECT_TOLERANCE);
            assert_close("depthwise dw", &dw, &dw_want[2], DIRECT_TOLERANCE);

            // As the middle columns of wider rows, whose other columns stay as they are.
            let pitch = ci + 5;
            let apart = |x: &[f32]| -> Vec<f32> {
                x.chunks(ci).flat_map(|x| [&[7.0; 2], x, &[7.0; 3]].concat()).collect()
            };
            let (wide_x, mut wide_dx, mut wide_dw) = (apart(&x), apart(&dx), dw.clone());
            let conv = Depthwise { pitch, ..conv };
            let (mut wide_y, first) = (vec![0.0; y.len()], 2.min(wide_x.len()));
            conv.forward(&wide_x[first..], &mut wide_y, &ws);
            conv.vjp(&wide_x[first..], &dw_dy, &mut wide_dx[first..], &mut wide_dw, &ws);
            assert_same_bits("apart, y", &wide_y, &y);
            assert_same_bits("apart, dx", &wide_dx, &apart(&dx));
            assert_same_bits("apart, dw", &wide_dw, &dw);
        }
    }

    #[test]
    fn pools_and_their_gradients_equal_f64(
        batch in 1usize..3, height in 3usize..9, width in 3usize..9, channels in 1usize..40,
        slide in prop::sample::select(vec![(2, 2, 0), (3, 2, 1), (3, 1, 0)]), seed: u64,
    ) {
        let mut rng = Rng(seed);
        let (kernel, stride, padding) = slide;
        let (images, slide) = (Images { batch, height, width }, Slide { kernel, stride, padding });
        let reference = Reference { images, ci: channels, co: channels, k: kernel, stride, pad: padding };
        let (x, dy) = (rng.vec(images.len(channels)), rng.vec(reference.out().len(channels)));
        let max = |x: &[f64]| {
            let mut y = vec![f64::NEG_INFINITY; dy.len()];
            reference.each(|i, _, o| {
                for c in 0..channels {
                    y[o * channels + c] = y[o * channels + c].max(x[i * channels + c]);
                }
            });
            y
        };
        let average = |x: &[f64]| {
            let mut y = vec![0.0; dy.len()];
            reference.each(|i, _, o| {
                for c in 0..channels {
                    y[o * channels + c] += x[i * channels + c] / (kernel * kernel) as f64;
                }
            });
            y
        };
        let (mut y, mut dx) = (vec![0.0; dy.len()], vec![0.0; x.len()]);
        // The gradient goes to the first of the largest; differences would fail where two are nearly equal.
        let mut largest = vec![None::<usize>; dy.len()];
        reference.each(|i, _, o| {
            for c in 0..channels {
                let best = &mut largest[o * channels + c];
                if best.is_none_or(|at| x[i * channels + c] > x[at]) {
                    *best = Some(i * channels + c);
                }
            }
        });
        let mut want = vec![0.0; x.len()];
        for (at, d) in largest.iter().zip(&dy) {
            want[at.expect("every place sees a pixel")] += f64::from(*d);
        }
        for isa in Isa::available() {
            pool::max_forward(isa, images, slide, channels, &x, &mut y);
            assert_close("max", &y, &max(&f64s(&x)), 1e-7);
            pool::max_vjp(isa, images, slide, channels, &x, &dy, &mut dx);
            assert_close("max dx", &dx, &want, 1e-6);
        }
        pool::average_forward(images, slide, channels, &x, &mut y);
        assert_close("average", &y, &average(&f64s(&x)), 1e-6);
        pool::average_vjp(images, slide, channels, &dy, &mut dx);
        assert_close("average dx", &dx, &common::gradient(&f64s(&x), |x| common::dot(&average(x), &f64s(&dy))), 1e-6);
        let mut mean = vec![0.0; batch * channels];
        pool::global_forward(images, channels, &x, &mut mean);
        let want: Vec<f64> = (0..batch * channels)
            .map(|i| {
                let (n, c) = (i / channels, i % channels);
                let pixels = images.pixels();
                (0..pixels).map(|p| f64::from(x[(n * pixels + p) * channels + c])).sum::<f64>() / pixels as f64
            })
            .collect();
        assert_close("mean", &mean, &want, 1e-6);
        pool::global_vjp(images, channels, &mean, &mut dx);
        let want: Vec<f64> = (0..x.len())
            .map(|i| f64::from(mean[i / (images.pixels() * channels) * channels + i % channels]) / images.pixels() as f64)
            .collect();
        assert_close("mean dx", &dx, &want, 1e-6);
    }

    #[test]
    fn relu_passes_what_is_positive(len in 0usize..50, seed: u64) {
        let mut rng = Rng(seed);
        let (x, dy) = (rng.vec(len), rng.vec(len));
        for ws in workspaces() {
            let (mut y, mut dx) = (vec![0.0; len], vec![0.0; len]);
            relu::forward(ws.isa(), &x, &mut y);
            relu::vjp(ws.isa(), &x, &dy, &mut dx);
            for i in 0..len {
                prop_assert_eq!((y[i], dx[i]), if x[i] > 0.0 { (x[i], dy[i]) } else { (0.0, 0.0) });
            }
        }
    }
}

#[test]
fn an_image_of_several_tile_blocks_equals_f64() {
    let mut rng = Rng(6);
    let (images, ci, co) = (Images { batch: 2, height: 41, width: 39 }, 5, 33);
    let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(images.len(co)));
    let reference = Reference { images, ci, co, k: 3, stride: 1, pad: 1 };
    let want = reference.run(&f64s(&x), &f64s(&w), &f64s(&dy));
    for ws in workspaces() {
        check_winograd(images, (ci, co), [&x, &w, &dy], &want, &ws);
    }
}

/// So many tiles of few images are multiplied point by point in several shares of the batch.
#[test]
fn several_shares_of_large_images_equal_f64() {
    let mut rng = Rng(8);
    let (images, ci, co) = (Images { batch: 7, height: 37, width: 42 }, 4, 3);
    let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(images.len(co)));
    let reference = Reference { images, ci, co, k: 3, stride: 1, pad: 1 };
    let want = reference.run(&f64s(&x), &f64s(&w), &f64s(&dy));
    for ws in workspaces() {
        check_winograd(images, (ci, co), [&x, &w, &dy], &want, &ws);
    }
    assert_thread_invariant("shares", |ws| run_winograd(images, (ci, co), [&x, &w, &dy], ws).into());
}

/// A large weight's gradient is one product over gathered pixels, a small one's is added up in groups of images.
#[test]
fn a_large_strided_weight_equals_f64() {
    let mut rng = Rng(9);
    let (images, ci, co) = (Images { batch: 3, height: 5, width: 4 }, 110, 540);
    let reference = Reference { images, ci, co, k: 3, stride: 2, pad: 1 };
    let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(reference.out().len(co)));
    let want = reference.run(&f64s(&x), &f64s(&w), &f64s(&dy));
    let slide = Slide { kernel: 3, stride: 2, padding: 1 };
    let run = |ws: &Workspace| {
        let weight = PackedWeight::new(ws.isa(), &w, 9 * ci, co);
        let conv = Conv2d { images, slide, inputs: ci, weight: &weight };
        let (mut dx, mut dw) = (vec![7.0; x.len()], vec![7.0; w.len()]);
        conv.vjp(&x, &dy, Some(&mut dx), &mut dw, ws);
        vec![dx, dw]
    };
    for ws in workspaces() {
        let [dx, dw] = run(&ws).try_into().expect("two gradients");
        assert_close("dx", &dx, &want[1], DIRECT_TOLERANCE);
        assert_close("dw", &dw, &want[2], DIRECT_TOLERANCE);
    }
    assert_thread_invariant("large strided weight", run);
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(7);
    let (images, ci, co) = (Images { batch: 37, height: 9, width: 8 }, 18, 20);
    let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(images.len(co)));
    assert_thread_invariant("conv3x3", |ws| run_winograd(images, (ci, co), [&x, &w, &dy], ws).into());
}
