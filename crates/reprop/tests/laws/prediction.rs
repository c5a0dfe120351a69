//! What is predicted before a pass is what the meter counts in it.

use reprop::{
    Costs, Holder, Kernels, Meter, Mode, Network, Pass, Precision, Prediction, Strategy, gradient_digest,
};
use reprop_models::{RevVit, RevVitConfig};

use crate::KERNELS;
use crate::common::{labels, noise, strategies, trainable, training, with_threads};

fn network(depth: usize) -> RevVit {
    RevVitConfig { depth, ..RevVitConfig::digits() }
        .with_dropout(0.1)
        .with_drop_path(0.1)
        .init(3, &trainable())
}

fn peak(network: &RevVit, batch: usize, pass: Pass, strategy: Strategy) -> u64 {
    let data = (noise(4, [batch, 1, 8, 8]), labels(batch, 10));
    network.step(data.0, data.1, pass, strategy).expect("a step").memory.activation_peak
}

/// The law allows 5 %; the walk on bytes follows the engine step by step, so that it comes out equal.
#[test]
fn prediction_equals_the_meter_for_every_strategy() {
    for threads in [1, 2] {
        with_threads(threads, || {
            for depth in [1, 2, 3, 6, 13] {
                for precision in [Precision::F32, Precision::Bf16] {
                    let network = network(depth);
                    let pass = || training(1).precision(precision);
                    for strategy in strategies(&network, 5, &pass()).into_iter().chain([Strategy::Stored]) {
                        let predicted =
                            network.predicted(5, &pass(), strategy).expect("a plan").expect("a prediction");
                        let found = peak(&network, 5, pass(), strategy);
                        let ratio = predicted.activation_peak as f64 / found as f64;
                        assert!(
                            (ratio - 1.0).abs() < 0.05,
                            "depth {depth}, {strategy:?}, {precision:?}: {} predicted, {found} found",
                            predicted.activation_peak
                        );
                    }
                }
            }
        });
    }
}

#[test]
fn peak_does_not_grow_with_depth_unless_all_is_stored() {
    let peak = |depth, strategy| peak(&network(depth), 5, training(1), strategy) as f64;
    for strategy in [Strategy::Reprop, Strategy::PaReprop] {
        let growth = peak(48, strategy) / peak(6, strategy);
        assert!(growth <= 1.02, "{strategy}: {growth}");
    }
    let saving = peak(48, Strategy::Stored) / peak(48, Strategy::Reprop);
    assert!(saving >= 15.0, "stored takes {saving} times as much");
}

#[test]
fn overlap_costs_at_most_one_blocks_saved_tensors() {
    let network = network(6);
    let [reprop, pareprop] =
        [Strategy::Reprop, Strategy::PaReprop].map(|strategy| peak(&network, 5, training(1), strategy));
    let meter = Meter::new();
    let data = (noise(4, [5, 1, 8, 8]), labels(5, 10));
    let tape = network.record(data.0, data.1, training(1).meter(meter.clone()), Strategy::Stored);
    let block = meter.report().live(Holder::Blocks) / 6;
    drop(tape);
    assert!(pareprop <= reprop + block, "{pareprop} against {reprop} and {block}");
}

#[test]
fn auto_stays_in_its_budget_and_is_quicker_the_more_it_has() {
    let network = network(13);
    let pass = || training(1);
    let predicted =
        |strategy| network.predicted(5, &pass(), strategy).expect("a plan").expect("a prediction");
    let (least, most) = (predicted(Strategy::Reprop), predicted(Strategy::Stored));
    let costs = Costs::predicted(&network, 5, &pass()).expect("costs");
    let mut times = Vec::new();
    for part in 0..=6 {
        let budget = least.activation_peak + (most.activation_peak - least.activation_peak) * part / 6;
        let strategy = Strategy::Auto { budget };
        assert!(peak(&network, 5, pass(), strategy) <= budget, "part {part}");
        times.push(network.plan(5, &pass(), budget, &costs).expect("a plan").chosen().time);
    }
    // Not the number of blocks kept: where overlap hides much, it gains more than one block more.
    assert!(times.is_sorted_by(|before, after| before >= after), "{times:?}");
    let kept =
        |prediction: Prediction| predicted(Strategy::Auto { budget: prediction.activation_peak }).blocks_kept;
    assert_eq!((kept(least), kept(most)), (1, 13));
    assert_eq!((least.forward_evaluations, most.forward_evaluations), (25, 13));
}

