//! Measuring what every part costs, by a few steps.
//!
//! Three modes run in turn, each only if it fits the budget: the leanest, which shows forward, recovery and gradients of
//! every part; the same with overlap, which shows how much of a recovery that hides; and the one that keeps most, which
//! shows what keeping costs. Drift of the machine hits all alike, since they run in turn and are compared round by round.
//! What a plan might take then [races](super::race).

use std::time::Instant;

use crate::engine::{self, Sizes};
use crate::network::{Input, Network, Target};
use crate::strategy::Layout;
use crate::{Activity, Costs, Error, Meter, Mode, Pass, PlaceCosts, Result, Strategy, Trace, Tried};

use super::rounds::{in_turn, median, ratio};
use super::{modes, race};

/// What keeping can cost beside recovering, whatever noise the clock shows: the same products, less what gradients of a
/// recovered block compute again, and memory that is written and read once more. A block that is kept is then never slower
/// than one that is recovered.
const SAVING: (f64, f64) = (0.5, 1.25);

/// Measures the costs of `network`.
pub(crate) fn measure<const D: usize, N: Network<D>>(
    network: &N,
    input: &Input<D, N>,
    target: &Target<D, N>,
    pass: &Pass,
    budget: u64,
) -> Result<Costs> {
    let batch = engine::batch_of(network, input.clone(), pass)?;
    let sizes = Sizes::of(network, batch, pass)?;
    let trials = Trials::that_fit(&sizes, budget)?;
    let sample = |mode| Sample::take(network, input, target, pass, mode);
    let samples = in_turn(&trials.modes(), sample, |sample| sample.seconds)?;
    let mut costs = trials.costs(&sizes, &samples);
    race::settle(&mut costs, &sizes, batch, budget, |mode| Ok(sample(mode)?.seconds))?;
    Ok(costs)
}

/// The modes that are tried.
struct Trials {
    lean: Mode,
    beside: Option<Mode>,
    keeping: Option<Mode>,
}

impl Trials {
    fn that_fit(sizes: &Sizes, budget: u64) -> Result<Self> {
        let peak = |mode: Mode| sizes.predict(mode).activation_peak;
        let all = modes(sizes);
        let fitting: Vec<Mode> = all.iter().copied().filter(|&mode| peak(mode) <= budget).collect();
        // Of modes alike the one with transitions stored comes first. Where only the other leaves room for overlap, that is
        // taken, so that overlap is known.
        let mut bare = fitting.iter().copied().filter(|mode| mode.keeps_least_of(&all));
        let first = bare.clone().find(|mode| !mode.overlap).ok_or_else(|| Error::BudgetTooSmall {
            budget,
            least: all.iter().map(|&mode| peak(mode)).min().unwrap_or(0),
        })?;
        let beside = bare.find(|mode| mode.overlap && mode.inputs == first.inputs);
        let lean = beside.map_or(first, |mode| Mode { overlap: false, ..mode });
        let keeps = |mode: &&Mode| {
            mode.blocks_kept > lean.blocks_kept
                && !mode.overlap
                && mode.recompute_transitions == lean.recompute_transitions
        };
        let keeping = fitting.iter().find(keeps).copied();
        Ok(Self { lean, beside, keeping })
    }

    fn modes(&self) -> Vec<Mode> {
        [Some(self.lean), self.beside, self.keeping].into_iter().flatten().collect()
    }

