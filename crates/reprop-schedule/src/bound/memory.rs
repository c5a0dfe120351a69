//! Revolve when work with all slots full has a price of its own.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What a step costs while a memory slot is free (`open`) and while none is (`full`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Price {
    pub(super) open: f64,
    pub(super) full: f64,
}

/// What each further step adds to the least cost `M(l, m)` of reversing `l` steps with `m >= 1` slots, the
/// first state's slot counted: `M(l, m) = min_j j f(m-1) + M(l-j, m-1) + M(j, m)`, `M(1, m) = b(m)`, where the
/// prices `f(i)` and `b(i)` with `i` slots free are `full` for `i = 0` and `open` otherwise.
///
/// *Closed form.* A plan is a binary tree: a cut at level `m` puts the upper part at level `m - 1` and makes every step
/// of the lower part pay `f(m-1)`. Cutting a leaf of level `m` that has paid `c` adds `c + f(m-1) + b(m-1)`.
/// Neither of its children can be cut for less, since prices fall with the slots free. So the `l - 1`
/// cheapest cuts of the infinite tree form a tree, and `M` is the sum of its increments in rising order.
/// Cuts at levels above 1 reached by `i` lower turns: `C(i + m - 1, i + 1)`, each `(i + 1) f + b` open. Cuts at
/// level 1 after `i` lower turns above it and `k` on it: `C(i + m - 2, i)`, each `i f` open and
/// `(k + 1) f + b` full.
pub(super) fn increments(level: usize, most: usize, forward: Price, backward: Price) -> Vec<f64> {
    let mut found = Vec::with_capacity(most);
    let mut heap = BinaryHeap::new();
    let above = |i: usize| Cut { value: (i + 1) as f64 * forward.open + backward.open, i, on_one: None };
    let on_one = |i: usize, k: usize| {
        let value = i as f64 * forward.open + (k + 1) as f64 * forward.full + backward.full;
        Cut { value, i, on_one: Some(k) }
    };
    found.push(backward.open);
    heap.push(on_one(0, 0));
    if level > 1 {
        heap.push(above(0));
    }
    while found.len() < most
        && let Some(cut) = heap.pop()
    {
        let Cut { value, i, on_one: turns } = cut;
        let room = most - found.len();
        let count = match turns {
            None => choose(i + level - 1, i + 1, room),
            Some(_) if level == 1 => 1,
            Some(_) => choose(i + level - 2, i, room),
        };
        found.extend(std::iter::repeat_n(value, count));
        match turns {
            None => heap.push(above(i + 1)),
            Some(k) => {
                heap.push(on_one(i, k + 1));
                if k == 0 && level > 1 {
                    heap.push(on_one(i + 1, 0));
                }
            }
        }
    }
    found
}

/// `min(C(n, k), most)`.
fn choose(n: usize, k: usize, most: usize) -> usize {
    let mut value = 1_u128;
    for i in 1..=k.min(n - k) as u128 {
        value = value * (n as u128 - k.min(n - k) as u128 + i) / i;
        if value >= most as u128 {
            return most;
        }
    }
    (value as usize).min(most)
}

/// A kind of cut; the cheapest is the greatest, as a heap wants it.
struct Cut {
    value: f64,
    i: usize,
    on_one: Option<usize>,
}

impl Ord for Cut {
    fn cmp(&self, other: &Self) -> Ordering {
        other.value.total_cmp(&self.value)
    }
}

impl PartialOrd for Cut {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Cut {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Cut {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advances;

    fn cost(level: usize, len: usize, forward: Price, backward: Price) -> f64 {
        increments(level, len, forward, backward).iter().sum()
    }

    #[test]
    fn equal_prices_give_revolve() {
        let one = Price { open: 1.0, full: 1.0 };
        for level in 1..=12 {
            for len in 1..=200 {
                assert_eq!(cost(level, len, one, one) as u128, advances(len, level) + len as u128);
            }
        }
    }

    #[test]
    fn unequal_prices_give_the_dynamic_programme() {
        let (forward, backward) = (Price { open: 0.5, full: 1.0 }, Price { open: 1.0, full: 2.0 });
        let mut below = vec![f64::INFINITY; 41];
        below[1] = backward.full;
        for level in 1..=5 {
            let sweep = if level == 1 { forward.full } else { forward.open };
            let mut row = vec![f64::INFINITY, backward.open];
            for len in 2..=40 {
                let cuts = (1..len).map(|j| j as f64 * sweep + below[len - j] + row[j]);
                row.push(cuts.fold(f64::INFINITY, f64::min));
            }
            for (len, &value) in row.iter().enumerate().skip(1) {
                // Halves are exact.
                let found = cost(level, len, forward, backward);
                assert!((found - value).abs() < f64::EPSILON, "({len}, {level})");
            }
            below = row;
        }
    }
}
