//! The relaxed problem behind [`phases`](super::phases), solved by search: a check of its exchanges.
//!
//! Given the states on disk and in memory at `F`, transfers are waited for and have prices, and work costs more
//! while all slots are full.

use super::memory::{Price, increments};
use super::phases::{late_gaps, sums};
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

    /// The least cost of the chain with so many states in memory at `F`, all of them above so many on disk.
    fn gaps(&self) -> Vec<Vec<f64>> {
        let slots = self.slots as usize;
        let level = |level: usize| sums(&increments(level, self.steps, self.forward, self.backward));
        let again = Again::over(level(slots), self.forward.open, self.disk);
        let late = late_gaps(&again, self.forward.open, self.disk);
        let mut none = vec![f64::INFINITY; self.steps + 1];
        none[0] = 0.0;
        let further = |row: &[f64], part: &[f64], price: f64| -> Vec<f64> {
            let least = |l: usize| (1..=l).map(|g| row[l - g] + part[g] + price).fold(row[l], f64::min);
            (0..=self.steps).map(least).collect()
        };
        let mut by_held = vec![];
        for held in 0..=slots {
            let mut best = vec![f64::INFINITY; self.steps + 1];
            for written in 0..=held {
                let mut row = none.clone();
                for level_ in slots - (held - written) + 1..=slots {
                    row = further(&row, &level(level_), 0.0);
                }
                for _ in 0..written {
                    row = further(&row, &late, 0.0);
                }
                best = best.iter().zip(&row).map(|(x, y): (&f64, &f64)| x.min(*y)).collect();
            }
            let mut by_disk = vec![best[self.steps]];
            for _ in 0..self.steps {
                best = further(&best, &again.value, self.disk.read);
                by_disk.push(best[self.steps]);
            }
            by_held.push(by_disk);
        }
        by_held
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
    let mut tight = 0;
    for (steps, slots, cases) in CASES {
        for case in 0..cases {
            let (forward, backward, disk) = prices(case);
            let relaxed = Relaxed { steps, slots, forward, backward, disk };
            let (values, gaps) = (relaxed.solve(), relaxed.gaps());
            for (on_disk, layer) in values[steps].iter().enumerate() {
                for memory in 0..1_usize << steps {
                    let found = layer[index(NOWHERE, memory)];
                    let (held, written) = (memory.count_ones() as usize, on_disk.count_ones() as usize);
                    if found.is_finite() {
                        let least = gaps[held][written];
                        assert!(found >= least - 1e-9, "{relaxed:?} {on_disk:b} {memory:b}: {found} {least}");
                        tight += usize::from(found <= least + 1e-9);
                    }
                }
            }
        }
    }
    assert!(tight > 0);
}

/// Steps, slots and how many prices.
const CASES: [(usize, u32, u64); 7] =
    [(4, 1, 100), (4, 2, 100), (5, 1, 40), (5, 2, 40), (5, 3, 40), (6, 2, 20), (6, 3, 20)];
