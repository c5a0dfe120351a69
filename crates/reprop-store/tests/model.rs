//! Random sequences of calls, against a map that keeps everything in memory.

mod common;

use std::collections::HashMap;

use common::{key, small};
use proptest::prelude::*;
use reprop_store::{Codec, Dtype, Durability, Error, Key, MemoryStore, Payload, Store};

#[derive(Debug, Clone)]
enum Call {
    Put(u64, usize, bool),
    Get(u64),
    Prefetch(u64),
    Remove(u64),
    Commit(u8),
    Wait,
}

fn call() -> impl Strategy<Value = Call> {
    let step = 0..8_u64;
    prop_oneof![
        4 => (step.clone(), 0..30_000_usize, any::<bool>()).prop_map(|(s, n, smooth)| Call::Put(s, n, smooth)),
        4 => step.clone().prop_map(Call::Get),
        3 => step.clone().prop_map(Call::Prefetch),
        2 => step.prop_map(Call::Remove),
        1 => any::<u8>().prop_map(Call::Commit),
        1 => Just(Call::Wait),
    ]
}

/// Content that no two puts share.
fn content(number: usize, length: usize, smooth: bool) -> Payload {
    let bytes = if smooth {
        (0..length).map(|i| (i / 1000 + number) as u8).collect()
    } else {
        common::noise(number as u64, length)
    };
    Payload::new(if number.is_multiple_of(2) { Dtype::F32 } else { Dtype::U16 }, bytes)
}

fn same(found: &Result<Payload, Error>, expected: Option<&Payload>) -> bool {
    match (found, expected) {
        (Ok(found), Some(expected)) => found == expected,
        (Err(Error::Missing { .. }), None) => true,
        _ => false,
    }
}

type Model = HashMap<Key, Payload>;

/// Plays the calls; gives the model at the end and at the last durable point, with that point's bytes.
fn play(store: &dyn Store, calls: &[Call], durable: bool) -> (Model, Option<(Model, u8)>) {
    let mut model = Model::new();
    let mut point = None;
    let mut ticket = None;
    for (number, call) in calls.iter().enumerate() {
        match *call {
            Call::Put(step, length, smooth) => {
                let payload = content(number, length, smooth);
                ticket = Some(store.put(key(step), payload.clone()).unwrap());
                model.insert(key(step), payload);
            }
            Call::Get(step) => {
                let found = store.get(key(step));
                assert!(same(&found, model.get(&key(step))), "{found:?} for {:?}", model.get(&key(step)));
            }
            Call::Prefetch(step) => {
                assert_eq!(store.prefetch(key(step)).is_ok(), model.contains_key(&key(step)));
            }
            Call::Remove(step) => {
                assert_eq!(store.remove(key(step)).is_ok(), model.remove(&key(step)).is_some());
            }
            Call::Commit(meta) if durable => {
                store.commit(&[meta]).unwrap().unwrap().wait().unwrap();
                point = Some((model.clone(), meta));
            }
            Call::Commit(_) => assert!(matches!(store.commit(b""), Err(Error::NotDurable))),
            Call::Wait => {
                // A put whose snapshot was removed or replaced before its turn is told as missing.
                let outcome = ticket.take().map_or(Ok(()), |ticket| ticket.wait());
                assert!(matches!(outcome, Ok(()) | Err(Error::Missing { .. })));
            }
        }
    }
    let mut keys: Vec<_> = model.keys().copied().collect();
    keys.sort();
    assert_eq!(store.keys(), keys);
    (model, point)
}

fn check_all(store: &dyn Store, model: &Model) {
    for (key, payload) in model {
        assert_eq!(store.get(*key).unwrap(), *payload);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_a_map(calls in prop::collection::vec(call(), 0..60)) {
        let store = MemoryStore::unbounded();
        let (model, _) = play(&store, &calls, false);
        check_all(&store, &model);
        prop_assert_eq!(store.stats().held, model.values().map(|payload| payload.len() as u64).sum::<u64>());
    }

    #[test]
    fn disk_agrees_with_a_map(
        calls in prop::collection::vec(call(), 0..60),
        codec in prop::sample::select(vec![Codec::None, Codec::ShuffleZstd, Codec::Lz4, Codec::Auto]),
        direct in any::<bool>(),
        threads in 1..3_usize,
        queue in 1..5_usize,
        durable in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let durability = if durable { Durability::Every(1) } else { Durability::None };
        let config = small(folder.path())
            .codec(codec).direct(direct).writers(threads).readers(threads).queue(queue, 50_000)
            .read_ahead(queue).durability(durability);
        let store = config.create().unwrap();
        let (model, point) = play(&store, &calls, durable);
        check_all(&store, &model);

        // As if killed: exactly the last point is there.
        drop(store);
        match point {
            Some((model, meta)) => {
                let (store, recovered) = config.open_existing().unwrap();
                prop_assert_eq!(recovered.meta, [meta]);
                prop_assert_eq!(store.keys().len(), model.len());
                check_all(&store, &model);
                store.finish().unwrap();
            }
            None => prop_assert!(common::names(folder.path()).is_empty()),
        }
    }
}
