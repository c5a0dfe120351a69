//! Counts against `oracle/schedules/reference.json`, made by `checkpoint_schedules` and `pyrevolve`.

use reprop_schedule::{Costs, DiskRevolve, HRevolve, Mixed, Multistage, Periodic, Revolve, Tier, check};
use serde_json::Value;

fn reference() -> Value {
    serde_json::from_str(include_str!("../../../oracle/schedules/reference.json")).unwrap()
}

fn number(case: &Value, name: &str) -> usize {
    case[name].as_u64().unwrap() as usize
}

/// The time of a schedule of theirs, forward = backward = 1: each recording forward stands for a reverse step.
fn time(counts: &Value, cost: usize) -> f64 {
    (number(counts, "forward") + cost * (number(counts, "writes") + number(counts, "reads"))) as f64
}

#[test]
fn revolve_does_what_both_packages_do() {
    for case in reference()["revolve"].as_array().unwrap() {
        let (steps, slots) = (number(case, "steps"), number(case, "slots"));
        let counts = check(steps, &[slots], Revolve::new(steps, slots).unwrap()).unwrap();
        assert_eq!(counts.forward_evaluations(), number(case, "forward") as u128);
        assert_eq!(counts.snapshots_written, number(case, "snapshots") as u128);
        assert_eq!(counts.advances, number(&case["crevolve"], "advances") as u128);
        assert_eq!(counts.snapshots_written, number(&case["crevolve"], "snapshots") as u128);
    }
}

#[test]
fn mixed_evaluates_as_often_as_checkpoint_schedules_does() {
    for case in reference()["mixed"].as_array().unwrap() {
        let (steps, slots) = (number(case, "steps"), number(case, "slots"));
        let evaluations = Mixed::new(steps, slots).unwrap().counts().forward_evaluations();
        assert_eq!(evaluations, number(case, "forward") as u128);
    }
}

#[test]
fn tiers_take_no_longer_than_checkpoint_schedules_does() {
    for case in reference()["tiers"].as_array().unwrap() {
        let (steps, slots, disk) = (number(case, "steps"), number(case, "slots"), number(case, "disk_slots"));
        let cost = number(case, "cost");
        let costs = Costs::unit().disk(cost as f64, cost as f64).unwrap();
        let tiers = [Tier::new(slots, 0.0, 0.0), Tier::new(disk, cost as f64, cost as f64)];
        let h_revolve = HRevolve::new(steps, &tiers, &costs).unwrap().makespan();
        assert!((h_revolve - time(&case["h_revolve"], cost)).abs() < 1e-9, "{case}");
        // Theirs never reads a disk snapshot twice; ours may.
        let disk_revolve = DiskRevolve::new(steps, slots, &costs).unwrap().makespan();
        assert!(disk_revolve <= time(&case["disk_revolve"], cost), "{case}");
        let periodic = Periodic::new(steps, slots, &costs).unwrap().makespan();
        assert!(periodic <= time(&case["periodic"], cost), "{case}");
        let multistage = Multistage::new(steps, slots, disk, &costs).unwrap();
        let counts = check(steps, &[slots, disk], multistage).unwrap();
        let theirs = &case["multistage"];
        assert_eq!(counts.forward_evaluations(), number(theirs, "forward") as u128);
        let transfers = number(theirs, "writes") + number(theirs, "reads");
        assert!(counts.disk_writes + counts.disk_reads <= transfers as u128, "{case}");
    }
}
