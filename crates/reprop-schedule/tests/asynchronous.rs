//! The asynchronous planner against the exact optimum, against every other strategy and against its bound.

mod exhaustive;

use exhaustive::{Case, optimum};
use reprop_schedule::{
    Async, Channels, Costs, DiskRevolve, HRevolve, Periodic, Tier, advances, check, lower_bound,
    orderly_bound, simulate,
};

fn costs(w: f64) -> Costs {
    Costs::unit().disk(w, w).unwrap()
}

#[test]
fn the_oracle_reproduces_the_exact_optima() {
    for (steps, slots, w, best) in
        [(8, 2, 2, 17), (8, 3, 2, 16), (10, 2, 2, 22), (10, 2, 4, 25), (10, 3, 3, 23)]
    {
        assert_eq!(optimum(&Case::unit(steps, slots, w), 40), best);
    }
}

#[test]
fn small_plans_are_optimal_and_never_above_any_other() {
    for steps in 1..=10_u8 {
        for slots in 1..=3_u32 {
            for w in 0..=6_u8 {
                let (n, s) = (usize::from(steps), slots as usize);
                let costs = costs(f64::from(w));
                let plan = Async::new(n, s, &costs, Channels::Shared).unwrap();
                let makespan = simulate(plan.clone(), &costs, Channels::Shared).makespan;
                check(n, &[s, usize::MAX], plan).unwrap();
                let best = optimum(&Case::unit(steps, slots, w), makespan as usize) as f64;
                let bound = lower_bound(n, s, &costs, Channels::Shared).unwrap();
                assert!(bound <= best + 1e-9, "bound {bound} above {best}: ({n}, {s}, {w})");
                // Here even the best of all schedules does not beat the bound for orderly ones.
                let orderly = orderly_bound(n, s, &costs, Channels::Shared).unwrap();
                assert!(orderly <= best + 1e-9, "orderly {orderly} above {best}: ({n}, {s}, {w})");
                assert!(makespan <= best_of_the_others(n, s, &costs), "({n}, {s}, {w})");
                assert!(makespan <= best, "({n}, {s}, {w}): {makespan} {best}");
            }
        }
    }
}

/// Revolve, Disk-Revolve, periodic and H-Revolve with an ample disk, and the published fixed interval.
fn best_of_the_others(steps: usize, slots: usize, costs: &Costs) -> f64 {
    let disk = costs.tier(1);
    let tiers = [Tier::new(slots, 0.0, 0.0), Tier::new(steps, disk.write, disk.read)];
    [
        costs.forward * advances(steps, slots) as f64 + costs.backward * steps as f64,
        DiskRevolve::new(steps, slots, costs).unwrap().makespan(),
        Periodic::new(steps, slots, costs).unwrap().makespan(),
        HRevolve::new(steps, &tiers, costs).unwrap().makespan(),
    ]
    .into_iter()
    .fold(published(steps, slots, costs), f64::min)
}

/// The published plan as it is modelled: `n - 1` forward steps, then every interval of `ceil(W)` from its
/// start, with nothing to wait for but fetches longer than an interval's reversal. Its fetch has a slot of its own outside
/// the `s`; giving it one of the `s` leaves Revolve one less.
fn published(steps: usize, slots: usize, costs: &Costs) -> f64 {
    let (f, b, disk) = (costs.forward, costs.backward, costs.tier(1));
    let Some(own) = slots.checked_sub(1).filter(|&own| own > 0) else { return f64::INFINITY };
    if f == 0.0 {
        return f64::INFINITY;
    }
    let interval = ((disk.write / f).ceil() as usize).max(1);
    let reverse = |n: usize| f * advances(n, own) as f64 + b * n as f64;
    let (rounds, tail) = (steps / interval, steps % interval);
    // While the lowest interval is reversed nothing is fetched.
    let fetched = rounds.saturating_sub(1) as f64 * reverse(interval).max(disk.read);
    f * (steps - 1) as f64 + reverse(tail) + fetched + reverse(interval.min(steps) * rounds.min(1))
}

