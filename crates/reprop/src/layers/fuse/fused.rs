//! Both streams into one on fused kernels.

use burn::tensor::Tensor;
use reprop_kernels::fuse::{self as kernel, FuseGrads};
use reprop_kernels::heap::blank;

use super::{Fuse, FuseSaved, Hidden};
use crate::kernels::{Floats, Grad, Packed, Use, lent, tensor};
use crate::{Context, Gradients, Streams, Workspace};

/// Parameters as the kernel takes them.
pub(super) struct Parts<'p> {
    workspace: &'p Workspace,
    expand: Packed,
    expand_bias: Floats,
    contract: Packed,
    contract_bias: Floats,
}

impl Parts<'_> {
    fn kernel(&self) -> kernel::Fuse<'_> {
        kernel::Fuse {
            expand: &self.expand,
            expand_bias: &self.expand_bias,
            contract: &self.contract,
            contract_bias: &self.contract_bias,
        }
    }
}

impl Fuse {
    /// Whether it runs on fused kernels.
    pub(super) fn fuses(&self, context: &Context<'_>) -> bool {
        self.expand.bias.is_some()
            && self.contract.bias.is_some()
            && context.fuses(&self.expand.weight.val().inner().device())
    }

    pub(super) fn parts<'p>(&self, usage: Use, context: &Context<'p>) -> Option<Parts<'p>> {
        if !self.fuses(context) {
            return None;
        }
        let workspace = context.fused();
        let (expand, contract) = Packed::pair(&self.expand.weight, &self.contract.weight, usage, workspace);
        Some(Parts {
            expand,
            expand_bias: Floats::param(self.expand.bias.as_ref()?),
            contract,
            contract_bias: Floats::param(self.contract.bias.as_ref()?),
            workspace,
        })
    }

    pub(super) fn fused_forward(&self, parts: &Parts<'_>, streams: Streams<3>) -> (Tensor<3>, FuseSaved) {
        let [batch, tokens, width] = streams.dims();
        let mut z = blank(batch * tokens * self.outputs);
        let (x1, x2) = (Floats::of(streams.x1.clone()), Floats::of(streams.x2.clone()));
        let kernel = parts.kernel().forward_saving(&x1, &x2, &mut z, parts.workspace.kernels());
        let bytes = lent([batch * tokens * 2 * width]);
        let hidden = Hidden::Fused { kernel, bytes };
        (tensor(z, [batch, tokens, self.outputs]), FuseSaved { streams, hidden })
    }

    pub(super) fn fused_vjp(
        &self,
        streams: Streams<3>,
        saved: super::KernelSaved,
        dz: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<3> {
        let parts = self.parts(Use::Vjp, context).expect("what ran fused before runs fused again");
        let (Some(expand_bias), Some(contract_bias)) = (&self.expand.bias, &self.contract.bias) else {
            unreachable!("a fused perceptron has all its biases")
        };
        let dims = streams.dims();
        let [mut dx1, mut dx2] = [(); 2].map(|()| blank(dims.iter().product()));
        let (mut d_expand, mut d_expand_bias) = (Grad::of(&self.expand.weight), Grad::of(expand_bias));
        let (mut d_contract, mut d_contract_bias) =
            (Grad::of(&self.contract.weight), Grad::of(contract_bias));
        let grads = FuseGrads {
            x1: &mut dx1,
            x2: &mut dx2,
            expand: &mut d_expand,
            expand_bias: &mut d_expand_bias,
            contract: &mut d_contract,
            contract_bias: &mut d_contract_bias,
        };
        let (x1, x2) = (Floats::of(streams.x1), Floats::of(streams.x2));
        let memory = parts.workspace.kernels();
        parts.kernel().vjp((&x1, &x2), saved, &Floats::of(dz), grads, memory);
        // In the order of the derivative on Burn's operations.
        d_contract.add_to(gradients);
        d_contract_bias.add_to(gradients);
        d_expand.add_to(gradients);
        d_expand_bias.add_to(gradients);
        Streams::new(tensor(dx1, dims), tensor(dx2, dims))
    }
}
