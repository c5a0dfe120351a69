//! Whole forward and backward steps of four blocks: the units that are compared with other libraries.

use divan::Bencher;
use reprop_kernels::Workspace;

use crate::convolution::STAGES;
use crate::support::flops;
use crate::units::{convolution, transformer};

/// Batches.
#[divan::bench(args = [8, 2, 1])]
fn unit_a(bencher: Bencher, batch: usize) {
    let ws = Workspace::default();
    let mut unit = transformer::Unit::new(batch, &ws);
    bencher.counter(flops(unit.flops() as usize)).bench_local(|| unit.step(&ws));
}

/// Channels.
#[divan::bench(args = STAGES)]
fn unit_b(bencher: Bencher, channels: usize) {
    let ws = Workspace::default();
    let mut unit = convolution::Unit::new(channels, &ws);
    bencher.counter(flops(unit.flops() as usize)).bench_local(|| unit.step(&ws));
}
