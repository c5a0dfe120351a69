//! Things that take turns on a noisy machine, compared round by round.

use std::time::Instant;

use crate::Result;

/// Rounds at least, and at most.
const ROUNDS: std::ops::Range<usize> = 5..100;
/// Seconds after which no further round begins.
const SECONDS: f64 = 3.0;
/// Rounds end before, once the ratio of each to the first is known this well.
const KNOWN: f64 = 0.003;

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
    let begin = Instant::now();
    for round in 0..ROUNDS.end {
        // Each comes after each other one in turn.
        for turn in 0..things.len() {
            let index = (round + turn) % things.len();
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

fn ratios(times: &[f64], to: &[f64]) -> Vec<f64> {
    times.iter().zip(to).map(|(one, other)| one / other).collect()
}

/// How many times longer than `to` it took, by the median over the rounds.
pub(super) fn ratio(times: &[f64], to: &[f64]) -> f64 {
    median(ratios(times, to))
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
