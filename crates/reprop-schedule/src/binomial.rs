//! The closed forms of Griewank & Walther (2000): how far `s` slots reach, and at what cost.

/// `beta(s, r) = C(s + r, s)`: the longest chain that `slots` snapshots reverse with at most `repetitions`
/// forward evaluations of any step besides the recording one (Griewank & Walther, proposition 1). Saturates.
///
/// ```
/// use reprop_schedule::beta;
/// assert_eq!(beta(3, 2), 10);
/// assert_eq!(beta(10, 4), 1001);
/// ```
pub fn beta(slots: usize, repetitions: usize) -> u128 {
    let (small, large) = (slots.min(repetitions) as u128, slots.max(repetitions) as u128);
    // Each partial product is itself a binomial, so the divisions are exact.
    let mut value = 1_u128;
    for k in 1..=small {
        value = match value.checked_mul(large + k) {
            Some(product) => product / k,
            None => return u128::MAX,
        };
    }
    value
}

/// The least `r` with `beta(slots, r) >= steps`.
///
/// ```
/// use reprop_schedule::repetitions;
/// assert_eq!(repetitions(1000, 10), 4);
/// assert_eq!(repetitions(1, 1), 0);
/// ```
pub fn repetitions(steps: usize, slots: usize) -> usize {
    if slots == 0 || steps <= 1 {
        return 0;
    }
    let (mut low, mut high) = (0, 1);
    while beta(slots, high) < steps as u128 {
        (low, high) = (high, high.saturating_mul(2));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if beta(slots, middle) < steps as u128 { low = middle } else { high = middle }
    }
    high
}

/// `t(n, s) = r n - C(s + r, s + 1)`: the fewest advances (Griewank & Walther, theorem 1).
///
/// Forward evaluations in all are `advances + steps`, since each reverse step records its own forward.
///
/// ```
/// use reprop_schedule::advances;
/// assert_eq!(advances(10, 3), 15);
/// assert_eq!(advances(1000, 10), 3636);
/// assert_eq!(advances(1_000_000_000, 1), 499_999_999_500_000_000);
/// ```
pub fn advances(steps: usize, slots: usize) -> u128 {
    let n = steps as u128;
    match slots.min(steps) {
        _ if n <= 1 => 0,
        0 | 1 => n * (n - 1) / 2,
        slots if slots >= steps - 1 => n - 1,
        slots => {
            let r = repetitions(steps, slots) as u128;
            // C(s + r, s + 1) = beta(s + 1, r - 1).
            r * n - beta(slots + 1, r as usize - 1)
        }
    }
}

/// The fewest snapshots written, `x_0` counted, by any schedule with the fewest advances:
/// `max(beta(s-1, r-1), n - beta(s, r-1))` (Griewank & Walther, theorem 2, restated with `x_0`).
///
/// ```
/// use reprop_schedule::snapshots;
/// assert_eq!(snapshots(10, 3), 6);
/// assert_eq!(snapshots(100, 10), 55);
/// assert_eq!(snapshots(1000, 10), 714);
/// ```
pub fn snapshots(steps: usize, slots: usize) -> u128 {
    if steps <= 1 {
        return 0;
    }
    if slots <= 1 {
        return 1;
    }
    let r = repetitions(steps, slots);
    beta(slots - 1, r - 1).max((steps as u128).saturating_sub(beta(slots, r - 1)))
}

/// `a * b / c`, with the narrowest division that suffices: wide ones take many times as long.
fn scale(a: u128, b: usize, c: usize) -> u128 {
    if (a | b as u128) >> 32 != 0 {
        return a.saturating_mul(b as u128) / c as u128;
    }
    let product = a as u64 * b as u64;
    match (u32::try_from(product), u32::try_from(c)) {
        (Ok(product), Ok(c)) => u128::from(product / c),
        _ => u128::from(product / c as u64),
    }
}

/// [`Level::split`] for up to two repetitions, where every binomial is a product: most sub-chains are so short, and
/// divisions are what a split takes its time for.
#[inline]
pub(crate) fn short_split(n: usize, s: usize) -> Option<usize> {
    if n - 1 <= s {
        return Some(1); // a snapshot at every step
    }
    let twice = (s + 1).checked_mul(s + 2)?; // 2 beta(s, 2)
    if n > twice / 2 {
        return None;
    }
    let outer = if s < 3 { 0 } else { (s - 2) * (s - 1) / 2 }; // beta(s-3, 2)
    Some(if n <= 2 * s {
        1
    } else if n >= twice / 2 - outer {
        s + 1
    } else {
        n - (2 * s - 1)
    })
}

/// `(slots, r, beta(slots, r))` kept together, so that a schedule moves from one sub-chain to the next in
/// constant time on average instead of searching for `r` anew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    slots: usize,
    r: usize,
    size: u128,
}

impl Level {
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots, r: 0, size: 1 }
    }

    /// The level of a sub-chain that has one slot less.
    pub(crate) fn below(self) -> Self {
        // beta(s - 1, r) = beta(s, r) s / (s + r)
        let size = scale(self.size, self.slots, self.slots + self.r);
        Self { slots: self.slots - 1, r: self.r, size }
    }

    /// Lets `r` be the least with `beta(slots, r) >= steps`, and gives `beta(slots, r - 1)`.
    fn fit(&mut self, steps: u128) -> u128 {
        while self.size < steps {
            self.r += 1;
            self.size = scale(self.size, self.slots + self.r, self.r);
        }
        loop {
            let smaller = scale(self.size, self.r, self.slots + self.r);
            if smaller < steps {
                return smaller;
            }
            (self.size, self.r) = (smaller, self.r - 1);
        }
    }

    /// How far to advance before the next snapshot in a sub-chain of `steps` with `slots >= 2`, too long for
    /// [`short_split`].
    ///
    /// Every `m` with `beta(s,r-2) <= m <= beta(s,r-1)` and `beta(s-1,r-1) <= n-m <= beta(s-1,r)` gives the
    /// fewest advances. Among those, the choice below also writes the fewest snapshots (Griewank & Walther,
    /// section 3): keep the left part as short as the middle range allows while the right part stays one
    /// that needs no more snapshots than its repetition number forces.
    pub(crate) fn split(&mut self, steps: usize) -> usize {
        let n = steps as u128;
        let left_most = self.fit(n); // beta(s, r-1)
        let (s, r) = (self.slots, self.r);
        let right = scale(left_most, s, s + r - 1); // beta(s-1, r-1)
        let inner = scale(right, s - 1, s + r - 2); // beta(s-2, r-1)
        if n <= left_most + inner {
            return scale(right, r - 1, s) as usize; // beta(s, r-2)
        }
        let outer = if s < 3 { 0 } else { scale(inner, s - 2, r) }; // beta(s-3, r)
        let m = if n >= self.size - outer { left_most } else { n - right - inner };
        m as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_chains_split_as_the_ranges_say() {
        for slots in 2..=40_usize {
            for steps in slots + 2..=(slots + 1) * (slots + 2) / 2 {
                let mut level = Level::new(slots);
                let left_most = level.fit(steps as u128);
                assert_eq!(level.r, 2);
                let (right, inner) = (beta(slots - 1, 1), beta(slots - 2, 1));
                let outer = if slots < 3 { 0 } else { beta(slots - 3, 2) };
                let n = steps as u128;
                let expected = match n {
                    n if n <= left_most + inner => beta(slots, 0),
                    n if n >= level.size - outer => left_most,
                    n => n - right - inner,
                };
                assert_eq!(short_split(steps, slots), Some(expected as usize), "({steps}, {slots})");
            }
        }
    }
}
