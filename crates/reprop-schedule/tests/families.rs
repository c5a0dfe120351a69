//! Mixed, multistage, Disk-Revolve, periodic, H-Revolve and online: laws, optima written a second way, edges.

use proptest::prelude::*;
use reprop_schedule::{
    Action, Costs, Counts, DiskRevolve, Error, HRevolve, Mixed, Multistage, Online, Periodic, Prices,
    Revolve, Tier, Transfer, advances, check,
};

/// Times of different schedules are sums of the same numbers in another order.
const ROUNDING: f64 = 1e-9;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs()).max(1.0)
}

/// The time of a schedule whose transfers are all waited for, added up action by action.
fn synchronous_time(actions: impl Iterator<Item = Action>, costs: &Costs) -> f64 {
    actions
        .map(|action| match action {
            Action::Forward { from, to } => costs.forward(from, to),
            Action::Save { step, slot } => costs.write(step, slot.tier),
            Action::Load { step, slot, .. } => costs.read(step, slot.tier),
            Action::Reverse { step } => costs.reverse(step),
            other => panic!("{other} is not part of a schedule that waits for its transfers"),
        })
        .sum()
}

/// H-Revolve by plain recursion over `(tier, steps, free slots, stored)`, with no closed form anywhere.
fn naive_h_revolve(steps: usize, tiers: &[Tier], costs: &Costs) -> f64 {
    // best[tier][free][len] for a fresh and for a stored first state; tier 0 is "no storage at all".
    let mut faster: Vec<f64> =
        (0..=steps).map(|n| if n == 1 { costs.backward } else { f64::INFINITY }).collect();
    for tier in tiers {
        let Transfer { write, read } = tier.transfer;
        let mut fewer = faster.clone();
        for _ in 0..tier.slots {
            let (mut fresh, mut stored) = (faster.clone(), faster.clone());
            for n in 2..=steps {
                let cut = (1..n)
                    .map(|j| j as f64 * costs.forward + fewer[n - j] + read + stored[j])
                    .fold(f64::INFINITY, f64::min);
                stored[n] = stored[n].min(cut);
                fresh[n] = fresh[n].min(write + stored[n]);
            }
            fewer = fresh;
        }
        faster = fewer;
    }
    faster[steps]
}

fn naive_mixed(steps: usize, slots: usize) -> Vec<Vec<u64>> {
    let mut m = vec![vec![u64::MAX / 4; steps + 1]; slots + 1];
    for s in 0..=slots {
        for n in 1..=steps {
            m[s][n] = match (n, s) {
                _ if n <= s + 1 => n as u64,
                (_, 0) => u64::MAX / 4,
                (_, 1) => (n * (n + 1) / 2 - 1) as u64,
                _ => (1..n)
                    .map(|i| i as u64 + m[s][i] + m[s - 1][n - i])
                    .min()
                    .unwrap()
                    .min(1 + m[s - 1][n - 1]),
            };
        }
    }
    m
}

#[test]
fn mixed_to_200_steps_and_20_slots_costs_what_the_recurrence_says() {
    let m = naive_mixed(200, 20);
    for (slots, row) in m.iter().enumerate().skip(1) {
        for (steps, &evaluations) in row.iter().enumerate().skip(1) {
            let mixed = Mixed::new(steps, slots).unwrap();
            let planned = mixed.counts();
            let counts = check(steps, &[slots], mixed).unwrap();
            assert_eq!(counts.forward_evaluations(), u128::from(evaluations), "({steps}, {slots})");
            assert_eq!(counts.advances, planned.advances);
        }
    }
    assert_eq!((m[3][10], m[10][100]), (19, 237));
}

#[test]
fn multistage_has_revolves_advances_and_keeps_the_busiest_slots_in_memory() {
    for (steps, memory, disk) in [(1, 1, 0), (10, 1, 2), (100, 3, 7), (200, 0, 4), (57, 20, 0), (5, 9, 9)] {
        let schedule = Multistage::new(steps, memory, disk, &Costs::unit()).unwrap();
        let counts = check(steps, &[memory, disk], schedule).unwrap();
        assert_eq!(counts.advances, advances(steps, memory + disk));
        let all_on_disk = check(
            steps,
            &[0, memory + disk],
            Multistage::new(steps, 0, memory + disk, &Costs::unit()).unwrap(),
        );
        assert!(
            counts.disk_reads + counts.disk_writes
                <= all_on_disk.map(|c| c.disk_reads + c.disk_writes).unwrap()
        );
    }
}

