//! Things that take turns on a noisy machine, compared round by round.

use std::time::Instant;

use crate::Result;

/// Rounds at least, and at most.
const ROUNDS: std::ops::Range<usize> = 5..100;
/// Seconds after which no further round begins.
const SECONDS: f64 = 3.0;
/// Rounds end before, once the ratio of each to the first is known this well.
const KNOWN: f64 = 0.003;
/// Rounds of a race at most.
const RACE: usize = 200;
/// Rounds whose halves tell something each.
const MANY: usize = 20;
/// Standard errors by which what drops out of a race is slower than the fastest.
const CLEARLY: f64 = 3.0;

/// Takes samples of every `thing`, in turn, until the ratios of their `seconds` are known.
pub(super) fn in_turn<T: Copy, S>(
    things: &[T],
    mut sample: impl FnMut(T) -> Result<S>,
    seconds: impl Fn(&S) -> f64,
) -> Result<Vec<Vec<S>>> {
    // A first round, which makes threads and memory, is not looked at.
    for &thing in things {
        sample(thing)?;
    }
    let mut samples: Vec<Vec<S>> = things.iter().map(|_| Vec::new()).collect();
    let all: Vec<usize> = (0..things.len()).collect();
    let begin = Instant::now();
    for round in 0..ROUNDS.end {
        for index in order(round, &all) {
            samples[index].push(sample(things[index])?);
        }
        let times = |samples: &Vec<S>| samples.iter().map(&seconds).collect::<Vec<_>>();
        let known = || {
            let first = samples.first().map(times).unwrap_or_default();
            samples
                .iter()
                .map(times)
                .all(|other| error(&ratios(&other, &first)) < KNOWN && error(&first) < KNOWN)
        };
        if round + 1 >= ROUNDS.start && (begin.elapsed().as_secs_f64() > SECONDS || known()) {
            break;
        }
    }
    Ok(samples)
}

/// The turns of a round. Each comes after each other one at times, both ways round: what ran before leaves its caches and its
/// memory.
fn order(round: usize, running: &[usize]) -> Vec<usize> {
    let mut turns = running.to_vec();
    turns.rotate_left(round / 2 % running.len().max(1));
    if round % 2 == 1 {
        turns.reverse();
    }
    turns
}

/// Seconds of the rounds in which each of `things` took part, from the first on, and the one that won. What clearly takes
/// longer drops out, so that the time goes to what is hard to tell apart; until one is left, or so many `seconds` have passed.
/// A second of a thing counts as much as its `handicap`.
pub(super) fn race<T: Copy>(
    things: &[T],
    mut sample: impl FnMut(T) -> Result<f64>,
    handicap: impl Fn(T) -> f64,
    seconds: f64,
) -> Result<(Vec<Vec<f64>>, usize)> {
    for &thing in things {
        sample(thing)?;
    }
    let mut times = vec![Vec::new(); things.len()];
    let mut running: Vec<usize> = (0..things.len()).collect();
    let mut fastest = 0;
    let begin = Instant::now();
    for round in 0..RACE {
        for index in order(round, &running) {
            times[index].push(sample(things[index])?);
        }
        if round + 1 < ROUNDS.start {
            continue;
        }
        let first = running[0];
        let to_first = |&index: &usize| ratio(&times[index], &times[first]) * handicap(things[index]);
        fastest = running.iter().copied().min_by(|a, b| to_first(a).total_cmp(&to_first(b))).unwrap_or(0);
        running.retain(|&index| {
            let ratios = ratios(&times[index], &times[fastest]);
            let error = error(&ratios);
            median(ratios) * handicap(things[index]) / handicap(things[fastest]) <= 1.0 + CLEARLY * error
        });
        let passed = begin.elapsed().as_secs_f64();
        if passed > seconds || running.len() == 1 && passed > SECONDS {
            break;
        }
    }
    Ok((times, fastest))
}

fn ratios(times: &[f64], to: &[f64]) -> Vec<f64> {
    times.iter().zip(to).map(|(one, other)| one / other).collect()
}

/// How many times longer than `to` it took, by the median over the rounds.
pub(super) fn ratio(times: &[f64], to: &[f64]) -> f64 {
    median(ratios(times, to))
}

/// A [`ratio`] that is hardly larger in truth: a standard error above what the rounds show, and more for few of them, about
/// as Student's distribution has it. And, of [`MANY`] rounds, no less than either half shows: a machine is often noisy for seconds
/// on end, and the error of rounds that fall into them tells nothing of the others.
pub(super) fn ratio_at_most(times: &[f64], to: &[f64]) -> f64 {
    let ratios = ratios(times, to);
    let errors = 1.0 + 4.0 / ratios.len() as f64;
    let error = error(&ratios);
    let at_most = median(ratios.clone()) * (1.0 + errors * error);
    if ratios.len() < MANY {
        return at_most;
    }
    ratios.chunks(ratios.len().div_ceil(2)).map(|half| median(half.to_vec())).fold(at_most, f64::max)
}

/// About the relative standard error of the median, from the quartiles.
fn error(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::INFINITY,
        many => {
            let spread = sorted[many - 1 - many / 4] - sorted[many / 4];
            spread / median(sorted) / (many as f64).sqrt()
        }
    }
}

/// The middle value, or the one between the two middles; 0 for none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len() / 2, values.len() % 2) {
        (0, 0) => 0.0,
        (middle, 0) => f64::midpoint(values[middle - 1], values[middle]),
        (middle, _) => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds that jitter by up to 4 %, alike in all runs.
    fn jitter(call: &mut u64) -> f64 {
        *call += 1;
        let mixed = call.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
        0.96 + 0.08 * bits as f64 / (1_u64 << 24) as f64
    }

    #[test]
    fn what_is_clearly_slower_drops_out_of_a_race_and_the_fastest_wins() {
        let mut call = 0;
        let sample = |seconds: f64| Ok(seconds * jitter(&mut call));
        let (times, won) = race(&[1.3, 1.0, 1.01], sample, |_| 1.0, f64::INFINITY).expect("a race");
        assert_eq!(won, 1);
        assert!(times[0].len() < 20 && times[1].len() > 40, "{:?}", times.iter().map(Vec::len));
        assert!((ratio(&times[0], &times[1]) - 1.3).abs() < 0.05);
    }

    #[test]
    fn a_handicap_decides_between_equals_and_leaves_times_as_they_were() {
        let mut call = 0;
        let sample = |_: usize| Ok(jitter(&mut call));
        let handicap = |thing| if thing == 0 { 1.05 } else { 1.0 };
        let (times, won) = race(&[0, 1], sample, handicap, f64::INFINITY).expect("a race");
        assert_eq!(won, 1);
        assert!((ratio(&times[0], &times[1]) - 1.0).abs() < 0.03);
    }

    #[test]
    fn what_won_in_a_noisy_time_alone_is_doubted() {
        let mut call = 0;
        // In the first half it is lucky.
        let times: Vec<f64> =
            (0..40).map(|round| if round < 22 { 0.9 } else { 1.0 } * jitter(&mut call)).collect();
        let to: Vec<f64> = (0..40).map(|_| jitter(&mut call)).collect();
        assert!(ratio(&times, &to) < 0.96 && ratio_at_most(&times, &to) > 0.98);
    }

    #[test]
    fn each_runs_after_each_other_one() {
        let rounds = (0..6).map(|round| order(round, &[0, 1, 2]));
        let followed: std::collections::BTreeSet<[usize; 2]> =
            rounds.flat_map(|turns| [[turns[0], turns[1]], [turns[1], turns[2]]]).collect();
        assert_eq!(followed.len(), 6);
    }
}
