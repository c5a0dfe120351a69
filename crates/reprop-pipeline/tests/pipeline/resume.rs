//! A pipeline that stops in the middle goes on to the same bits.

use reprop::Network;
use reprop_pipeline::{Error, Method, Queue, Settings, run_in_process};

use crate::common::{Noise, assert_same, bits, resnet, run, settings, vit};

#[test]
fn a_resumed_pipeline_ends_with_the_bits_of_one_that_was_not_stopped() {
    let network = resnet();
    for method in Method::ALL {
        for accumulate in [1, 4] {
            let settings = Settings { accumulate, ..settings(method, network.places(), 4, 16) };
            let whole = run(&network, &settings, &Noise { adam: true, ..Noise::default() });
            // In the middle of an accumulation, with batches and messages in flight; and near the end.
            for stop in [6, 14] {
                let what = format!("{method}, k {accumulate}, stopped after {stop}");
                let first = Noise { adam: true, stop_at: Some(stop), ..Noise::default() };
                let stopped = run(&network, &settings, &first);
                assert_eq!(
                    (stopped.batches, first.committed.lock().unwrap().as_slice()),
                    (stop + 1, &[stop][..])
                );
                let parts = first.records.lock().unwrap().remove(&stop).expect("a record");
                assert_eq!(parts.len(), 4, "{what}");
                let second = Noise { adam: true, resume: Some(parts), ..Noise::default() };
                // A fresh network, as another process would make it.
                let resumed = run(&resnet(), &settings, &second);
                assert_same(&bits(&whole.network), &bits(&resumed.network), &what);
                assert_eq!(whole.score, resumed.score);
            }
        }
    }
}

#[test]
fn queues_of_fewer_bits_are_resumed_as_they_were() {
    let network = resnet();
    for queue in [Queue::F16, Queue::U8] {
        let settings = Settings { queue, ..settings(Method::Petra, network.places(), 4, 16) };
        let whole = run(&network, &settings, &Noise::default());
        let first = Noise { stop_at: Some(6), ..Noise::default() };
        run(&network, &settings, &first);
        let parts = first.records.lock().unwrap().remove(&6).expect("a record");
        let resumed = run(&resnet(), &settings, &Noise { resume: Some(parts), ..Noise::default() });
        assert_same(&bits(&whole.network), &bits(&resumed.network), &queue.to_string());
    }
}

#[test]
fn records_change_nothing_and_each_can_be_resumed() {
    let network = vit(5);
    let settings = settings(Method::Petra, network.places(), 3, 12);
    let whole = run(&network, &settings, &Noise::default());
    let job = Noise { record_at: vec![0, 4, 11], ..Noise::default() };
    let recorded = run(&network, &settings, &job);
    assert_same(&bits(&whole.network), &bits(&recorded.network), "with records");
    assert_eq!(*job.committed.lock().unwrap(), [0, 4, 11]);
    let records = job.records.into_inner().unwrap();
    for (batch, parts) in records {
        let job = Noise { resume: Some(parts), ..Noise::default() };
        let resumed = run(&vit(5), &settings, &job);
        assert_same(&bits(&whole.network), &bits(&resumed.network), &format!("from batch {batch}"));
    }
}

#[test]
fn a_damaged_record_is_refused_with_its_stage() {
    let network = vit(2);
    let settings = settings(Method::Petra, network.places(), 2, 6);
    let job = Noise { stop_at: Some(3), ..Noise::default() };
    run(&network, &settings, &job);
    let parts = job.records.into_inner().unwrap().remove(&3).unwrap();
    let refused = |parts, settings: &Settings| {
        let job = Noise { resume: Some(parts), ..Noise::default() };
        run_in_process(&network, settings, &job, 1).err().expect("it is refused")
    };
    let mut flipped = parts.clone();
    let record = flipped.get_mut(&1).unwrap();
    let middle = record.len() / 2;
    record[middle] ^= 1;
    assert!(matches!(refused(flipped, &settings), Error::Record { stage: 1, .. }));
    let mut cut = parts.clone();
    cut.get_mut(&0).unwrap().pop();
    assert!(matches!(refused(cut, &settings), Error::Record { stage: 0, .. }));
    let other = Settings { run: 78, ..settings };
    assert!(matches!(refused(parts, &other), Error::Record { .. }));
    assert!(network.places() > 2);
}
