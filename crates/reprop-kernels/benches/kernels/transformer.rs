//! The sub-blocks of transformers on whole sequences.

use divan::{Bencher, black_box};
use reprop_kernels::Workspace;
use reprop_kernels::attention::{AttentionShape, Keep};
use reprop_kernels::output::{Base, Output};

use crate::support::{blank, data, flops};
use crate::units::random::Random;
use crate::units::transformer::{self, Block, Gradients, Sizes};

#[derive(Clone, Copy, Debug)]
enum Network {
    VitS,
    /// A single sample: tasks are columns, and pack the weights.
    VitSAlone,
    /// 128 tokens of RevRoBERTa-base.
    Roberta,
}

use Network::{Roberta, VitS, VitSAlone};

impl Network {
    fn sizes(self) -> Sizes {
        match self {
            VitS => transformer::sizes(8),
            VitSAlone => transformer::sizes(1),
            Roberta => Sizes { shape: AttentionShape { batch: 8, tokens: 128, heads: 12 }, width: 768 },
        }
    }

    fn block(self, ws: &Workspace) -> Block {
        Block::new(self.sizes(), &mut Random::new(), ws)
    }
}

#[divan::bench(args = [VitS, VitSAlone, Roberta])]
fn attention_forward(bencher: Bencher, network: Network) {
    let (ws, sizes) = (Workspace::default(), network.sizes());
    let (block, x, [mut y]) = (network.block(&ws), data(sizes.len()), blank([sizes.len()]));
    bencher.counter(flops(sizes.attention_flops())).bench_local(|| {
        let output = &mut Output::Value(&mut y);
        block.attention().forward_saving(black_box(&x), output, Keep::Probabilities, &ws)
    });
}

#[divan::bench(args = [VitS, VitSAlone, Roberta])]
fn attention_vjp_of_kept_probabilities(bencher: Bencher, network: Network) {
    attention_vjp(bencher, network, Keep::Probabilities);
}

#[divan::bench(args = [VitS])]
fn attention_vjp_of_nothing_kept(bencher: Bencher, network: Network) {
    attention_vjp(bencher, network, Keep::Nothing);
}

/// Where probabilities were not kept, the product of the scores runs again.
fn attention_vjp(bencher: Bencher, network: Network, keep: Keep) {
    let (ws, sizes) = (Workspace::default(), network.sizes());
    let (block, mut gradients) = (network.block(&ws), Gradients::new(sizes));
    let (x, dy, [mut y, mut dx]) = (data(sizes.len()), data(sizes.len()), blank([sizes.len(); 2]));
    let again = if keep == Keep::Nothing { 2 * sizes.len() * sizes.shape.tokens } else { 0 };
    bencher
        .counter(flops(2 * sizes.attention_flops() + again))
        .with_inputs(|| {
            let saved = block.attention().forward_saving(&x, &mut Output::Value(&mut y), keep, &ws);
            saved.expect("floats do not overflow")
        })
        .bench_local_values(|saved| {
            block.attention().vjp(&x, saved, &dy, &mut dx, Base::Nothing, gradients.attention(), &ws);
        });
}

#[divan::bench(args = [VitS, VitSAlone, Roberta])]
fn mlp_forward(bencher: Bencher, network: Network) {
    let (ws, sizes) = (Workspace::default(), network.sizes());
    let (block, x, [mut y]) = (network.block(&ws), data(sizes.len()), blank([sizes.len()]));
    bencher
        .counter(flops(sizes.mlp_flops()))
        .bench_local(|| block.mlp().forward_saving(black_box(&x), &mut Output::Value(&mut y), &ws));
}

#[divan::bench(args = [VitS, VitSAlone, Roberta])]
fn mlp_vjp(bencher: Bencher, network: Network) {
    let (ws, sizes) = (Workspace::default(), network.sizes());
    let (block, mut gradients) = (network.block(&ws), Gradients::new(sizes));
    let (x, dy, [mut y, mut dx]) = (data(sizes.len()), data(sizes.len()), blank([sizes.len(); 2]));
    bencher
        .counter(flops(2 * sizes.mlp_flops()))
        .with_inputs(|| {
            let saved = block.mlp().forward_saving(&x, &mut Output::Value(&mut y), &ws);
            saved.expect("floats do not overflow")
        })
        .bench_local_values(|saved| {
            block.mlp().vjp(&x, saved, &dy, &mut dx, Base::Nothing, gradients.mlp(), &ws);
        });
}