/// Never above any other strategy, whatever the prices and channels: zero, fractional, `R` apart from `W`.
#[test]
fn no_plan_is_above_any_other_strategy() {
    let prices = [(1.0, 1.0), (1.0, 2.0), (0.5, 0.75)];
    let transfers = [0.0, 0.5, 1.0, 2.5, 4.0, 6.0];
    let small = (1..=10).flat_map(|n| (1..=3).map(move |s| (n, s)));
    for (n, s) in small {
        for (case, (write, read)) in transfers.iter().flat_map(|&w| transfers.map(|r| (w, r))).enumerate() {
            // Every pair of transfers, with one of the prices in turn.
            let (forward, backward) = prices[(case + n) % prices.len()];
            not_above(n, s, &Costs::new(forward, backward).unwrap().disk(write, read).unwrap());
        }
    }
    for (n, s, write, read) in [
        (300, 4, 12.5, 3.0),
        (250, 3, 2.0, 9.75),
        (400, 10, 0.0, 0.0),
        (400, 8, 0.0, 7.0),
        (150, 2, 100.0, 1.5),
    ] {
        not_above(n, s, &Costs::new(1.0, 1.5).unwrap().disk(write, read).unwrap());
    }
}

fn not_above(n: usize, s: usize, costs: &Costs) {
    let others = best_of_the_others(n, s, costs);
    for channels in [Channels::Shared, Channels::Separate] {
        let plan = Async::new(n, s, costs, channels).unwrap();
        let makespan = simulate(plan.clone(), costs, channels).makespan;
        check(n, &[s, usize::MAX], plan).unwrap();
        let bound = lower_bound(n, s, costs, channels).unwrap();
        assert!(bound <= makespan + 1e-9, "({n}, {s}) {costs:?} {channels:?}: {makespan} under {bound}");
        assert!(makespan <= others + 1e-9, "({n}, {s}) {costs:?} {channels:?}: {makespan} above {others}");
    }
}

/// Plans `(steps, slots, W)`, checks the plan and gives its time and the bound.
fn planned(n: usize, s: usize, w: f64) -> (f64, f64) {
    let costs = costs(w);
    let plan = Async::new(n, s, &costs, Channels::Shared).unwrap();
    let run = simulate(plan.clone(), &costs, Channels::Shared);
    check(n, &[s, usize::MAX], plan).unwrap();
    let bound = lower_bound(n, s, &costs, Channels::Shared).unwrap();
    println!("({n}, {s}, {w}): {} against at least {bound:.1}", run.makespan);
    assert!(bound <= run.makespan);
    // Disk-Revolve beats H-Revolve and periodic Disk-Revolve, as the small cases and the family's tests show.
    let revolve = (advances(n, s) + n as u128) as f64;
    let disk = DiskRevolve::new(n, s, &costs).unwrap().makespan();
    assert!(run.makespan <= revolve.min(disk).min(published(n, s, &costs)));
    (run.makespan, bound)
}

#[test]
fn other_long_plans_are_near_the_lower_bound() {
    // (steps, slots, W), the excess over the bound that is reached, rounded up.
    for (n, s, w, excess) in
        [(100, 5, 5.0, 0.01), (4000, 10, 50.0, 0.013), (5000, 20, 100.0, 0.024), (5000, 1, 50.0, 0.018)]
    {
        let (makespan, bound) = planned(n, s, w);
        assert!(makespan <= (1.0 + excess) * bound, "({n}, {s}, {w}): {makespan} {bound}");
    }
}

/// Up to the longest chain that is searched nothing is left out: a step costs no more there than in a shorter one.
#[test]
fn the_longest_searched_plans_are_as_good_as_shorter_ones() {
    for (slots, w) in [(2, 10.0), (2, 20.0), (4, 20.0), (8, 10.0)] {
        let costs = costs(w);
        let per_step = |n: usize| {
            let plan = Async::new(n, slots, &costs, Channels::Shared).unwrap();
            let makespan = plan.run().unwrap().makespan;
            check(n, &[slots, usize::MAX], plan).unwrap();
            makespan / n as f64
        };
        let (short, long) = (per_step(2000), per_step(3000));
        assert!(long < 1.005 * short, "({slots}, {w}): {long} against {short}");
    }
}

