//! Intervals that make room for the next fetch when it pays.

use crate::least::{Backwards, least_sum};
use crate::{Action, Costs, Revolve, Slot, advances};

/// How deep inside an interval a window may open: deeper ones leave the work above them hardly any slots. With half of it,
/// plans for ten slots take up to 0.6 % longer.
const DEEPEST: usize = 12;

/// How a stretch is reversed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// With all its slots; the window opens when it is done.
    Before,
    /// With one slot less: the window is open all the time.
    Within,
    /// The part from here on first, with all slots, then the part below.
    Below(usize),
    /// The window opens in the part from here on, and the part below is reversed within it.
    Above(usize),
}

/// How intervals are reversed from their first state, when the read of the next interval's needs a slot for a
/// while before its end: its *window*, in which the work has one slot less.
///
/// Let `N(l, m, y)` be the least time of `l` steps with `m` slots when work for `y` follows within the window, the
/// wait for the read included, and `T` Revolve's time. With `h(y) = max(r - y, 0)` the wait, `N(l, m, y)` is
/// the least of `T(l, m) + h(y)`; `t + h(y + t)` with `t = T(l, m - 1)`; `j f + T(l - j, m - 1) + N(j, m, y)`; and
/// `j f + N(l - j, m - 1, y + t) + t` with `t = T(j, m - 1)`. An interval may be reversed in parts, each from the first
/// state read anew: `Q(l) = min(N(l, s, 0), min_j min(j f + N(l - j, s, 0), t + h(t)) + Q(j))` with
/// `t = j f + T(l - j, s - 1)`.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    slots: usize,
    /// `choices[depth][y][l]`, with `slots - depth` slots.
    choices: Vec<Vec<Vec<Choice>>>,
    /// `T(l, slots - depth)`.
    times: Vec<Vec<f64>>,
    /// The time of a read, and the parts that it has.
    read: f64,
    parts: usize,
    /// Where an interval is cut, 0 for nowhere, and whether what lies above is reversed within the window.
    cuts: Vec<(usize, bool)>,
    /// `Q`.
    intervals: Vec<f64>,
    /// `N(l, s, 0)` without its first way up.
    tails: Vec<f64>,
    /// The computation alone of what [`reverse`](Self::reverse) plans, by length.
    stretch_work: Vec<f64>,
    /// The same of what [`interval`](Self::interval) plans.
    interval_work: Vec<f64>,
}

/// The work that follows within the window is rounded down to parts of a read, at least so many.
pub(super) const READ_PARTS: usize = 48;

/// So many parts that a forward step fills some of them exactly, unless that would be too many.
pub(super) fn whole_parts(costs: &Costs) -> usize {
    let steps = (costs.tier(1).read / costs.forward.max(f64::MIN_POSITIVE)).round();
    if (1.0..=(3 * READ_PARTS) as f64).contains(&steps) {
        steps as usize * READ_PARTS.div_ceil(steps as usize)
    } else {
        READ_PARTS
    }
}

impl Windows {
    /// For intervals up to `longest` steps and reads of tier 1, rounded to so many parts of a read.
    pub(super) fn new(longest: usize, slots: usize, costs: &Costs, parts: usize) -> Self {
        let (f, b, read) = (costs.forward, costs.backward, costs.tier(1).read);
        let time = |slots: usize| -> Vec<f64> {
            let one =
                |l: usize| if slots == 0 && l > 1 { f64::INFINITY } else { f * advances(l, slots) as f64 };
            (0..=longest).map(|l| one(l) + b * l as f64).collect()
        };
        let depths = DEEPEST.min(slots);
        let times = (0..=depths).map(|depth| time(slots - depth)).collect();
        let (cuts, tails) = (vec![(0, false); longest + 1], vec![]);
        let (choices, intervals, stretch_work, interval_work) = (vec![], vec![], vec![], vec![]);
        let mut windows =
            Self { slots, choices, times, read, parts, cuts, intervals, tails, stretch_work, interval_work };
        let mut values: Vec<Vec<f64>> = vec![];
        for depth in (0..depths).rev() {
            let (rows, choices): (Vec<_>, Vec<_>) =
                (0..=parts).map(|y| windows.row(depth, y, &values, f)).unzip();
            values = rows;
            windows.choices.insert(0, choices);
        }
        let whole = values.swap_remove(0);
        windows.tails = (0..=longest).map(|l| whole[l] - l.saturating_sub(1) as f64 * f).collect();
        windows.cut(whole, f);
        let work = |plan: &dyn Fn(&mut Work)| {
            let mut work = Work { windows: &windows, forward: f, backward: b, time: 0.0 };
            plan(&mut work);
            work.time
        };
        let stretch_work = (0..=longest).map(|l| work(&|plan| windows.reverse(0, l, plan))).collect();
        let interval_work = (0..=longest).map(|l| work(&|plan| windows.interval(0, l, 0, plan))).collect();
        (windows.stretch_work, windows.interval_work) = (stretch_work, interval_work);
        windows
    }

