//! Where to cut a chain into intervals.

use super::windows::Windows;
use crate::least::{Backwards, least_sum};

/// Cells of the dynamic programme over numbers of intervals.
const MOST_CELLS: usize = 20_000_000;

/// The best lengths of intervals for each number of them, the last without its way up.
pub(super) fn lengths(steps: usize, windows: &Windows) -> Vec<Vec<usize>> {
    let (gaps, tails) = (windows.intervals(), windows.tails());
    let longest = gaps.len() - 1;
    // `rows[k][l]`: the least cost of `l` steps in `k` intervals, and the last of them.
    let mut row = vec![f64::INFINITY; steps + 1];
    row[0] = 0.0;
    let mut lasts: Vec<Vec<u16>> = vec![];
    let mut found = vec![];
    for count in 0..(MOST_CELLS / (steps * longest)).min(steps) {
        let tail = (1..=longest)
            .min_by(|&x, &y| (tails[x] + row[steps - x]).total_cmp(&(tails[y] + row[steps - y])))
            .unwrap_or(longest);
        if (tails[tail] + row[steps - tail]).is_finite() {
            let mut lengths = vec![tail];
            let mut left = steps - tail;
            for lasts in lasts.iter().rev() {
                lengths.push(usize::from(lasts[left]));
                left -= usize::from(lasts[left]);
            }
            debug_assert_eq!(left, 0, "{count}");
            lengths.reverse();
            found.push(lengths);
        }
        let mut next = vec![f64::INFINITY; steps + 1];
        let mut last = vec![0; steps + 1];
        let behind = Backwards::of(&row);
        for l in 1..=steps {
            let most = longest.min(l);
            // row[l - x] for x in 1 ..= most
            if let Some((sum, index)) = least_sum(&gaps[1..=most], behind.down_from(l, most)) {
                (next[l], last[l]) = (sum, index as u16 + 1);
            }
        }
        row = next;
        lasts.push(last);
    }
    found
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
