//! A convolution on fused kernels: Winograd's where it is 3x3 of stride 1 or 2 and has more inputs than a few, direct elsewhere.

use burn::tensor::Tensor;
use reprop_kernels::batch_norm::OutputGradient;
use reprop_kernels::conv::{Conv2d, Conv3x3, Images, Slide, Stride, Strided3x3};
use reprop_kernels::heap::blank;

use super::Convolution;
use crate::kernels::{Filters, Floats, Grad, Packed, Use, tensor};
use crate::{Context, Gradients, Workspace};

/// The convolution as a kernel takes it.
pub(super) struct Parts<'p> {
    layer: &'p Convolution,
    images: Images,
    weight: Weight,
    dims: [usize; 4],
    workspace: &'p Workspace,
}

/// With fewer inputs than this (the colours of an image) transforms are most of Winograd's work, and multiplications little.
const FEW_INPUTS: usize = 16;

enum Weight {
    Winograd(Filters),
    Strided(Filters),
    Direct(Packed),
}

impl Convolution {
    /// What the kernel needs for an input of shape `dims`, if this layer runs on it.
    pub(super) fn parts<'p>(
        &'p self,
        dims: [usize; 4],
        usage: Use,
        context: &Context<'p>,
    ) -> Option<Parts<'p>> {
        if !context.fuses(&self.bias.val().inner().device()) {
            return None;
        }
        let workspace = context.fused();
        let [batch, height, width, inputs] = dims;
        let images = Images { batch, height, width };
        let filters = |stride| Filters::new(&self.weight, stride, usage, workspace);
        let weight = if self.is_winograd() && inputs >= FEW_INPUTS {
            Weight::Winograd(filters(Stride::One))
        } else if self.is_strided() && inputs >= FEW_INPUTS && Strided3x3::pays(images) {
            Weight::Strided(filters(Stride::Two))
        } else {
            Weight::Direct(Packed::new(&self.weight, usage, workspace))
        };
        Some(Parts { layer: self, images, weight, dims, workspace })
    }

    /// Whether it is of the kind that Winograd's transforms are for.
    pub(crate) fn is_winograd(&self) -> bool {
        self.kernel() == 3 && self.stride == 1
    }

    /// Whether it is the other kind that they are for.
    fn is_strided(&self) -> bool {
        self.kernel() == 3 && self.stride == 2
    }
}

impl Parts<'_> {
    fn direct<'w>(&self, weight: &'w Packed) -> Conv2d<'w> {
        let (kernel, stride) = (self.layer.kernel(), self.layer.stride);
        let slide = Slide { kernel, stride, padding: kernel / 2 };
        Conv2d { images: self.images, slide, inputs: self.dims[3], weight }
    }

    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let dims = self.layer.output(self.dims);
        let mut y = blank(dims.iter().product());
        let (x, ws) = (Floats::of(x), self.workspace.kernels());
        match &self.weight {
            Weight::Winograd(weight) => Conv3x3 { images: self.images, weight }.forward(&x, &mut y, ws),
            Weight::Strided(weight) => Strided3x3 { images: self.images, weight }.forward(&x, &mut y, ws),
            Weight::Direct(weight) => self.direct(weight).forward(&x, &mut y, ws),
        }
        tensor(y, dims)
    }

    pub fn vjp(
        &self,
        x: Tensor<4>,
        dy: OutputGradient<'_>,
        wanted: bool,
        gradients: &mut Gradients,
    ) -> Option<Tensor<4>> {
        let mut dw = Grad::of(&self.layer.weight);
        let (x, ws) = (Floats::of(x), self.workspace.kernels());
        let mut dx = wanted.then(|| blank(x.len()));
        match &self.weight {
            Weight::Winograd(weight) => {
                Conv3x3 { images: self.images, weight }.vjp(&x, dy, dx.as_deref_mut(), &mut dw, ws);
            }
            Weight::Strided(weight) => {
                Strided3x3 { images: self.images, weight }.vjp(&x, dy, dx.as_deref_mut(), &mut dw, ws);
            }
            Weight::Direct(weight) => self.direct(weight).vjp(&x, dy, dx.as_deref_mut(), &mut dw, ws),
        }
        dw.add_to(gradients);
        dx.map(|dx| tensor(dx, self.dims))
    }
}