    /// The part of a read that work for `time` fills.
    fn filled(&self, time: f64) -> usize {
        if self.read > time { (time * self.parts as f64 / self.read) as usize } else { self.parts }
    }

    /// The wait that is left.
    fn wait(&self, filled: usize, time: f64) -> f64 {
        (self.read * (self.parts - filled) as f64 / self.parts as f64 - time).max(0.0)
    }

    /// `N(., slots - depth, y)` and how to reach it, where `above` has `N(., slots - depth - 1, .)`.
    fn row(&self, depth: usize, y: usize, above: &[Vec<f64>], f: f64) -> (Vec<f64>, Vec<Choice>) {
        let (own, fewer) = (&self.times[depth], &self.times[depth + 1]);
        let longest = own.len() - 1;
        let behind = Backwards::of(fewer);
        let done = self.read * y as f64 / self.parts as f64;
        let (mut value, mut ahead) = (vec![0.0; longest + 1], vec![0.0; longest + 1]);
        let mut choices = vec![Choice::Before; longest + 1];
        // Lower parts that do not fill the window leave some of it to the upper part.
        let short = (1..=longest).take_while(|&j| !above.is_empty() && done + fewer[j] < self.read).last();
        let within: Vec<_> = (0..=short.unwrap_or(0)).map(|j| self.filled(done + fewer[j])).collect();
        for l in 1..=longest {
            let mut best = (own[l] + self.wait(y, 0.0), Choice::Before);
            let mut offer = |cost: f64, choice: Choice| {
                if cost < best.0 {
                    best = (cost, choice);
                }
            };
            offer(fewer[l] + self.wait(y, fewer[l]), Choice::Within);
            if let Some((sum, index)) = least_sum(&ahead[1..l], behind.below(l)) {
                offer(sum, Choice::Below(index + 1));
            }
            for j in 1..within.len().min(l) {
                offer(j as f64 * f + above[within[j]][l - j] + fewer[j], Choice::Above(j));
            }
            (value[l], choices[l]) = best;
            ahead[l] = value[l] + l as f64 * f;
        }
        (value, choices)
    }

    /// `Q`.
    fn cut(&mut self, whole: Vec<f64>, f: f64) {
        let longest = whole.len() - 1;
        let fewer = &self.times[1];
        let behind = Backwards::of(&whole);
        let mut intervals = whole;
        let mut ahead = vec![0.0; longest + 1];
        for l in 1..=longest {
            if let Some((sum, index)) = least_sum(&ahead[1..l], behind.below(l))
                && sum < intervals[l]
            {
                (intervals[l], self.cuts[l]) = (sum, (index + 1, false));
            }
            for j in 1..l {
                let time = (j as f64 * f + fewer[l - j]).max(self.read) + intervals[j];
                if time < intervals[l] {
                    (intervals[l], self.cuts[l]) = (time, (j, true));
                }
            }
            ahead[l] = intervals[l] + l as f64 * f;
        }
        self.intervals = intervals;
    }

    /// `Q(l)` for every length planned for.
    pub(super) fn intervals(&self) -> &[f64] {
        &self.intervals
    }

    /// What the lowest interval costs for every length planned for: no read follows, so it has all slots.
    pub(super) fn lowest(&self) -> Vec<f64> {
        self.times[0].iter().zip(&self.intervals).map(|(time, parts)| time.min(*parts)).collect()
    }

    /// What the last interval costs after the way forward, for every length planned for.
    pub(super) fn tails(&self) -> &[f64] {
        &self.tails
    }

    /// The computation alone of reversing so many steps where they stand; not known for longer ones.
    pub(super) fn stretch_work(&self, length: usize) -> Option<f64> {
        self.stretch_work.get(length).copied()
    }

    /// The computation alone of reversing an interval of so many steps, ways from its first state included.
    pub(super) fn interval_work(&self, length: usize) -> Option<f64> {
        self.interval_work.get(length).copied()
    }

    /// Reverses `start .. end` from the working state `x_start`.
    pub(super) fn reverse(&self, start: usize, end: usize, plan: &mut impl Plan) {
        self.stretch(start, end, (0, 0), plan);
    }

