//! Orderly schedules and their bound.

use std::collections::HashMap;

use reprop_schedule::{Action, Async, Channels, Costs, DiskRevolve, Simulator, orderly_bound, simulate};

/// Whether a plan is orderly: its writes are over before its first reverse step, and what is read first is used up first.
fn is_orderly(plan: impl Iterator<Item = Action>, costs: &Costs) -> bool {
    let mut simulator = Simulator::new(costs, Channels::Shared);
    // The read, or the state held at the first reverse step, that each slot's state and the working state come from, and
    // the last step that each of them has served.
    let (mut slots, mut working) = (HashMap::new(), 0);
    let mut last: Vec<Option<usize>> = vec![None];
    let (mut held, mut written) = (None, 0.0_f64);
    for action in plan {
        let event = simulator.apply(&action);
        match action {
            Action::Save { slot, .. } if slot.tier == 0 => drop(slots.insert(slot, working)),
            Action::Load { slot, .. } if slot.tier == 0 => working = slots[&slot],
            Action::Load { .. } => {
                working = last.len();
                last.push(None);
            }
            Action::Copy { to, .. } if to.tier == 0 => {
                slots.insert(to, last.len());
                last.push(None);
            }
            Action::Copy { .. } | Action::Save { .. } => written = event.end,
            Action::Reverse { step } => {
                if held.is_none() {
                    if written > event.start {
                        return false;
                    }
                    for origin in slots.values_mut() {
                        *origin = last.len();
                        last.push(None);
                    }
                    held = Some((last.len(), event.start));
                }
                last[working] = Some(step);
            }
            _ => {}
        }
    }
    let Some((held, first)) = held else { return true };
    let (above, reads) = last.split_at(held);
    let lowest_held = above.iter().flatten().min();
    let served: Vec<&usize> = reads.iter().flatten().collect();
    written <= first
        && served.windows(2).all(|pair| pair[0] > pair[1])
        && served.first().is_none_or(|step| lowest_held.is_none_or(|held| held > *step))
}

#[test]
fn no_orderly_schedule_beats_the_bound() {
    let (mut orderly, mut near) = (0, 0);
    for (number, steps) in (2..90).step_by(3).enumerate() {
        for slots in 1..=5 {
            let prices = [(1.0, 1.0), (1.0, 2.0), (0.5, 0.75)][number % 3];
            let transfers = [(2.0, 2.0), (6.0, 6.0), (10.0, 4.0), (3.0, 12.0)][(number + slots) % 4];
            let costs = Costs::new(prices.0, prices.1).unwrap().disk(transfers.0, transfers.1).unwrap();
            let bound = orderly_bound(steps, slots, &costs, Channels::Shared).unwrap();
            let plan = Async::new(steps, slots, &costs, Channels::Shared).unwrap();
            let waiting = DiskRevolve::new(steps, slots, &costs).unwrap();
            assert!(is_orderly(waiting.clone(), &costs), "({steps}, {slots}) {costs:?}");
            let waiting = simulate(waiting, &costs, Channels::Shared).makespan;
            assert!(bound <= waiting + 1e-9, "({steps}, {slots}) {costs:?}: {waiting} under {bound}");
            if is_orderly(plan.clone(), &costs) {
                let makespan = simulate(plan, &costs, Channels::Shared).makespan;
                assert!(bound <= makespan + 1e-9, "({steps}, {slots}) {costs:?}: {makespan} under {bound}");
                orderly += 1;
                near += usize::from(makespan <= 1.1 * bound);
            }
        }
    }
    println!("{near} of {orderly} orderly plans are within 10 % of the bound");
    assert!(2 * near > orderly && orderly > 50);
}

/// These plans are orderly, so they are as near to the best orderly schedule as to its bound.
#[test]
fn plans_of_scarce_memory_are_orderly() {
    for (steps, slots, w) in [(1000, 1, 20.0), (1000, 2, 20.0), (1000, 3, 20.0)] {
        let costs = Costs::unit().disk(w, w).unwrap();
        let plan = Async::new(steps, slots, &costs, Channels::Shared).unwrap();
        assert!(is_orderly(plan, &costs), "({steps}, {slots}, {w})");
    }
}

/// With many slots, states that wait for their write after the way forward are worth their slots.
#[test]
fn plans_that_write_late_beat_every_orderly_schedule() {
    for (steps, slots, w) in [(909, 20, 40.0), (1000, 20, 100.0), (1000, 10, 100.0), (500, 10, 50.0)] {
        let costs = Costs::unit().disk(w, w).unwrap();
        let plan = Async::new(steps, slots, &costs, Channels::Shared).unwrap();
        assert!(!is_orderly(plan.clone(), &costs), "({steps}, {slots}, {w})");
        let makespan = simulate(plan, &costs, Channels::Shared).makespan;
        let bound = orderly_bound(steps, slots, &costs, Channels::Shared).unwrap();
        assert!(makespan < bound, "({steps}, {slots}, {w}): {makespan} {bound}");
    }
}

/// A state below another one is read first; a write ends after the first reverse step.
#[test]
fn what_is_not_orderly_is_told() {
    use reprop_schedule::Slot;
    let costs = Costs::unit().disk(1.0, 1.0).unwrap();
    let up = [
        Action::Save { step: 0, slot: Slot::disk(0) },
        Action::Forward { from: 0, to: 1 },
        Action::Save { step: 1, slot: Slot::disk(1) },
        Action::Forward { from: 1, to: 2 },
        Action::Reverse { step: 2 },
    ];
    let fetch =
        |step: usize| Action::Copy { step, from: Slot::disk(step), to: Slot::memory(step), keep: false };
    let down = |step: usize| {
        [Action::Load { step, slot: Slot::memory(step), keep: false }, Action::Reverse { step }]
    };
    for (fetched, expected) in [([1, 0], true), ([0, 1], false)] {
        let plan = up.into_iter().chain(fetched.map(fetch)).chain(down(1)).chain(down(0));
        assert_eq!(is_orderly(plan, &costs), expected);
    }
    let mut late = up.to_vec();
    late[2] = Action::Save { step: 1, slot: Slot::memory(0) };
    late.insert(3, Action::Copy { step: 1, from: Slot::memory(0), to: Slot::disk(1), keep: false });
    let slow = Costs::unit().disk(1.5, 1.0).unwrap();
    let plan = || late.iter().copied().chain([fetch(1)]).chain(down(1));
    assert!(!is_orderly(plan(), &slow));
    assert!(is_orderly(plan(), &costs));
}