#[test]
fn h_revolve_meets_the_known_makespans() {
    let tiers = |w| [Tier::new(5, 0.0, 0.0), Tier::new(10, w, w)];
    assert!(close(HRevolve::new(100, &tiers(5.0), &Costs::unit()).unwrap().makespan(), 380.0));
    assert!(close(HRevolve::new(100, &tiers(1e9), &Costs::unit()).unwrap().makespan(), 416.0));
    let long = [Tier::new(10, 0.0, 0.0), Tier::new(30, 10.0, 10.0)];
    assert!(close(HRevolve::new(500, &long, &Costs::unit()).unwrap().makespan(), 1954.0));
}

#[test]
fn h_revolve_to_200_steps_costs_what_the_plain_recursion_says() {
    for (memory, disk) in [(1, 1), (1, 6), (2, 3), (3, 0), (5, 10), (20, 4)] {
        for (write, read) in [(0.0, 0.0), (1.0, 1.0), (2.5, 0.75), (40.0, 3.0)] {
            let tiers = [Tier::new(memory, 0.0, 0.0), Tier::new(disk, write, read)];
            let costs =
                Costs { tiers: tiers.iter().map(|t| t.transfer).collect(), ..Costs::new(1.0, 1.5).unwrap() };
            for steps in [1, 2, 3, 7, 20, 51, 200] {
                let plan = HRevolve::new(steps, &tiers, &costs).unwrap();
                let makespan = plan.makespan();
                assert!(close(makespan, naive_h_revolve(steps, &tiers, &costs)), "{steps} {tiers:?}");
                assert!(close(makespan, synchronous_time(plan.clone(), &costs)));
                check(steps, &[memory, disk], plan).unwrap();
            }
        }
    }
}

#[test]
fn h_revolve_takes_three_tiers_and_memory_that_costs() {
    let tiers = [Tier::new(2, 0.25, 0.125), Tier::new(3, 1.5, 1.0), Tier::new(4, 6.0, 5.0)];
    let costs = Costs { tiers: tiers.iter().map(|t| t.transfer).collect(), ..Costs::new(0.7, 1.9).unwrap() };
    for steps in [1, 2, 5, 33, 80] {
        let plan = HRevolve::new(steps, &tiers, &costs).unwrap();
        assert!(close(plan.makespan(), naive_h_revolve(steps, &tiers, &costs)));
        assert!(close(plan.makespan(), synchronous_time(plan.clone(), &costs)));
        check(steps, &[2, 3, 4], plan).unwrap();
    }
}

/// Disk-Revolve is H-Revolve with as many disk slots as steps, planned without counting them.
#[test]
fn disk_revolve_equals_h_revolve_with_a_disk_that_never_fills() {
    for slots in [1, 2, 3, 7] {
        for (write, read) in [(0.0, 0.0), (0.0, 2.0), (1.0, 1.0), (5.0, 5.0), (30.5, 10.25)] {
            let costs = Costs::new(1.0, 2.0).unwrap().disk(write, read).unwrap();
            for steps in (1..40).chain([100, 150]) {
                let plan = DiskRevolve::new(steps, slots, &costs).unwrap();
                let tiers = [Tier::new(slots, 0.0, 0.0), Tier::new(steps, write, read)];
                let h_revolve = HRevolve::new(steps, &tiers, &costs).unwrap();
                assert!(close(plan.makespan(), h_revolve.makespan()), "{steps} {slots} {write} {read}");
                assert!(close(plan.makespan(), synchronous_time(plan.clone(), &costs)));
                check(steps, &[slots, usize::MAX], plan).unwrap();
            }
        }
    }
}

#[test]
fn periodic_is_never_better_than_disk_revolve_and_near_it_for_long_chains() {
    for (slots, cost) in [(1, 2.0), (3, 5.0), (10, 50.0)] {
        let costs = Costs::unit().disk(cost, cost).unwrap();
        for steps in [1, 2, 10, 500, 3000] {
            let best = DiskRevolve::new(steps, slots, &costs).unwrap().makespan();
            let plan = Periodic::new(steps, slots, &costs).unwrap();
            let makespan = plan.makespan();
            assert!(makespan >= best * (1.0 - ROUNDING));
            assert!(steps < 3000 || makespan < 1.02 * best, "{makespan} against {best}");
            assert!(close(makespan, synchronous_time(plan.clone(), &costs)));
            check(steps, &[slots, usize::MAX], plan).unwrap();
        }
    }
}

