//! Pipelines side by side.

use std::time::{Duration, Instant};

use reprop::Network;
use reprop_pipeline::{Error, Method, Settings, run_in_process};

use crate::common::{Bits, Noise, assert_same, bits, resnet, run, settings, vit};
use crate::methods::ordinary;

/// Without running statistics, which are each replica's own.
fn weights(bits: Bits) -> Bits {
    bits.into_iter().filter(|(name, _)| !name.contains("running")).collect()
}

#[test]
fn synchronous_replicas_are_ordinary_training_that_accumulates_over_them() {
    let job = || Noise { rate: |_| 0.03, ..Noise::default() };
    for (replicas, stages) in [(2, 1), (2, 3), (3, 2)] {
        let what = format!("{replicas} replicas, {stages} stages");
        let network = vit(3);
        let expected = bits(&ordinary(network.clone(), &job(), 6 * replicas as u64, replicas as u64));
        let plain = Settings { replicas, ..settings(Method::Backprop, network.places(), stages, 6) };
        assert_same(&expected, &bits(&run(&network, &plain, &job()).network), &what);

        let network = resnet();
        let expected = bits(&ordinary(network.clone(), &job(), 6 * replicas as u64, replicas as u64));
        let plain = Settings { replicas, ..settings(Method::Reversible, network.places(), stages, 6) };
        let found = bits(&run(&network, &plain, &job()).network);
        assert_same(&weights(expected), &weights(found), &what);
    }
}

#[test]
fn replicas_of_petra_give_the_same_bits_again_and_after_a_stop() {
    let network = resnet();
    let settings =
        Settings { replicas: 2, accumulate: 2, ..settings(Method::Petra, network.places(), 3, 16) };
    let whole = run(&network, &settings, &Noise::default());
    let alone = run(&network, &Settings { replicas: 1, ..settings.clone() }, &Noise::default());
    assert_ne!(bits(&whole.network), bits(&alone.network));
    let stop = 6;
    let first = Noise { stop_at: Some(stop), evaluate_at: vec![3], ..Noise::default() };
    run(&network, &settings, &first);
    assert_eq!(*first.committed.lock().unwrap(), [stop]);
    // In the middle, and at the end.
    assert_eq!(first.scores.lock().unwrap().len(), 2);
    let parts = first.records.lock().unwrap().remove(&stop).expect("a record");
    assert_eq!(parts.len(), 6);
    let second = Noise { resume: Some(parts), ..Noise::default() };
    let resumed = run(&resnet(), &settings, &second);
    assert_same(&bits(&whole.network), &bits(&resumed.network), "resumed");
}

#[test]
fn a_replica_that_fails_stops_all() {
    let network = vit(4);
    let settings = Settings { replicas: 3, ..settings(Method::Petra, network.places(), 2, 50) };
    let start = Instant::now();
    let job = Noise { fail_at: Some(5), ..Noise::default() };
    let error = run_in_process(&network, &settings, &job, 1).err().expect("it fails");
    assert_eq!(error, Error::Job { stage: 0, message: "a failure was asked for".to_owned() });
    assert!(start.elapsed() < Duration::from_secs(30));
}