    fn choice(&self, length: usize, (depth, filled): (usize, usize)) -> Choice {
        let rows = self.choices.get(depth).map(|rows| &rows[filled]);
        rows.and_then(|row| row.get(length)).copied().unwrap_or(Choice::Before)
    }

    /// `depth` slots are taken, and what follows fills some of the window.
    fn stretch(&self, start: usize, end: usize, (depth, filled): (usize, usize), plan: &mut impl Plan) {
        let slots = self.slots - depth;
        let slot = Slot::memory(slots - 1);
        let mut end = end;
        let mut saved = false;
        loop {
            let (middle, above) = match self.choice(end - start, (depth, filled)) {
                Choice::Before => {
                    plan.many(Revolve::over(start, end, slots));
                    return plan.open(slot);
                }
                Choice::Within => {
                    plan.open(slot);
                    return plan.many(Revolve::over(start, end, slots - 1));
                }
                Choice::Below(j) => (start + j, false),
                Choice::Above(j) => (start + j, true),
            };
            if !saved {
                plan.one(Action::Save { step: start, slot });
            }
            plan.one(Action::Forward { from: start, to: middle });
            if above {
                let done = self.read * filled as f64 / self.parts as f64;
                let filled = self.filled(done + self.times[depth + 1][middle - start]);
                self.stretch(middle, end, (depth + 1, filled), plan);
                plan.one(Action::Load { step: start, slot, keep: false });
                return plan.many(Revolve::over(start, middle, slots - 1));
            }
            plan.many(Revolve::over(middle, end, slots - 1));
            saved =
                matches!(self.choice(middle - start, (depth, filled)), Choice::Below(_) | Choice::Above(_));
            plan.one(Action::Load { step: start, slot, keep: saved });
            end = middle;
        }
    }

    /// Where the part of an interval that is reversed first starts, `length` steps of it being left.
    pub(super) fn part(&self, length: usize) -> usize {
        self.cuts.get(length).map_or(0, |&(cut, _)| cut)
    }

    /// Reverses the upper part of `start .. end` from the working state `x_start`.
    pub(super) fn upper(&self, start: usize, end: usize, plan: &mut impl Plan) {
        let (cut, within) = self.cuts.get(end - start).copied().unwrap_or_default();
        let middle = start + cut;
        if within {
            plan.open(Slot::memory(self.slots - 1));
        }
        if cut > 0 {
            plan.one(Action::Forward { from: start, to: middle });
        }
        if within {
            plan.many(Revolve::over(middle, end, self.slots - 1));
        } else {
            self.reverse(middle, end, plan);
        }
    }

    /// Loads and reverses `start .. end`, whose first state is in the disk slot `index`.
    pub(super) fn interval(&self, start: usize, end: usize, index: usize, plan: &mut impl Plan) {
        let mut end = end;
        while end > start {
            let middle = start + self.part(end - start);
            plan.one(Action::Load { step: start, slot: Slot::disk(index), keep: middle > start });
            self.upper(start, end, plan);
            end = middle;
        }
    }
}

/// What takes the actions.
pub(super) trait Plan {
    /// Takes one action.
    fn one(&mut self, action: Action);
    /// Takes all of these.
    fn many(&mut self, revolve: Revolve);
    /// The window opens: from here on the slot is kept for the next fetch.
    fn open(&mut self, slot: Slot);
}

/// Whoever hides the transfers later finds the windows by the memory in use.
impl Plan for Vec<Action> {
    fn one(&mut self, action: Action) {
        self.push(action);
    }

    fn many(&mut self, revolve: Revolve) {
        self.extend(revolve);
    }

    fn open(&mut self, _: Slot) {}
}

/// Adds up the computation of a plan instead of making it.
struct Work<'a> {
    windows: &'a Windows,
    forward: f64,
    backward: f64,
    time: f64,
}

impl Plan for Work<'_> {
    fn one(&mut self, action: Action) {
        self.time += match action {
            Action::Forward { from, to } => (to - from) as f64 * self.forward,
            Action::Reverse { .. } => self.backward,
            _ => 0.0,
        };
    }

    fn many(&mut self, revolve: Revolve) {
        let (steps, slots) = revolve.size();
        let plenty = steps.saturating_sub(1) as f64 * self.forward + steps as f64 * self.backward;
        let times = self.windows.times.get(self.windows.slots - slots);
        self.time += if slots == steps { plenty } else { times.map_or(plenty, |row| row[steps]) };
    }

    fn open(&mut self, _: Slot) {}
}
