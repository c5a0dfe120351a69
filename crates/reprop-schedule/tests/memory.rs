//! Iterators keep no list of their actions. In a process of its own: the allocator counts all threads.
//!
//! Two plans are lists, since they are found by simulating whole plans: `Offloaded`, and `Async` up to 3000 steps.

use peak_alloc::PeakAlloc;
use reprop_schedule::{
    Action, Async, Budgeted, Chain, Channels, Costs, DiskRevolve, HRevolve, Mixed, Multistage, Online,
    Periodic, Revolve, Step, Stored, Tier, Transfer,
};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Some entries per slot, for up to fifty slots.
const SMALL: usize = 16 << 10;

/// Runs through a schedule that is planned already; all that it allocates meanwhile is at most `most` bytes.
fn run_through(name: &str, steps: usize, schedule: impl Iterator<Item = Action>, most: usize) {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let (mut actions, mut reversed) = (0_usize, 0);
    for action in schedule {
        actions += 1;
        reversed += usize::from(matches!(action, Action::Reverse { .. } | Action::ReverseRecorded { .. }));
    }
    let grown = ALLOCATOR.peak_usage().saturating_sub(before);
    assert_eq!(reversed, steps, "{name}");
    assert!(grown <= most, "{name}: {grown} bytes for {actions} actions");
    // The limit means something: a list would not keep to it.
    assert!(actions * size_of::<Action>() > 4 * most, "{name}: a list of {actions} actions is no larger");
}

#[test]
fn schedules_run_through_ten_million_steps_without_a_list_of_actions() {
    let steps = 10_000_000;
    let costs = Costs::unit().disk(5.0, 5.0).unwrap();
    run_through("stored", steps, Stored::new(steps).unwrap(), SMALL);
    run_through("stored tapes", steps, Stored::tapes(steps).unwrap(), SMALL);
    run_through("revolve", steps, Revolve::new(steps, 50).unwrap(), SMALL);
    run_through("multistage", steps, Multistage::new(steps, 20, 30, &costs).unwrap(), SMALL);
    run_through("async", steps, Async::new(steps, 5, &costs, Channels::Shared).unwrap(), SMALL);
    // One entry for each snapshot that is on disk at once.
    let periodic = Periodic::new(steps, 50, &costs).unwrap();
    let on_disk = steps / periodic.period();
    run_through("periodic", steps, periodic, 256 * on_disk);
    // It walks the way forward without a plan, and turns into Revolve.
    let steps = 300_000;
    let mut online = Online::new(50).unwrap();
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    while online.at() + 1 < steps {
        online.next();
    }
    assert!(ALLOCATOR.peak_usage() - before <= SMALL, "online on the way forward");
    run_through("online", steps, online.finish(), SMALL);

    // The tables of these are made with the plan, and grow with the chain; what is given out is not kept.
    let costs = Costs::unit().disk(50.0, 50.0).unwrap();
    run_through("mixed", 1000, Mixed::new(1000, 30).unwrap(), SMALL);
    run_through("disk-revolve", 3000, DiskRevolve::new(3000, 10, &costs).unwrap(), SMALL);
    let tiers = [Tier::new(10, 0.0, 0.0), Tier::new(30, 10.0, 10.0)];
    run_through("h-revolve", 1000, HRevolve::new(1000, &tiers, &costs).unwrap(), SMALL);
    let transfer = Transfer { write: 3.0, read: 3.0 };
    let step = Step { forward: 1.0, backward: 2.0, state_bytes: 4, tape_bytes: 9, transfer };
    let chain = Chain::new(vec![step; 400]).unwrap();
    run_through("budgeted", 400, Budgeted::new(&chain, 60).unwrap(), SMALL / 4);
}
