//! The residual path of a block whose queries are pooled: each token the largest of nine, at every second place.

use burn::tensor::module::{max_pool2d_with_indices, max_pool2d_with_indices_backward};
use burn::tensor::ops::MaxPoolOptions;
use burn::tensor::{Int, Tensor};
use reprop_kernels::Isa;
use reprop_kernels::conv::{Images, Slide, pool};
use reprop_kernels::heap::blank;

use crate::kernels::{Floats, tensor};
use crate::{Context, Saved, Storing};

const KERNEL: usize = 3;
const PADDING: usize = 1;

/// A max-pool over square images of tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxPool {
    /// Tokens along one side.
    pub side: usize,
    /// Distance between places.
    pub stride: usize,
}

/// What the derivative needs.
pub(super) enum MaxSaved {
    /// The images and, of each place, which token was the largest.
    Burn(Box<(Tensor<4>, Tensor<4, Int>)>),
    /// The tokens, and what they were pooled with.
    Fused(Box<(Tensor<3>, Isa)>),
}

impl Saved for MaxSaved {
    /// The tokens are held by what else is done to them.
    fn bytes(&self) -> u64 {
        match self {
            Self::Burn(saved) => saved.bytes(),
            Self::Fused(_) => 0,
        }
    }

    /// Fused, they are [shared](Self::share) by who holds them.
    fn store(&mut self, storing: &Storing<'_>) {
        if let Self::Burn(saved) = self {
            saved.store(storing);
        }
    }
}

impl MaxSaved {
    /// Takes over the tokens as they are held now.
    pub fn share(&mut self, x: &Tensor<3>) {
        if let Self::Fused(saved) = self {
            saved.0 = x.clone();
        }
    }
}

impl MaxPool {
    fn pooled_side(self) -> usize {
        self.side.div_ceil(self.stride)
    }

    /// Whether it runs on fused kernels for tokens like `x`.
    fn fuses(x: &Tensor<3>, context: &Context<'_>) -> bool {
        context.fuses(&x.device())
    }

    /// Bytes that it saves of `[batch, tokens, width]`, if it does not run on fused kernels, and by how much less in 16 bits.
    pub fn burn_saved_bytes(self, [batch, tokens, width]: [usize; 3]) -> (u64, u64) {
        let places = batch * self.pooled_side().pow(2) * width;
        let images = (batch * tokens * width * size_of::<f32>()) as u64;
        (images + (places * size_of::<i32>()) as u64, images / 2)
    }

    /// `[batch, side * side, width] -> [batch, pooled tokens, width]`
    pub fn forward(self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, MaxSaved) {
        let [batch, _, width] = x.dims();
        let tokens = self.pooled_side().pow(2);
        if Self::fuses(&x, context) {
            let isa = context.fused().kernels().isa();
            let mut y = blank(batch * tokens * width);
            pool::max_forward(isa, self.images(batch), self.slide(), width, &Floats::of(x.clone()), &mut y);
            return (tensor(y, [batch, tokens, width]), MaxSaved::Fused(Box::new((x, isa))));
        }
        let images = x.swap_dims(1, 2).reshape([batch, width, self.side, self.side]);
        let options =
            MaxPoolOptions::new([KERNEL; 2]).with_stride([self.stride; 2]).with_padding([PADDING; 2]);
        let (y, places) = max_pool2d_with_indices(images.clone(), options);
        (y.reshape([batch, width, tokens]).swap_dims(1, 2), MaxSaved::Burn(Box::new((images, places))))
    }

    /// From the gradient of the pooled tokens that of all.
    pub fn vjp(self, saved: MaxSaved, dy: Tensor<3>) -> Tensor<3> {
        let [batch, _, width] = dy.dims();
        let tokens = self.side.pow(2);
        match saved {
            MaxSaved::Fused(saved) => {
                let (x, isa) = *saved;
                let mut dx = blank(batch * tokens * width);
                let (images, slide) = (self.images(batch), self.slide());
                pool::max_vjp(isa, images, slide, width, &Floats::of(x), &Floats::of(dy), &mut dx);
                tensor(dx, [batch, tokens, width])
            }
            MaxSaved::Burn(saved) => {
                let (images, places) = *saved;
                let pooled = self.pooled_side();
                let dy = dy.swap_dims(1, 2).reshape([batch, width, pooled, pooled]);
                let (size, step, around) = ([KERNEL; 2], [self.stride; 2], [PADDING; 2]);
                let dx =
                    max_pool2d_with_indices_backward(images, size, step, around, [1; 2], false, dy, places);
                dx.reshape([batch, width, tokens]).swap_dims(1, 2)
            }
        }
    }

    fn images(self, batch: usize) -> Images {
        Images { batch, height: self.side, width: self.side }
    }

    fn slide(self) -> Slide {
        Slide { kernel: KERNEL, stride: self.stride, padding: PADDING }
    }
}