/// How much more the online schedule may evaluate than Revolve, which knows the length: measured, rounded up.
const WORST_ONLINE: f64 = 1.1;
const MEAN_ONLINE: f64 = 1.005;

fn run_online(steps: usize, slots: usize) -> Counts {
    let mut online = Online::new(slots).unwrap();
    let mut plan = vec![];
    while online.at() + 1 < steps {
        plan.extend(online.next());
    }
    plan.extend(online.finish());
    check(steps, &[slots], plan).unwrap()
}

#[test]
fn online_is_optimal_up_to_two_repetitions_and_close_to_revolve_beyond() {
    let (mut worst, mut sum): (f64, f64) = (1.0, 0.0);
    for slots in 1..=20 {
        for steps in 1..=200 {
            let counts = run_online(steps, slots);
            let best = advances(steps, slots);
            let two = ((slots + 2) * (slots + 1) / 2) as u128;
            assert!(steps as u128 > two || counts.advances == best, "({steps}, {slots})");
            let ratio = counts.forward_evaluations() as f64 / (best + steps as u128) as f64;
            (worst, sum) = (worst.max(ratio), sum + ratio);
        }
    }
    assert!(worst < WORST_ONLINE, "online takes {worst} times the forward evaluations of Revolve");
    assert!(sum / 4000.0 < MEAN_ONLINE, "online takes {} times on average", sum / 4000.0);
    for (steps, slots) in [(5000, 4), (5000, 10), (20_000, 20)] {
        let ratio = run_online(steps, slots).forward_evaluations() as f64
            / (advances(steps, slots) + steps as u128) as f64;
        assert!(ratio < WORST_ONLINE, "({steps}, {slots}): {ratio}");
    }
}

#[test]
fn online_goes_a_long_way_quickly() {
    let mut online = Online::new(50).unwrap();
    let steps = 300_000;
    while online.at() + 1 < steps {
        online.next();
    }
    assert_eq!(online.finish().filter(|action| matches!(action, Action::Reverse { .. })).count(), steps);
}

#[test]
fn online_can_end_between_any_two_actions() {
    for cut in 0..120 {
        let mut online = Online::new(3).unwrap();
        let mut plan: Vec<Action> = online.by_ref().take(cut).collect();
        let steps = online.at() + 1;
        plan.extend(online.finish());
        check(steps, &[3], plan).unwrap();
    }
}

#[test]
fn wrong_costs_and_hopeless_sizes_are_refused_with_their_numbers() {
    let negative = Costs::unit().disk(-2.0, 1.0).unwrap_err();
    assert_eq!(negative, Error::Cost { name: "write", value: -2.0 });
    assert!(negative.to_string().contains("-2"));
    let huge = DiskRevolve::new(10_000_000, 3, &Costs::unit()).unwrap_err();
    assert!(huge.to_string().contains("10000000 steps"), "{huge}");
    assert!(Mixed::new(10_000_000, 3).is_err());
    assert!(Mixed::new(10_000_000, 10_000_000).is_ok());
}

#[test]
fn ten_million_steps_run_through_the_closed_forms() {
    let steps = 10_000_000;
    let costs = Costs::unit().disk(5.0, 5.0).unwrap();
    let plan = Periodic::new(steps, 50, &costs).unwrap();
    let makespan = plan.makespan();
    let counts = check(steps, &[50, usize::MAX], plan).unwrap();
    let spent = counts.forward_evaluations() + 5 * (counts.disk_writes + counts.disk_reads);
    assert!(close(makespan, spent as f64));
    assert!(makespan < Revolve::new(steps, 50).unwrap().counts().forward_evaluations() as f64);
}

proptest! {
    #[test]
    fn any_tiers_obey_the_laws_at_the_planned_time(
        steps in 1_usize..60, memory in 1_usize..6, disk in 0_usize..6,
        forward in 0.0_f64..3.0, backward in 0.0_f64..3.0, write in 0.0_f64..9.0, read in 0.0_f64..9.0,
    ) {
        let tiers = [Tier::new(memory, 0.0, 0.0), Tier::new(disk, write, read)];
        let costs = Costs::new(forward, backward).unwrap().disk(write, read).unwrap();
        let plan = HRevolve::new(steps, &tiers, &costs).unwrap();
        prop_assert!(close(plan.makespan(), synchronous_time(plan.clone(), &costs)));
        prop_assert!(close(plan.makespan(), naive_h_revolve(steps, &tiers, &costs)));
        check(steps, &[memory, disk], plan).unwrap();
    }
}
