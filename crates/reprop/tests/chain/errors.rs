//! What cannot be honoured is an error that names the action.

use reprop::chain::{Checkpointed, Error};
use reprop_schedule::{Action, Revolve, Slot};
use reprop_store::{Dtype, Key, MemoryStore, Payload, Store};

use crate::common::{Network, run};

fn wrong(actions: &[Action]) -> Error {
    let store = MemoryStore::unbounded();
    let how = Checkpointed::schedule(actions.to_vec()).store(&store);
    run(&mut Network::new(3), how).err().expect("the schedule is wrong")
}

#[test]
fn a_schedule_that_breaks_a_law_is_refused_at_the_action() {
    let (memory, disk) = (Slot::memory(0), Slot::disk(0));
    let save = Action::Save { step: 0, slot: memory };
    let forward = Action::Forward { from: 0, to: 2 };
    let elsewhere = [forward, forward];
    assert!(matches!(wrong(&elsewhere), Error::Elsewhere { held: Some(2), .. }));
    assert!(matches!(
        wrong(&[Action::Save { step: 1, slot: memory }]),
        Error::Elsewhere { held: Some(0), .. }
    ));
    assert!(matches!(wrong(&[save, save]), Error::Slot { found: "is in use", .. }));
    let absent = Action::Load { step: 0, slot: memory, keep: true };
    assert!(matches!(wrong(&[absent]), Error::Slot { found: "is empty", .. }));
    let absent = Action::Load { step: 0, slot: disk, keep: true };
    assert!(matches!(wrong(&[absent]), Error::Slot { found: "is empty", .. }));
    let other = Action::Load { step: 1, slot: memory, keep: true };
    assert!(matches!(wrong(&[save, other]), Error::Slot { found: "holds something else", .. }));
    assert!(matches!(wrong(&[]), Error::Unfinished { left: None }));
    let early = [save, forward, Action::Reverse { step: 2 }];
    assert!(matches!(wrong(&early), Error::Unfinished { left: Some(2) }));
    let skipped = [save, forward, Action::Reverse { step: 2 }, absent_memory(), Action::Reverse { step: 0 }];
    assert!(matches!(wrong(&skipped), Error::OutOfOrder { next: Some(1), .. }));
    let past = [save, forward, Action::Reverse { step: 2 }, absent_memory(), forward];
    assert!(matches!(wrong(&past), Error::OutOfOrder { next: Some(1), .. }));
}

fn absent_memory() -> Action {
    Action::Load { step: 0, slot: Slot::memory(0), keep: true }
}

#[test]
fn a_schedule_for_a_disk_needs_a_store() {
    let schedule = vec![Action::Save { step: 0, slot: Slot::disk(0) }];
    let error = run(&mut Network::new(3), Checkpointed::schedule(schedule)).err().unwrap();
    assert!(matches!(error, Error::NoStore { .. }));
    assert!(error.to_string().contains("save x0 in disk 0"), "{error}");
}

#[test]
fn a_static_schedule_that_finds_no_room_is_an_error() {
    let store = MemoryStore::new(10);
    let schedule = vec![Action::Save { step: 0, slot: Slot::disk(0) }];
    let error = run(&mut Network::new(3), Checkpointed::schedule(schedule).store(&store)).err().unwrap();
    assert!(error.to_string().contains("no room"), "{error}");
}

#[test]
fn a_store_is_emptied_before_a_chain_uses_it() {
    let store = MemoryStore::unbounded();
    store.put(Key::new(0, 7), Payload::new(Dtype::U8, vec![1])).unwrap();
    run(&mut Network::new(9), Checkpointed::schedule(Revolve::new(9, 2).unwrap()).store(&store)).unwrap();
    assert_eq!(store.keys(), []);
}
