//! Where to cut a chain into intervals.

use super::windows::Windows;
use crate::least::{Backwards, least_sum};

/// Cells of the dynamic programme over numbers of intervals.
const MOST_CELLS: usize = 80_000_000;

/// Numbers of intervals beyond what the way forward has time to write: a half, and so many.
const MORE: usize = 16;

/// No interval but the last is longer than so many times a write, or than so many steps if that is more.
const LONGEST: f64 = 3.0;
const SHORTEST: usize = 24;

/// The best lengths of each number of intervals, with windows: `R_k(l) = min_x Q(x) + R_{k-1}(l - x)`, with the `Q` of
/// [`Windows`]; `R_1(l)` is the lowest interval, after which nothing is fetched.
#[derive(Debug)]
pub(super) struct Cuts {
    /// `R_k` by length.
    rows: Vec<Vec<f64>>,
    /// The `x` of `R_{k+1}` by length.
    lasts: Vec<Vec<u16>>,
    /// What the last interval costs, which is reversed where it stands.
    tails: Vec<f64>,
}

impl Cuts {
    /// For up to `steps` steps, where a write takes as long as `hidden` of them.
    pub(super) fn new(steps: usize, hidden: f64, windows: &Windows) -> Self {
        let gaps = windows.intervals();
        let longest = ((LONGEST * hidden) as usize).max(SHORTEST).min(gaps.len() - 1);
        let written = if hidden > 1.0 { (steps as f64 / hidden) as usize } else { steps };
        let most = (MOST_CELLS / (steps * longest)).min(written + written / 2 + MORE).min(steps);
        let mut none = vec![f64::INFINITY; steps + 1];
        none[0] = 0.0;
        let (mut rows, mut lasts) = (vec![none], vec![]);
        let lowest = windows.lowest();
        let alone = |l: usize| lowest.get(l).copied().filter(|_| l > 0).unwrap_or(f64::INFINITY);
        rows.push((0..=steps).map(alone).collect());
        lasts.push((0..=steps).map(|l| if l < lowest.len() { l as u16 } else { 0 }).collect());
        for count in 2..most {
            let behind = Backwards::of(&rows[count - 1]);
            let mut row = vec![f64::INFINITY; steps + 1];
            let mut last = vec![0; steps + 1];
            for l in 1..=steps {
                let most = longest.min(l);
                // row[l - x] for x in 1 ..= most
                if let Some((sum, index)) = least_sum(&gaps[1..=most], behind.down_from(l, most)) {
                    (row[l], last[l]) = (sum, index as u16 + 1);
                }
            }
            rows.push(row);
            lasts.push(last);
        }
        Self { rows, lasts, tails: windows.tails().to_vec() }
    }

    /// The most intervals, the last one not counted.
    pub(super) fn most(&self) -> usize {
        self.rows.len() - 1
    }

    /// What so many intervals of so many steps in all cost at best.
    pub(super) fn cost(&self, count: usize, steps: usize) -> f64 {
        self.rows[count][steps]
    }

    /// So many intervals of so many steps in all, if that can be.
    pub(super) fn of(&self, count: usize, steps: usize) -> Option<Vec<usize>> {
        self.rows.get(count).filter(|row| row[steps].is_finite())?;
        let mut left = steps;
        let lasts = self.lasts[..count].iter().rev();
        let mut lengths: Vec<usize> = lasts
            .map(|lasts| {
                let length = usize::from(lasts[left]);
                left -= length;
                length
            })
            .collect();
        debug_assert_eq!(left, 0, "{count} intervals of {steps} steps");
        lengths.reverse();
        Some(lengths)
    }

    /// For each number of intervals the best lengths of all, with that of the last.
    pub(super) fn whole(&self) -> Vec<Vec<usize>> {
        let best = |(count, row): (usize, &Vec<f64>)| {
            let steps = row.len() - 1;
            let cost = |tail: usize| self.tails[tail] + row[steps - tail];
            let tail = (1..self.tails.len()).min_by(|&x, &y| cost(x).total_cmp(&cost(y)))?;
            let mut lengths = self.of(count, steps - tail)?;
            lengths.push(tail);
            Some(lengths)
        };
        self.rows.iter().enumerate().filter_map(best).collect()
    }
}

/// The same lengths but the first in another order, each kind spread over the whole way: where short ones take less
/// than a write and long ones more, the writes then keep pace with the way forward.
pub(super) fn spread(lengths: &[usize]) -> Vec<usize> {
    let Some((&first, others)) = lengths.split_first() else { return vec![] };
    let mut sorted = others.to_vec();
    sorted.sort_unstable();
    let mut placed: Vec<(f64, usize)> = sorted
        .chunk_by(|x, y| x == y)
        .flat_map(|kind| {
            let count = kind.len() as f64;
            kind.iter().enumerate().map(move |(i, &length)| ((i as f64 + 0.5) / count, length))
        })
        .collect();
    placed.sort_by(|x, y| x.0.total_cmp(&y.0).then(y.1.cmp(&x.1)));
    [first].into_iter().chain(placed.into_iter().map(|(_, length)| length)).collect()
}

/// The interval lengths with one border moved by `stride`, removed, or set anew in the middle.
pub(super) fn moves(lengths: &[usize], border: usize, stride: usize) -> Vec<Vec<usize>> {
    let mut found = vec![];
    let mut change = |edit: &dyn Fn(&mut Vec<usize>)| {
        let mut copy = lengths.to_vec();
        edit(&mut copy);
        found.push(copy);
    };
    if border + 1 < lengths.len() {
        if lengths[border] > stride {
            change(&|l| (l[border], l[border + 1]) = (l[border] - stride, l[border + 1] + stride));
        }
        if lengths[border + 1] > stride {
            change(&|l| (l[border], l[border + 1]) = (l[border] + stride, l[border + 1] - stride));
        }
        change(&|l| {
            let merged = l.remove(border);
            l[border] += merged;
        });
    }
    if lengths[border] > stride {
        change(&|l| {
            l[border] -= stride;
            l.insert(border + 1, stride);
        });
    }
    found
}
