//! The planner that looks at clocks, driven with clocks of the test's own and run for real.

use std::collections::BTreeMap;

use reprop::chain::{Async, Checkpointed, Measured, Move, Planner, View};
use reprop_schedule::{
    Action, Async as Planned, Channels, Costs, Interpreter, Revolve, Simulator, Transfer, advances, simulate,
};
use reprop_store::MemoryStore;

use crate::common::{Network, Timed, bits, run, stored, times};

/// Runs a plan on the interpreter's integers with the times that `clock(step)` tells, and gives the lengths of its
/// intervals and the advances.
fn drive(
    mut plan: Async,
    steps: usize,
    known: bool,
    clock: impl Fn(usize) -> Measured,
) -> (Vec<usize>, u128) {
    let slots_and_disk = [usize::MAX, usize::MAX];
    let mut interpreter = Interpreter::new(steps, &slots_and_disk);
    let mut at = 0;
    plan.begin();
    let (mut slots, mut borders) = (BTreeMap::new(), None);
    loop {
        let mut more = |step: usize| {
            assert!(!known, "a known length needs no questions");
            step < steps
        };
        let mut view = View { measured: clock(at), written: usize::MAX, failed: &[], more: &mut more };
        match plan.next(&mut view).unwrap() {
            None => break,
            Some(Move::Point { .. }) => {}
            Some(Move::Do(action)) => {
                if let Action::Forward { to, .. } = action {
                    at = to;
                }
                match action {
                    Action::Copy { step, to, .. } if to.tier > 0 => {
                        slots.insert(to.index, step);
                    }
                    Action::Free { slot, .. } if slot.tier > 0 => {
                        slots.remove(&slot.index);
                    }
                    // The way back begins with the first states of all intervals but the last in the store.
                    Action::Reverse { .. } if borders.is_none() => borders = Some(slots.clone()),
                    _ => {}
                }
                interpreter.apply(&action).unwrap();
            }
        }
    }
    let borders: Vec<usize> = borders.unwrap_or_default().into_values().collect();
    let lengths = borders.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (lengths, interpreter.finish().unwrap().advances)
}

/// The time that a plan takes when a forward step takes 1, with all times known beforehand, or the transfers' only when the
/// first write is done.
fn makespan(steps: usize, slots: usize, costs: &Costs, known: bool) -> f64 {
    let mut plan = Async::new(slots).steps(steps);
    let mut interpreter = Interpreter::new(steps, &[slots, usize::MAX]);
    let mut simulator = Simulator::new(costs, Channels::Shared);
    let mut sources = vec![];
    plan.begin();
    loop {
        // One write is tried after the other, so all but the last have ended.
        let under_way = sources.last().is_some_and(|&from| simulator.busy_until(from) > simulator.clock());
        let ended = sources.len() - usize::from(under_way);
        let written = known || ended > 0;
        let measured = Measured {
            forward: Some(costs.forward),
            backward: Some(costs.backward),
            write: written.then_some(costs.tier(1).write),
            read: written.then_some(costs.tier(1).read),
            save: Some(costs.tier(0).write),
            load: Some(costs.tier(0).read),
            ..Measured::default()
        };
        let mut view = View { measured, written: ended, failed: &[], more: &mut |_| unreachable!() };
        match plan.next(&mut view).unwrap() {
            None => break,
            Some(Move::Point { .. }) => {}
            Some(Move::Do(action)) => {
                if let Action::Copy { from, .. } = action {
                    sources.push(from);
                }
                interpreter.apply(&action).unwrap();
                simulator.apply(&action);
            }
        }
    }
    interpreter.finish().unwrap();
    simulator.finish().makespan
}

/// Whether or not the times are known beforehand; and with some slots it comes near the planner that knows everything.
#[test]
fn the_plan_is_never_slower_than_revolve() {
    const CHAINS: [(usize, usize); 16] = [
        (2, 1),
        (3, 2),
        (8, 3),
        (12, 2),
        (20, 5),
        (30, 3),
        (50, 5),
        (50, 10),
        (100, 3),
        (100, 10),
        (300, 2),
        (500, 10),
        (500, 50),
        (1000, 10),
        (1000, 30),
        (3000, 4),
    ];
    let transfers =
        [(0.3, 0.2), (2.0, 1.0), (5.0, 5.0), (12.0, 4.0), (20.0, 20.0), (60.0, 30.0), (400.0, 200.0)];
    for ((steps, slots), (write, read)) in CHAINS.into_iter().flat_map(|c| transfers.map(|t| (c, t))) {
        // A reverse step, and a copy in memory.
        for (backward, copy) in [(3.5, 0.0), (1.0, 0.0), (3.0, 0.5)] {
            let mut costs = Costs::new(1.0, backward).unwrap().disk(write, read).unwrap();
            costs.tiers[0] = Transfer { write: copy, read: copy };
            let what = format!("{steps} steps, {slots} slots, {costs:?}");
            let revolve = simulate(Revolve::new(steps, slots).unwrap(), &costs, Channels::Shared).makespan;
            let [known, unknown] = [true, false].map(|known| makespan(steps, slots, &costs, known));
            // Three writes are tried beside the first, and one whenever the chain has gone twice as far, each with a state of
            // its own.
            let tries = (3.0 + (steps as f64).log2()) * copy;
            assert!(
                known <= revolve && unknown <= revolve + tries,
                "{what}: {known}, {unknown} against {revolve}"
            );
            let planned = Planned::quick(steps, slots, &costs, Channels::Shared).unwrap();
            let planned = simulate(planned, &costs, Channels::Shared).makespan;
            // A plan has to gain a tenth before Revolve is left for it.
            assert!(slots < 5 || known <= 1.15 * planned, "{what}: {known} against {planned}");
        }
    }
}

