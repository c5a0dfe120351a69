//! Convolutions against `f64`.

mod common;

use common::{Rng, assert_close, assert_thread_invariant, f64s, workspaces};
use proptest::prelude::*;
use reprop_kernels::conv::{Conv3x3, Images, WinogradWeight};

/// F(4x4, 3x3) multiplies by up to 8 and divides by 24: it loses about one digit against a direct sum.
const TOLERANCE: f64 = 5e-6;

/// Any convolution of images `h x w x ci` with a `k x k x ci x co` weight, and its gradients.
struct Reference {
    images: Images,
    ci: usize,
    co: usize,
    k: usize,
    stride: usize,
    pad: usize,
}

impl Reference {
    fn out(&self) -> Images {
        let size = |n: usize| (n + 2 * self.pad - self.k) / self.stride + 1;
        Images { batch: self.images.batch, height: size(self.images.height), width: size(self.images.width) }
    }

    /// Calls `f(x index, weight index, y index)` for every product, without channels.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (i, o) = (self.images, self.out());
        for n in 0..i.batch {
            for (y, x) in (0..o.height).flat_map(|y| (0..o.width).map(move |x| (y, x))) {
                for (a, b) in (0..self.k).flat_map(|a| (0..self.k).map(move |b| (a, b))) {
                    let (u, v) = (y * self.stride + a, x * self.stride + b);
                    if u >= self.pad && v >= self.pad && u < i.height + self.pad && v < i.width + self.pad {
                        let from = (n * i.height + u - self.pad) * i.width + v - self.pad;
                        f(from, a * self.k + b, (n * o.height + y) * o.width + x);
                    }
                }
            }
        }
    }

    fn run(&self, x: &[f64], w: &[f64], dy: &[f64]) -> [Vec<f64>; 3] {
        let (ci, co) = (self.ci, self.co);
        let mut y = vec![0.0; self.out().len(co)];
        let (mut dx, mut dw) = (vec![0.0; x.len()], vec![0.0; w.len()]);
        self.each(|i, t, o| {
            for c in 0..ci {
                for d in 0..co {
                    let wi = (t * ci + c) * co + d;
                    y[o * co + d] += x[i * ci + c] * w[wi];
                    dx[i * ci + c] += dy[o * co + d] * w[wi];
                    dw[wi] += dy[o * co + d] * x[i * ci + c];
                }
            }
        });
        [y, dx, dw]
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
            let weight = WinogradWeight::new(ws.isa(), &w, ci, co);
            let conv = Conv3x3 { images, weight: &weight };
            let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
            conv.forward(&x, &mut y, &ws);
            conv.vjp(&x, &dy, &mut dx, &mut dw, &ws);
            assert_close("y", &y, &want[0], TOLERANCE);
            assert_close("dx", &dx, &want[1], TOLERANCE);
            assert_close("dw", &dw, &want[2], TOLERANCE);
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
        let weight = WinogradWeight::new(ws.isa(), &w, ci, co);
        let conv = Conv3x3 { images, weight: &weight };
        let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
        conv.forward(&x, &mut y, &ws);
        conv.vjp(&x, &dy, &mut dx, &mut dw, &ws);
        assert_close("y", &y, &want[0], TOLERANCE);
        assert_close("dx", &dx, &want[1], TOLERANCE);
        assert_close("dw", &dw, &want[2], TOLERANCE);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(7);
    let (images, ci, co) = (Images { batch: 37, height: 9, width: 8 }, 18, 20);
    let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(images.len(co)));
    assert_thread_invariant("conv3x3", |ws| {
        let weight = WinogradWeight::new(ws.isa(), &w, ci, co);
        let conv = Conv3x3 { images, weight: &weight };
        let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
        conv.forward(&x, &mut y, ws);
        conv.vjp(&x, &dy, &mut dx, &mut dw, ws);
        vec![y, dx, dw]
    });
}
