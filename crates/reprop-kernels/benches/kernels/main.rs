//! Time, bytes and operations a second of each kernel beside the machine's limits: `cargo bench -p reprop-kernels`, about two
//! minutes; `cargo bench -p reprop-kernels --bench kernels -- norms` for one topic.
//!
//! "item/s" are floating-point operations a second (a multiply-add counts two; a Winograd convolution counts what a direct one
//! would take); "B/s" are bytes read and written by each pass that a kernel cannot do without. The first lines are the limits:
//! multiply-adds in registers, a copy, and a sum in place, of large tensors and of tensors of ViT-S, which caches may hold. A
//! derivative is timed alone: the forward that it needs runs before the clock does.

use std::time::Duration;

use divan::{Bencher, black_box};
use rayon::prelude::*;
use reprop_kernels::{Workspace, heap, pool, probe};

mod between;
mod branch;
mod convolution;
mod dense;
mod elementwise;
mod ends;
mod heads;
mod norms;
mod optimizers;
mod pooled;
mod pools;
mod recurrent;
mod steps;
mod support;
mod transformer;
#[path = "../../examples/units/mod.rs"]
mod units;
mod window;

use support::{ROWS, blank, bytes, data, flops};

/// Of the slowest, five samples on two cores: enough for a median.
const EACH: Duration = Duration::from_millis(1500);

fn main() {
    // As programs do: phases then start without waking this thread, and what kernels allocate is no fresh memory.
    pool::join_pool(None);
    heap::keep_freed_memory();
    divan::Divan::default().max_time(EACH).config_with_args().main();
}

#[divan::bench]
fn a_limit_multiply_adds(bencher: Bencher) {
    let isa = Workspace::default().isa();
    let count = probe::operations(isa, 16, 100_000) as usize;
    bencher.counter(flops(count)).bench_local(|| probe::multiply_adds(isa, 16, 100_000));
}

#[divan::bench]
fn a_limit_copy(bencher: Bencher) {
    let (from, [mut to]) = (data(1 << 24), blank([1 << 24]));
    bencher.counter(bytes(2 << 24)).bench_local(|| probe::copy(black_box(&from), &mut to));
}

/// Moves the bytes that are counted and no others: a copy's target may be fetched before it is overwritten.
#[divan::bench(args = [ROWS * 384, 1 << 24])]
fn a_limit_sum(bencher: Bencher, floats: usize) {
    const PART: usize = 1 << 14;
    let (term, mut sum) = (data(floats), data(floats));
    bencher.counter(bytes(3 * floats)).bench_local(|| {
        sum.par_chunks_mut(PART).zip(black_box(&term).par_chunks(PART)).for_each(|(sum, term)| {
            sum.iter_mut().zip(term).for_each(|(sum, term)| *sum += term);
        });
    });
}
