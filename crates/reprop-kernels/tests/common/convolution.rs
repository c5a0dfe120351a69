//! Convolutions in `f64`, product by product.
#![allow(missing_docs)]

use reprop_kernels::conv::Images;

/// Winograd's transforms multiply by up to 8 and divide by up to 24: they lose about one digit against a direct sum.
pub const TOLERANCE: f64 = 2e-5;

/// Any convolution of images `h x w x ci` with a `k x k x ci x co` weight, and its gradients.
pub struct Reference {
    pub images: Images,
    pub ci: usize,
    pub co: usize,
    pub k: usize,
    pub stride: usize,
    pub pad: usize,
}

impl Reference {
    pub fn out(&self) -> Images {
        let size = |n: usize| (n + 2 * self.pad - self.k) / self.stride + 1;
        Images { batch: self.images.batch, height: size(self.images.height), width: size(self.images.width) }
    }

    /// Calls `f(x index, weight index, y index)` for every product, without channels.
    pub fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
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

    pub fn run(&self, x: &[f64], w: &[f64], dy: &[f64]) -> [Vec<f64>; 3] {
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
