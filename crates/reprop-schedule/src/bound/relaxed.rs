//! The relaxed problem behind [`phases`](super::phases), solved by search: a check of its exchanges.
//!
//! Given the states on disk and in memory at `F`, transfers are waited for and have prices, and work costs more
//! while all slots are full.

use super::memory::{Price, increments};
use crate::Transfer;
use crate::disk_revolve::Again;

#[derive(Debug, Clone, Copy)]
struct Relaxed {
    steps: usize,
    slots: u32,
    forward: Price,
    backward: Price,
    disk: Transfer,
}

const NOWHERE: usize = 15;

/// The least cost from every working state and memory, for one front and one set on disk.
type Layer = Vec<f64>;

fn index(at: usize, memory: usize) -> usize {
    memory * 16 + at
}

impl Relaxed {
    /// The least cost to go by front, set on disk, memory and working state.
    fn solve(&self) -> Vec<Vec<Layer>> {
        let sets = 1 << self.steps;
        let mut values = vec![vec![vec![0.0; 16 * sets]; sets]];
        for front in 1..=self.steps {
            let mut layers = vec![vec![]; sets];
            for disk in (0..sets).rev() {
                layers[disk] = self.layer(front, disk, &layers, &values[front - 1][disk]);
            }
            values.push(layers);
        }
        values
    }

    /// Relaxes every action until nothing changes; writes lead to larger sets on disk, reversals to `next`.
    fn layer(&self, front: usize, disk: usize, larger: &[Layer], next: &Layer) -> Layer {
        let sets = 1 << self.steps;
        let mut value = vec![f64::INFINITY; 16 * sets];
        loop {
            let mut changed = false;
            for memory in (0..sets).filter(|memory| memory.count_ones() <= self.slots) {
                let full = memory.count_ones() == self.slots;
                let price = |price: Price| if full { price.full } else { price.open };
                for at in (0..front).rev().chain([NOWHERE]) {
                    let mut best = value[index(at, memory)];
                    for step in 0..front {
                        if memory >> step & 1 == 1 {
                            best = best.min(value[index(step, memory)]);
                            best = best.min(value[index(at, memory & !(1 << step))]);
                        } else if disk >> step & 1 == 1 {
                            best = best.min(value[index(step, memory)] + self.disk.read);
                        }
                    }
                    if at != NOWHERE {
                        if !full {
                            best = best.min(value[index(at, memory | 1 << at)]);
                        }
                        if disk >> at & 1 == 0 {
                            best = best.min(larger[disk | 1 << at][index(at, memory)] + self.disk.write);
                        }
                        best = best.min(if at + 1 == front {
                            next[index(NOWHERE, memory & !(1 << at))] + price(self.backward)
                        } else {
                            value[index(at + 1, memory)] + price(self.forward)
                        });
                    }
                    if best < value[index(at, memory)] - 1e-12 {
                        value[index(at, memory)] = best;
                        changed = true;
                    }
                }
            }
            if !changed {
                return value;
            }
        }
    }

    /// The least `sum Q(g)` over the ways to cut the chain into each number of gaps.
    fn gaps(&self) -> Vec<f64> {
        let rising =
            increments((self.slots as usize).min(self.steps), self.steps, self.forward, self.backward);
        let memory = rising.iter().scan(0.0, |sum, increment| {
            *sum += increment;
            Some(*sum)
        });
        let q = Again::over([0.0].into_iter().chain(memory).collect(), self.forward.open, self.disk).value;
        let mut rows = vec![vec![f64::INFINITY; self.steps + 1]];
        rows[0][0] = 0.0;
        for count in 1..=self.steps {
            let fewer = &rows[count - 1];
            let least = |l: usize| (1..=l).map(|g| fewer[l - g] + q[g]).fold(f64::INFINITY, f64::min);
            rows.push((0..=self.steps).map(least).collect());
        }
        rows.into_iter().map(|row| row[self.steps]).collect()
    }
}

/// Prices that vary from case to case, some of them 0 or equal.
fn prices(case: u64) -> (Price, Price, Transfer) {
    let digit = |place: u32| (case.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (8 * place) & 7) as f64;
    let (open, channel) = (digit(0) / 8.0, digit(1) / 64.0);
    let price = |unit: f64| Price { open: unit * open, full: unit * (1.0 - channel) };
    let (open_forward, backward) = (price(1.0 + digit(2)), price(digit(3)));
    let forward = Price { open: open_forward.open.min(open_forward.full), ..open_forward };
    let backward = Price { open: backward.open.min(backward.full), ..backward };
    (forward, backward, Transfer { write: digit(4) * channel, read: digit(5) })
}

#[test]
fn no_schedule_of_the_relaxed_problem_beats_the_gaps() {
    for (steps, slots, cases) in CASES {
        for case in 0..cases {
            let (forward, backward, disk) = prices(case);
            let relaxed = Relaxed { steps, slots, forward, backward, disk };
            let (values, gaps) = (relaxed.solve(), relaxed.gaps());
            for (on_disk, layer) in values[steps].iter().enumerate() {
                for memory in 0..1_usize << steps {
                    let found = layer[index(NOWHERE, memory)];
                    // Not every state needs to be used.
                    let most = (on_disk | memory).count_ones() as usize;
                    let unread = memory.count_ones() as usize;
                    let cost = |count: usize| gaps[count] + count.saturating_sub(unread) as f64 * disk.read;
                    if found.is_finite() && most > 0 {
                        let least = (1..=most).map(cost).fold(f64::INFINITY, f64::min);
                        assert!(found >= least - 1e-9, "{relaxed:?} {on_disk:b} {memory:b}: {found} {least}");
                    }
                }
            }
        }
    }
}

/// Steps, slots and how many prices.
const CASES: [(usize, u32, u64); 5] = [(4, 1, 100), (4, 2, 100), (5, 1, 40), (5, 2, 40), (5, 3, 40)];
