//! What this machine can do at most: the limits that kernels' times are fractions of.

use crate::share::Shared;
use crate::simd::{Isa, dispatch};
use crate::tasks::for_each;

/// Chains of multiply-adds that do not wait for each other: more than any CPU has in flight.
const CHAINS: usize = 12;

/// Operations that [`multiply_adds`] does for `tasks` tasks of `rounds` rounds; a multiply-add counts two.
pub fn operations(isa: Isa, tasks: usize, rounds: usize) -> u64 {
    (2 * tasks * rounds * CHAINS * isa.lanes()) as u64
}

/// Runs nothing but multiply-adds in registers, in parallel; the result keeps the compiler from dropping them.
pub fn multiply_adds(isa: Isa, tasks: usize, rounds: usize) -> f32 {
    let mut sums = vec![0.0; tasks];
    {
        let sums = Shared::new(&mut sums);
        for_each(tasks, |task| {
            // SAFETY: each task has its own sum.
            let sum = unsafe { sums.slice(task..task + 1) };
            sum[0] = chains(isa, rounds);
        });
    }
    sums.iter().sum()
}

dispatch! {
    fn chains(s: Isa, rounds: usize) -> f32 {
        let (a, b) = (s.splat(std::hint::black_box(0.999)), s.splat(std::hint::black_box(1e-3)));
        let mut sums = [s.splat(1.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = s.fma(*sum, a, b);
            }
        }
        let mut total = s.zero();
        for sum in sums {
            total = s.add(total, sum);
        }
        s.sum(total)
    }
}

/// Copies `from` to `to` in parallel: the memory's bandwidth.
///
/// # Panics
/// If lengths differ.
pub fn copy(from: &[f32], to: &mut [f32]) {
    const PART: usize = 1 << 16;
    assert_eq!(from.len(), to.len(), "lengths differ");
    let len = from.len();
    let to = Shared::new(to);
    for_each(len.div_ceil(PART), |part| {
        let span = part * PART..((part + 1) * PART).min(len);
        // SAFETY: parts do not overlap.
        unsafe { to.slice(span.clone()) }.copy_from_slice(&from[span]);
    });
}