    /// Costs from the samples of [`Self::modes`].
    fn costs(&self, sizes: &Sizes, samples: &[Vec<Sample>]) -> Costs {
        let mut rest = samples.iter();
        let lean = rest.next().map_or(&[][..], Vec::as_slice);
        let beside = self.beside.and_then(|_| rest.next());
        let keeping = self.keeping.and_then(|_| rest.next());

        let is_block = sizes.is_block();
        let leanest = Layout::of(self.lean, &is_block);
        let end = |place| {
            let grads = median_of(lean, Activity::Grads, place);
            let forward = median_of(lean, Activity::Forward, place);
            PlaceCosts { forward, saving: forward, recover: 0.0, grads }
        };
        let mut pieces: Vec<PlaceCosts> = (0..is_block.len())
            .map(|index| {
                let place = engine::FIRST_PIECE + index;
                let [forward, recover, grads] = [Activity::Forward, Activity::Recover, Activity::Grads]
                    .map(|activity| median_of(lean, activity, place));
                // What was kept was not run again; it would be as it was run before. Nor is a sub-block's recovery told apart that is
                // recovered and differentiated in one: it takes as long as its forward, and both were counted as gradients.
                let missing = (forward - recover).max(0.0);
                let grads = if leanest.keeps(index, is_block[index]) { grads } else { grads - missing };
                let recover = recover + missing;
                PlaceCosts { forward, saving: recover, recover, grads }
            })
            .collect();
        let mut costs = Costs {
            measured: true,
            stem: end(0),
            head: end(engine::FIRST_PIECE + is_block.len()),
            pieces: pieces.clone(),
            rest: 0.0,
            hidden: None,
            tried: self.tried(samples),
        };
        let recomputes = sizes.recompute_transitions;
        let totals = |samples: &[Sample]| median(samples.iter().map(|sample| sample.seconds).collect());
        costs.rest = totals(lean) - costs.step(self.lean, &is_block, recomputes);

        let round = |other: &[Sample]| {
            // What a step gains over the leanest, compared within rounds.
            median(lean.iter().zip(other).map(|(lean, other)| lean.seconds - other.seconds).collect())
        };
        // What modes keep more or less of: blocks, or transitions where there are no blocks.
        let plain = !is_block.contains(&true);
        let is_own = |index: usize| (plain || is_block[index]) && !leanest.keeps(index, is_block[index]);
        if let (Some(keeping), Some(mode)) = (keeping, self.keeping) {
            let layout = Layout::of(mode, &is_block);
            let kept = (0..is_block.len())
                .filter(|&index| is_own(index) && layout.keeps(index, is_block[index]))
                .map(|index| pieces[index]);
            let [forward, recover] = kept.fold([0.0, 0.0], |[forward, recover], piece| {
                [forward + piece.forward, recover + piece.recover]
            });
            let ratio = (forward + recover - round(keeping)) / recover;
            let ratio = if ratio.is_finite() { ratio.clamp(SAVING.0, SAVING.1) } else { 1.0 };
            for (_, piece) in pieces.iter_mut().enumerate().filter(|&(index, _)| is_own(index)) {
                piece.saving = ratio * piece.recover;
            }
            costs.pieces = pieces;
        }

        let recovered: f64 = (0..is_block.len())
            .filter(|&index| !leanest.keeps(index, is_block[index]))
            .map(|index| costs.pieces[index].recover)
            .sum();
        costs.hidden =
            beside.filter(|_| recovered > 0.0).map(|beside| (round(beside) / recovered).clamp(-1.0, 1.0));
        costs
    }

    /// What the modes took, compared with the first round by round.
    fn tried(&self, samples: &[Vec<Sample>]) -> Vec<Tried> {
        let seconds = |samples: &[Sample]| samples.iter().map(|sample| sample.seconds).collect::<Vec<_>>();
        let Some(lean) = samples.first().map(|lean| seconds(lean)) else { return Vec::new() };
        let modes = self.modes().into_iter().zip(samples);
        modes
            .map(|(mode, samples)| Tried {
                mode,
                seconds: median(lean.clone()) * ratio(&seconds(samples), &lean),
            })
            .collect()
    }
}

/// One step.
struct Sample {
    seconds: f64,
    trace: Trace,
}

impl Sample {
    fn take<const D: usize, N: Network<D>>(
        network: &N,
        input: &Input<D, N>,
        target: &Target<D, N>,
        pass: &Pass,
        mode: Mode,
    ) -> Result<Self> {
        let trace = Trace::new();
        let pass = pass.clone().meter(Meter::new()).trace(&trace);
        let begin = Instant::now();
        let step = network.step(input.clone(), target.clone(), pass, Strategy::Planned(mode))?;
        let seconds = begin.elapsed().as_secs_f64();
        drop(step);
        Ok(Self { seconds, trace })
    }
}

/// The median over the samples of the seconds that `activity` took in `place`, each time.
fn median_of(samples: &[Sample], activity: Activity, place: usize) -> f64 {
    let seconds = samples.iter().map(|sample| {
        let spans = sample.trace.spans().into_iter();
        let spans = spans.filter(|span| span.activity == activity && span.place == place);
        let (sum, times) = spans.fold((0.0, 0), |(sum, times), span| (sum + span.seconds, times + 1));
        // A forward may run several times; a recovery and gradients run once, in as many parts as they have.
        if activity == Activity::Forward { sum / f64::from(times.max(1)) } else { sum }
    });
    median(seconds.collect())
}
