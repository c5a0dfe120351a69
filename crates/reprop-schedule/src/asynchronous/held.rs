//! Ends of the chain that stay in memory while writes are still under way.

use super::lengths::Cuts;
use crate::least::{Backwards, least_sum};
use crate::{Costs, advances};

/// The longest end, the most gaps below its last one, and the most writes left behind: more would take long to plan.
const LONGEST: usize = 400;
const MOST_HELD: usize = 24;
const MOST_WAITING: usize = 16;

/// Ends of the chain, above intervals that are written. With more of these than the way forward has time to write, some
/// wait for their write after it, each in a slot; the end has the others, and more as time goes on.
///
/// Let `u` writes be left from a time `t_u` after the way forward on, and `T` be Revolve's time. The end is cut into gaps whose
/// first states are held. `D_h(l)`, the least time of the last `l` steps with `h` held states below them, is the least
/// of `max(D_{h+1}(l - g), t_u) + T(g, s - h - u)` over all `g` and `u`; without the first way up for `g = l`, which belongs to the
/// way forward. The lowest gap leaves one slot to the first fetch.
#[derive(Debug)]
pub(super) struct Ends {
    steps: usize,
    forward: f64,
    write: f64,
    /// `T` by slots and length.
    times: Vec<Vec<f64>>,
}

/// The gaps of an end, and the time of the plan if all is as expected.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) time: f64,
    /// The intervals that are written.
    pub(super) count: usize,
    /// The gaps, from the lowest to the last.
    pub(super) lengths: Vec<usize>,
    /// Their slots, from the last to the lowest.
    pub(super) slots: Vec<usize>,
}

/// A time, the length of the lowest gap, and its slots.
type Cell = (f64, usize, usize);

impl Ends {
    pub(super) fn new(steps: usize, slots: usize, costs: &Costs) -> Self {
        let (f, b) = (costs.forward, costs.backward);
        let time = |slots: usize| {
            (0..=steps.min(LONGEST)).map(|l| f * advances(l, slots.max(1)) as f64 + b * l as f64).collect()
        };
        Self { steps, forward: f, write: costs.tier(1).write, times: (0..=slots).map(time).collect() }
    }

    /// The best end above `count` intervals, if memory has room for one.
    pub(super) fn best(&self, count: usize, cuts: &Cuts) -> Option<Held> {
        let way = self.forward * (self.steps - 1) as f64;
        let left = |writes: usize| ((count - writes) as f64 * self.write - way).max(0.0);
        let waiting = (0..=count.min(MOST_WAITING)).find(|&writes| left(writes) <= 0.0)?;
        let most = (self.times.len() - 1).checked_sub(waiting + 1)?.min(MOST_HELD);
        let longest = self.times[0].len() - 1;
        let mut none = vec![(f64::INFINITY, 0, 0); longest + 1];
        none[0].0 = 0.0;
        // From the most held states down to none.
        let mut rows = vec![none];
        for held in (0..=most).rev() {
            rows.push(self.row(held, waiting, &left, &rows[rows.len() - 1]));
        }
        let lowest = &rows[rows.len() - 1];
        let time = |l: usize| way + lowest[l].0 + cuts.cost(count, self.steps - l);
        let length = (1..=longest.min(self.steps - 1)).min_by(|&x, &y| time(x).total_cmp(&time(y)))?;
        if !time(length).is_finite() {
            return None;
        }
        let (mut lengths, mut slots, mut rest) = (vec![], vec![], length);
        for row in rows.iter().rev() {
            if rest == 0 {
                break;
            }
            let (_, gap, level) = row[rest];
            lengths.push(gap);
            slots.insert(0, level);
            rest -= gap;
        }
        Some(Held { time: time(length), count, lengths, slots })
    }

    /// `D_h` from `D_{h+1}`.
    fn row(&self, held: usize, waiting: usize, left: &dyn Fn(usize) -> f64, above: &[Cell]) -> Vec<Cell> {
        let mut row = vec![(f64::INFINITY, 0, 0); above.len()];
        row[0].0 = 0.0;
        let room = self.times.len() - 1 - held - usize::from(held == 0);
        for writes in 0..=waiting.min(room.saturating_sub(1)) {
            let (level, earliest) = (room - writes, left(writes));
            let times = &self.times[level];
            let behind = Backwards::of(&above.iter().map(|cell| cell.0.max(earliest)).collect::<Vec<_>>());
            for (l, cell) in row.iter_mut().enumerate().skip(1) {
                let last = earliest + times[l] - (l - 1) as f64 * self.forward;
                let further = least_sum(&times[1..l], behind.below(l)).filter(|&(sum, _)| sum < last);
                let (time, gap) = further.map_or((last, l), |(sum, index)| (sum, index + 1));
                if time < cell.0 {
                    *cell = (time, gap, level);
                }
            }
        }
        row
    }
}