/// With overlap it is gone before the peak is reached, which two blocks make. Without, all that is recovered needs less than
/// one whole block: each sub-block is gone before the next.
#[test]
fn the_last_block_is_kept_in_the_memory_of_a_block() {
    for depth in [2, 3, 13] {
        let network = network(depth);
        let predicted =
            |strategy| network.predicted(5, &training(1), strategy).expect("a plan").expect("a prediction");
        let found = |strategy| peak(&network, 5, training(1), strategy);
        let all = |overlap| Strategy::Planned(Mode { overlap, ..Mode::default() });
        for (strategy, overlap) in [(Strategy::Reprop, false), (Strategy::PaReprop, true)] {
            let kept = [strategy, all(overlap)].map(|strategy| predicted(strategy).blocks_kept);
            assert_eq!(kept, [1, 0], "{strategy}, depth {depth}");
        }
        assert!(found(Strategy::PaReprop) <= found(all(true)), "depth {depth}");
        let (least, usual) = (found(all(false)), found(Strategy::Reprop));
        assert!(least < usual, "depth {depth}: {least} bytes with nothing kept, {usual} with a block");
    }
}

/// Overlap would hide nothing there, and `PaReprop`'s memory holds another block instead. More threads than the blocks fill overlap again.
#[test]
fn pareprop_keeps_blocks_instead_of_overlapping_where_each_fills_the_threads() {
    let config = RevVitConfig { depth: 6, ..RevVitConfig::small() };
    let (network, batch) = (config.init(3, &trainable()), 2);
    let predicted = |threads, strategy| {
        let found = with_threads(threads, || network.predicted(batch, &training(1), strategy));
        found.expect("a plan").expect("a prediction")
    };
    let overlapping = |blocks_kept| Strategy::Planned(Mode { blocks_kept, overlap: true, ..Mode::default() });
    let (few, many) = (2, 256);
    assert_eq!(predicted(many, Strategy::PaReprop), predicted(many, overlapping(1)));
    let [reprop, pareprop] = [Strategy::Reprop, Strategy::PaReprop].map(|strategy| predicted(few, strategy));
    // Burn's operations fill no threads.
    let kept = if KERNELS == Kernels::Burn { 1 } else { 2 };
    assert_eq!((reprop.blocks_kept, pareprop.blocks_kept), (1, kept));
    assert!(pareprop.activation_peak <= predicted(few, overlapping(0)).activation_peak);
    let data = (noise(4, [batch, 3, 224, 224]), labels(batch, 1000));
    let found = with_threads(few, || {
        [Strategy::Stored, Strategy::PaReprop, overlapping(1)].map(|strategy| {
            let step = network.step(data.0.clone(), data.1.clone(), training(1), strategy).expect("a step");
            (gradient_digest(&network, &step.gradients), step.memory.activation_peak)
        })
    });
    assert_eq!(found[1].1, pareprop.activation_peak);
    assert!(found.iter().all(|(digest, _)| *digest == found[0].0), "gradients differ");
}

#[test]
fn nothing_is_held_when_a_step_is_over() {
    let network = network(3);
    for strategy in strategies(&network, 2, &training(1)) {
        let meter = Meter::new();
        let pass = training(1).meter(meter.clone());
        let step = network.step(noise(4, [2, 1, 8, 8]), labels(2, 10), pass, strategy).expect("a step");
        drop(step);
        let live: Vec<u64> = Holder::ALL.map(|holder| meter.report().live(holder)).to_vec();
        assert_eq!(live, [0; 7], "{strategy:?}");
    }
}