/// A machine that is busy for a while makes intervals look hopeless. A long chain looks again, and leaves Revolve then.
#[test]
fn a_long_chain_tries_again_when_the_machine_was_slow_at_first() {
    let clock = |slow: usize| {
        move |at: usize| Measured {
            forward: Some(1.0),
            backward: Some(2.0),
            write: (at > 0).then_some(5.0),
            read: (at > 0).then_some(5.0),
            hand_over: Some(if at < slow { 1e6 } else { 0.0 }),
            ..Measured::default()
        }
    };
    let (steps, slots) = (20_000, 10);
    let run = |slow| drive(Async::new(slots).steps(steps), steps, true, clock(slow));
    let (lengths, late) = run(100);
    assert!(!lengths.is_empty() && 2 * late < advances(steps, slots), "{late} advances");
    let (lengths, never) = run(usize::MAX);
    assert!(lengths.is_empty() && never == advances(steps, slots), "{never} advances");
}

#[test]
fn the_plan_keeps_every_law_for_known_and_unknown_lengths() {
    for steps in [1, 2, 3, 7, 50, 333] {
        for slots in [1, 2, 3, 8] {
            for write in [0.1, 1.0, 7.0, 60.0, 1e6] {
                drive(Async::new(slots).steps(steps), steps, true, |_| times(1.0, write));
                drive(Async::new(slots), steps, false, |_| times(1.0, write));
            }
        }
    }
}

/// The store becomes ten times slower on the way: intervals become longer. It becomes quick again: they become short.
#[test]
fn a_slow_tier_changes_the_plan_and_a_quick_one_changes_it_back() {
    let clock = |at: usize| match at {
        1000..3000 => times(1.0, 50.0),
        _ => times(1.0, 5.0),
    };
    let (lengths, _) = drive(Async::new(10).steps(5000), 5000, true, clock);
    let usual = lengths[0];
    let longest = *lengths.iter().max().unwrap();
    assert!(usual <= 10 && longest >= 30, "{usual} and {longest}");
    assert_eq!(lengths.last(), Some(&usual), "{lengths:?}");
}

#[test]
fn a_short_chain_or_a_hopeless_store_gets_revolve() {
    let (lengths, found) = drive(Async::new(5).steps(200), 200, true, |_| times(1.0, 1e7));
    assert_eq!((lengths, found), (vec![], advances(200, 5)));
}

/// The extra work a step does not grow with the chain.
#[test]
fn the_overhead_is_constant() {
    let extra = |steps: usize| {
        drive(Async::new(8).steps(steps), steps, true, |_| times(1.0, 12.0)).1 as f64 / steps as f64
    };
    let (short, long) = (extra(1_000), extra(100_000));
    assert!(long < 1.02 * short, "{short} and {long}");
}

#[test]
fn the_first_interval_ends_when_the_first_write_does() {
    let clock = |at: usize| match at {
        0..17 => Measured { forward: Some(1.0), ..Measured::default() },
        _ => times(1.0, 17.0),
    };
    let (lengths, _) = drive(Async::new(3).steps(400), 400, true, clock);
    assert_eq!(lengths[0], 17);
}

#[test]
fn asynchronous_gradients_equal_stored_bit_for_bit() {
    for steps in [1, 2, 5, 40, 700] {
        let expected = stored(steps);
        for slots in [1, 2, 4] {
            let store = MemoryStore::unbounded();
            let mut plan = Async::new(slots).steps(steps);
            // The second pass begins with what the first has measured.
            for _ in 0..2 {
                let how = Checkpointed::planner(&mut plan).store(&store);
                let done = run(&mut Network::new(steps), how).unwrap();
                assert_eq!(bits(&done), expected, "{steps} steps with {slots} slots");
                assert!(done.report.peak_slots <= slots, "{:?}", done.report);
            }
            let done = run(&mut Network::new(steps), Checkpointed::planner(Async::new(slots)).store(&store));
            assert_eq!(bits(&done.unwrap()), expected, "{steps} steps, unknown, with {slots} slots");
        }
    }
}

/// A pool of a few snapshots: what finds no room is computed again, and the gradient is the same.
#[test]
fn a_full_store_degrades_to_recomputing() {
    let steps = 300;
    let expected = stored(steps);
    for room in [0, 1, 30, 100, 400] {
        for slots in [1, 2, 5] {
            for plan in [Async::new(slots).steps(steps), Async::new(slots)] {
                let store = MemoryStore::new(room);
                // A quick store, so that it is written to often.
                let plan = Timed { plan, measured: times(1.0, 3.0) };
                let done = run(&mut Network::new(steps), Checkpointed::planner(plan).store(&store)).unwrap();
                assert_eq!(bits(&done), expected, "{room} bytes and {slots} slots");
                assert!(done.report.without_room > 0, "{room} bytes and {slots} slots: {:?}", done.report);
                assert!(done.report.peak_slots <= slots);
            }
        }
    }
}