/// The table of long plans in the documentation: all within 3 % of the bound for all schedules or of the one for orderly
/// schedules.
#[test]
fn the_table_of_long_plans_holds() {
    let text = include_str!("../src/asynchronous/mod.rs");
    let numbers = |line: &str| -> Option<Vec<f64>> {
        let cells = line.strip_prefix("/// | ")?.replace(" %", "").replace(" |", ",");
        cells.trim_end_matches(',').split(',').map(|cell| cell.trim().parse().ok()).collect()
    };
    let rows: Vec<Vec<f64>> = text.lines().filter_map(numbers).filter(|row| row.len() == 8).collect();
    assert_eq!(rows.len(), 16);
    for row in rows {
        let [n, s, w, plan, bound, above, orderly, above_orderly] = row[..] else { unreachable!() };
        let (n, s) = (n as usize, s as usize);
        let (makespan, found) = planned(n, s, w);
        // Whole numbers.
        assert_eq!(makespan as u64, plan as u64, "({n}, {s}, {w})");
        let found_orderly = orderly_bound(n, s, &costs(w), Channels::Shared).unwrap();
        for (found, written, written_above) in
            [(found, bound, above), (found_orderly, orderly, above_orderly)]
        {
            let excess = 100.0 * (makespan / found - 1.0);
            assert!((found - written).abs() < 0.051, "({n}, {s}, {w}): {found} {written}");
            assert!((excess - written_above).abs() < 0.051, "({n}, {s}, {w}): {excess} {written_above}");
        }
        assert!(above <= 3.0 || above_orderly <= 3.0, "({n}, {s}, {w})");
    }
}

/// How much of what is between plan and bound is the bound's: the exact optima of the longest chains that the search over
/// all orders can do.
#[test]
fn exact_optima_of_scarce_memory_are_well_above_the_bound() {
    // (steps, slots, W), the exact optimum, and by how much at least it exceeds the bound.
    for (steps, slots, w, best, gap) in [
        (12, 2, 6, 35, 0.14),
        (12, 2, 8, 36, 0.12),
        (14, 2, 10, 44, 0.09),
        (14, 3, 8, 37, 0.04),
        (14, 3, 10, 37, 0.03),
        (14, 4, 8, 35, 0.015),
        (12, 1, 8, 56, 0.0),
        (12, 1, 12, 64, 0.0),
    ] {
        let (n, s, costs) = (usize::from(steps), slots as usize, costs(f64::from(w)));
        let plan = Async::new(n, s, &costs, Channels::Shared).unwrap();
        let makespan = simulate(plan, &costs, Channels::Shared).makespan;
        assert_eq!(optimum(&Case::unit(steps, slots, w), makespan as usize), best, "({n}, {s}, {w})");
        let bound = lower_bound(n, s, &costs, Channels::Shared).unwrap();
        let orderly = orderly_bound(n, s, &costs, Channels::Shared).unwrap();
        println!("({n}, {s}, {w}): {best} {bound} {orderly} {makespan}");
        assert!(orderly <= best as f64 + 1e-9, "({n}, {s}, {w}): {best} {orderly}");
        assert!(best as f64 >= (1.0 + gap) * bound, "({n}, {s}, {w}): {best} {bound}");
        assert!(makespan <= best as f64, "({n}, {s}, {w}): {makespan} {best}");
    }
}

/// With more slots, and writes as long as half the chain or nearly all of it.
#[test]
fn plans_for_three_to_five_slots_are_optimal() {
    for (steps, slots, ws) in [
        (12, 3, &[6, 10][..]),
        (12, 4, &[6, 9, 12]),
        (12, 5, &[9, 12]),
        (13, 3, &[5, 12]),
        (13, 4, &[6, 8, 12]),
        (13, 5, &[8, 12]),
    ] {
        for &w in ws {
            let plan = Async::new(steps.into(), slots as usize, &costs(w.into()), Channels::Shared).unwrap();
            let makespan = plan.run().unwrap().makespan;
            let best = optimum(&Case::unit(steps, slots, w), makespan as usize);
            assert!(makespan <= best as f64, "({steps}, {slots}, {w}): {makespan} {best}");
        }
    }
}

/// Unequal prices, on both channels: every seventeenth of all combinations.
#[test]
fn the_bound_never_exceeds_the_exact_optimum() {
    let (mut cases, mut met) = (0, 0);
    for number in (0..4 * 3 * 3 * 4 * 4 * 3 * 2_usize).step_by(17) {
        let mut left = number;
        let mut digit = |base: usize| {
            let value = left % base;
            left /= base;
            value as u8
        };
        let case = Case {
            steps: 3 + digit(4),
            slots: 1 + u32::from(digit(3)),
            forward: 1 + digit(3),
            backward: digit(4),
            write: [0, 2, 5, 8][usize::from(digit(4))],
            read: [1, 4, 7][usize::from(digit(3))],
            shared: digit(2) == 0,
        };
        let (n, s) = (usize::from(case.steps), case.slots as usize);
        let costs = Costs::new(f64::from(case.forward), f64::from(case.backward)).unwrap();
        let costs = costs.disk(f64::from(case.write), f64::from(case.read)).unwrap();
        let channels = if case.shared { Channels::Shared } else { Channels::Separate };
        let known = DiskRevolve::new(n, s, &costs).unwrap().makespan();
        let best = optimum(&case, known as usize) as f64;
        let bound = lower_bound(n, s, &costs, channels).unwrap();
        assert!(bound <= best + 1e-9, "{case:?}: {bound} {best}");
        let orderly = orderly_bound(n, s, &costs, channels).unwrap();
        assert!(orderly <= best + 1e-9, "{case:?}: orderly {orderly} {best}");
        cases += 1;
        met += usize::from(bound > best - 1.0 + 1e-9);
    }
    println!("{met} of {cases} bounds are the optimum when rounded up");
    assert!(2 * met > cases);
}

