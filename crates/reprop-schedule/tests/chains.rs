//! Chains of unequal steps under a byte budget, with and without a disk.

use proptest::prelude::*;
use reprop_schedule::{Budgeted, Chain, Channels, Error, Mixed, Offloaded, Step, Transfer, check, simulate};

const ROUNDING: f64 = 1e-9;

fn step(forward: f64, backward: f64, state_bytes: u64, tape_bytes: u64, transfer: f64) -> Step {
    Step {
        forward,
        backward,
        state_bytes,
        tape_bytes,
        transfer: Transfer { write: transfer, read: transfer },
    }
}

/// The least time by trying every choice, with exact bytes: no tables, no rounding.
fn exhaustive(steps: &[Step], free: u64) -> f64 {
    let (first, rest) = (steps[0], &steps[1..]);
    if rest.is_empty() {
        return if first.tape_bytes <= free { first.backward } else { f64::INFINITY };
    }
    let record = match free.checked_sub(first.tape_bytes) {
        Some(left) => first.backward + exhaustive(rest, left),
        None => f64::INFINITY,
    };
    let Some(left) = free.checked_sub(first.state_bytes) else { return record };
    (1..steps.len()).fold(record, |best, k| {
        let forward: f64 = steps[..k].iter().map(|step| step.forward).sum();
        best.min(forward + exhaustive(&steps[k..], left) + exhaustive(&steps[..k], free))
    })
}

#[test]
fn like_steps_of_one_byte_are_mixed_checkpointing() {
    for (n, slots) in [(1, 1), (5, 2), (10, 3), (30, 4), (20, 25)] {
        let chain = Chain::new(vec![step(1.0, 1.0, 1, 1, 0.0); n]).unwrap();
        // The step being reversed has its own byte here, where Mixed has it outside its slots.
        let plan = Budgeted::new(&chain, slots as u64 + 1).unwrap();
        let evaluations = Mixed::new(n, slots).unwrap().counts().forward_evaluations();
        assert!((plan.makespan() - evaluations as f64).abs() < ROUNDING, "{n} {slots}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn small_chains_are_as_fast_as_the_exhaustive_optimum(
        sizes in prop::collection::vec((1_u32..5, 1_u32..9, 1_u64..6, 1_u64..9), 1..7), spare in 0_u64..20,
    ) {
        let steps: Vec<Step> =
            sizes.iter().map(|&(f, b, a, t)| step(f64::from(f), f64::from(b), a, t, 2.0)).collect();
        let chain = Chain::new(steps.clone()).unwrap();
        let budget = chain.least_bytes() + spare;
        let plan = Budgeted::new(&chain, budget).unwrap();
        let best = exhaustive(&steps, budget);
        prop_assert!((plan.makespan() - best).abs() < ROUNDING, "{} against {best}", plan.makespan());
        let run = simulate(plan.clone(), &chain, Channels::Shared);
        check(steps.len(), &[usize::MAX], plan).unwrap();
        prop_assert!((run.makespan - best).abs() < ROUNDING);
        prop_assert!(run.peak_bytes.first().is_none_or(|&bytes| bytes <= budget));
    }

    #[test]
    fn offload_is_never_slower_and_keeps_the_laws_and_the_budget(
        sizes in prop::collection::vec((1_u32..5, 1_u32..9, 1_u64..60, 1_u64..90), 1..14),
        spare in 0_u64..150, cost in 0.0_f64..6.0,
    ) {
        let steps: Vec<Step> =
            sizes.iter().map(|&(f, b, a, t)| step(f64::from(f), f64::from(b), a, t, cost)).collect();
        let chain = Chain::new(steps.clone()).unwrap();
        let budget = (chain.least_bytes() + spare) * 11 / 10;
        for channels in [Channels::Shared, Channels::Separate] {
            let plan = Offloaded::new(&chain, budget, channels).unwrap();
            let run = simulate(plan.clone(), &chain, channels);
            prop_assert_eq!(plan.run(), &run);
            prop_assert!(run.makespan <= Budgeted::new(&chain, budget).unwrap().makespan() + ROUNDING);
            prop_assert!(run.peak_bytes.first().is_none_or(|&bytes| bytes <= budget));
            check(steps.len(), &[usize::MAX; 2], plan).unwrap();
        }
    }
}

#[test]
fn a_budget_too_small_is_refused_with_the_bytes_that_are_needed() {
    let chain = Chain::new(vec![step(1.0, 2.0, 10, 40, 1.0); 5]).unwrap();
    assert_eq!(Budgeted::new(&chain, 49).unwrap_err(), Error::Budget { budget: 49, needed: 50 });
    assert!(Budgeted::new(&chain, 50).is_ok());
    assert!(Budgeted::new(&chain, 0).is_err());
}

#[test]
fn a_network_of_a_hundred_layers_is_planned_within_its_budget() {
    let layers =
        (0..100).map(|i| step(1.0 + f64::from(i % 3), 4.0, 1 << 20, (4 + i % 5) as u64 * (1 << 20), 1.0));
    let chain = Chain::new(layers.collect()).unwrap();
    let budget = 100 << 20;
    let plan = Budgeted::new(&chain, budget).unwrap();
    let run = simulate(plan.clone(), &chain, Channels::Shared);
    assert!((run.makespan - plan.makespan()).abs() < 1e-6);
    assert!(run.peak_bytes[0] <= budget);
    let stored: f64 = chain.steps().iter().map(|step| step.backward).sum();
    assert!(run.makespan < 1.5 * stored, "{} against {stored}", run.makespan);
}
