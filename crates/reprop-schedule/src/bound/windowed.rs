//! What [`pair`](super::pair) proves, by search: windows, late writes and reads in any order.
//!
//! From the first reverse step on, over all states on disk and in memory at that moment. A read in the background costs `t r` and
//! holds a slot; while it lasts, at most `r` of computation costs `1 - t` of its price. Writes take no time.

use super::orderly::revolve;
use super::pair::Pair;
use crate::Costs;

/// A chain whose forward step costs 1.
#[derive(Debug, Clone, Copy)]
struct Windowed {
    steps: usize,
    slots: usize,
    backward: usize,
    read: usize,
    t: f64,
}

/// Sets of states have a bit each; `at` is the working state, `steps` for none.
#[derive(Debug, Clone, Copy)]
struct Place {
    memory: usize,
    at: usize,
    /// The state that is being read, and the computation that its window has left.
    window: Option<(usize, usize)>,
}

/// The least cost from every place, for one front and one set on disk.
type Layer = Vec<f64>;

impl Windowed {
    fn windows(&self) -> usize {
        1 + self.steps * (self.read + 1)
    }

    fn index(&self, place: Place) -> usize {
        let window = place.window.map_or(0, |(step, left)| 1 + step * (self.read + 1) + left);
        (place.memory * (self.steps + 1) + place.at) * self.windows() + window
    }

    fn places(&self, front: usize) -> Vec<Place> {
        let mut places = vec![];
        let windows = (0..front).flat_map(|step| (0..=self.read).map(move |left| Some((step, left))));
        let windows: Vec<_> = windows.chain([None]).collect();
        for memory in (0..1_usize << front).rev() {
            for &window in &windows {
                if memory.count_ones() as usize + usize::from(window.is_some()) <= self.slots {
                    places.extend((0..front).rev().chain([self.steps]).map(|at| Place {
                        memory,
                        at,
                        window,
                    }));
                }
            }
        }
        places
    }

    /// The least cost to go by front, set on disk and place.
    fn solve(&self) -> Vec<Vec<Layer>> {
        let sets = 1 << self.steps;
        let size = sets * (self.steps + 1) * self.windows();
        let mut values = vec![vec![vec![0.0; size]; sets]];
        for front in 1..=self.steps {
            let places = self.places(front);
            let mut layers = vec![vec![]; sets];
            for disk in (0..1 << front).rev() {
                let mut value = vec![f64::INFINITY; size];
                let mut changed = true;
                while std::mem::take(&mut changed) {
                    for &place in &places {
                        let next = &values[front - 1][disk & ((1 << (front - 1)) - 1)];
                        let best = self.best(front, disk, place, &value, &layers, next);
                        let known = &mut value[self.index(place)];
                        if best < *known - 1e-12 {
                            (*known, changed) = (best, true);
                        }
                    }
                }
                layers[disk] = value;
            }
            values.push(layers);
        }
        values
    }

    /// The least over all actions; writes lead to larger sets on disk, reversals to `next`.
    fn best(
        &self,
        front: usize,
        disk: usize,
        place: Place,
        value: &Layer,
        larger: &[Layer],
        next: &Layer,
    ) -> f64 {
        let Place { memory, at, window } = place;
        let go = |place: Place| value[self.index(place)];
        let room = memory.count_ones() as usize + usize::from(window.is_some()) < self.slots;
        let mut best = go(place);
        for step in 0..front {
            let (held, on_disk) = (memory >> step & 1 == 1, disk >> step & 1 == 1);
            if held {
                best = best
                    .min(go(Place { at: step, ..place }))
                    .min(go(Place { memory: memory & !(1 << step), ..place }));
            }
            if (held || step == at) && !on_disk {
                best = best.min(larger[disk | 1 << step][self.index(place)]);
            }
            if on_disk && window.is_none() {
                best = best.min(go(Place { at: step, ..place }) + self.read as f64);
                if room && !held {
                    let window = Some((step, self.read));
                    best = best.min(go(Place { window, ..place }) + self.t * self.read as f64);
                }
            }
        }
        if let Some((step, _)) = window {
            best = best.min(go(Place { memory: memory | 1 << step, window: None, ..place }));
        }
        if at == self.steps {
            return best;
        }
        if room {
            best = best.min(go(Place { memory: memory | 1 << at, ..place }));
        }
        let time = if at + 1 == front { self.backward } else { 1 };
        let (window, price) = match window {
            Some((step, left)) if left >= time => (Some((step, left - time)), 1.0 - self.t),
            // The rest of a window that is too short for the step counts in full.
            Some((step, left)) => (Some((step, 0)), 1.0 - self.t * left as f64 / time as f64),
            None => (None, 1.0),
        };
        let on = if at + 1 == front {
            let live = (1 << (front - 1)) - 1;
            let window = window.filter(|&(step, _)| step + 1 < front);
            next[self.index(Place { memory: memory & live, at: self.steps, window })]
        } else {
            go(Place { at: at + 1, window, ..place })
        };
        best.min(on + price * time as f64)
    }
}

#[test]
fn no_order_of_reads_and_late_writes_beats_the_blocks() {
    let mut nearest = 0.0_f64;
    for (steps, slots, backward, read, t) in CASES {
        let windowed = Windowed { steps, slots, backward, read, t };
        let values = windowed.solve();
        let costs = Costs::new(1.0, backward as f64).unwrap().disk(4.0, read as f64).unwrap();
        let pair = Pair::new(&costs, &revolve(steps, slots, &costs), t);
        for a in [0.0, 0.15, 0.4, 0.7, 1.0] {
            let least = pair.least(steps, a);
            for (disk, layer) in values[steps].iter().enumerate() {
                for memory in (0..1_usize << steps).filter(|memory| memory.count_ones() as usize <= slots) {
                    let found = layer[windowed.index(Place { memory, at: steps, window: None })];
                    let paid = 4.0 * a * f64::from(disk.count_ones() + memory.count_ones());
                    assert!(
                        found + paid >= least - 1e-9,
                        "{windowed:?} {a} {disk:b} {memory:b}: {found} {paid} {least}"
                    );
                    nearest = nearest.max(least / (found + paid));
                }
            }
        }
    }
    assert!(nearest > 0.95, "{nearest}");
}

/// Steps, slots, the price of a reverse step, that of a read, and `t`.
const CASES: [(usize, usize, usize, usize, f64); 18] = [
    (5, 2, 1, 3, 0.5),
    (5, 2, 0, 2, 0.75),
    (5, 2, 2, 4, 0.25),
    (6, 2, 1, 2, 0.5),
    (6, 2, 1, 3, 0.25),
    (6, 2, 1, 4, 0.8),
    (6, 2, 2, 3, 1.0),
    (7, 2, 1, 1, 0.9),
    (7, 2, 1, 3, 0.4),
    (7, 2, 1, 2, 0.7),
    (7, 2, 1, 5, 0.3),
    (6, 3, 0, 2, 0.5),
    (6, 3, 1, 3, 0.25),
    (7, 3, 1, 1, 0.8),
    (7, 3, 1, 2, 0.3),
    (7, 3, 1, 4, 0.5),
    (7, 4, 1, 1, 0.6),
    (7, 4, 1, 3, 0.2),
];