#[test]
fn modelled_makespans_of_the_published_interval_are_met() {
    // With I = 5 and 10, one slot less makes no difference: t(5, 4) = t(5, 5) and t(10, 9) = t(10, 10).
    assert_eq!((published(100, 5, &costs(5.0)), published(500, 10, &costs(10.0))), (279.0, 1449.0));
}

#[test]
fn fractional_zero_and_separate_channels_are_right() {
    for (n, s) in [(1, 1), (2, 1), (7, 2), (40, 3), (60, 100)] {
        for (forward, backward, write, read) in
            [(1.0, 2.0, 2.5, 0.75), (0.0, 1.0, 3.0, 3.0), (0.5, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)]
        {
            let costs = Costs::new(forward, backward).unwrap().disk(write, read).unwrap();
            for channels in [Channels::Shared, Channels::Separate] {
                let plan = Async::new(n, s, &costs, channels).unwrap();
                let run = simulate(plan.clone(), &costs, channels);
                check(n, &[s, usize::MAX], plan).unwrap();
                let bound = lower_bound(n, s, &costs, channels).unwrap();
                assert!(bound <= run.makespan + 1e-9, "({n}, {s}) {costs:?}: {bound} {}", run.makespan);
                let disk = DiskRevolve::new(n, s, &costs).unwrap().makespan();
                assert!(run.makespan <= disk + 1e-9);
            }
        }
    }
}

#[test]
fn ten_million_steps_stream_at_a_constant_cost_per_step() {
    let costs = costs(5.0);
    let per_step = |n: usize| {
        let plan = Async::new(n, 5, &costs, Channels::Shared).unwrap();
        simulate(plan, &costs, Channels::Shared).makespan / n as f64
    };
    let (short, long) = (per_step(1000), per_step(10_000_000));
    assert!(long < 1.02 * short, "{long} against {short}");
}

#[test]
fn streamed_plans_obey_the_laws_and_are_never_above_the_others() {
    let steps = 4000;
    let idle = lower_bound(steps, 60, &costs(1e6), Channels::Shared).unwrap();
    let revolve = advances(steps, 60) + steps as u128;
    assert_eq!(idle as u128, revolve, "a disk too slow to be used");
    for (slots, w) in [(1, 5.0), (2, 50.0), (3, 0.0), (5, 5.0), (10, 50.0), (4000, 9.0), (60, 1e6)] {
        let costs = costs(w);
        let plan = Async::new(steps, slots, &costs, Channels::Shared).unwrap();
        check(steps, &[slots, usize::MAX], plan.clone()).unwrap();
        let makespan = simulate(plan, &costs, Channels::Shared).makespan;
        let revolve = (advances(steps, slots) + steps as u128) as f64;
        let disk = DiskRevolve::new(steps, slots, &costs).unwrap().makespan();
        assert!(makespan <= revolve.min(disk), "({slots}, {w}): {makespan} against {}", revolve.min(disk));
    }
}

#[test]
fn quick_plans_are_valid_and_never_above_revolve() {
    for (steps, slots) in [(1, 1), (2, 1), (7, 2), (65, 1), (100, 5), (1000, 3), (5000, 10)] {
        for w in [0.0, 0.5, 3.0, 20.0, 1e9] {
            let costs = costs(w);
            let plan = Async::quick(steps, slots, &costs, Channels::Shared).unwrap();
            let makespan = simulate(plan.clone(), &costs, Channels::Shared).makespan;
            assert_eq!(plan.run().map(|run| run.makespan), Some(makespan));
            assert!(makespan <= (advances(steps, slots) + steps as u128) as f64, "({steps}, {slots}, {w})");
            check(steps, &[slots, usize::MAX], plan).unwrap();
        }
    }
}
