//! A pipeline never hangs, and says once what went wrong.

use std::thread;
use std::time::{Duration, Instant};

use reprop::Network;
use reprop_pipeline::{
    Error, InProcess, Message, Method, Result, Settings, Side, Transport, Worker, links, run_in_process,
};

use crate::common::{Noise, resnet, settings, vit};

/// Far more than a stop takes, far less than the patience of the tests' stages.
const BOUND: Duration = Duration::from_secs(30);

fn fails(job: &Noise) -> Error {
    let network = vit(6);
    let start = Instant::now();
    let settings = settings(Method::Petra, network.places(), 4, 50);
    let error = run_in_process(&network, &settings, job, 1).err().expect("it fails");
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    error
}

#[test]
fn a_stage_that_fails_stops_all_with_its_own_error() {
    let error = fails(&Noise { fail_at: Some(5), ..Noise::default() });
    assert_eq!(error, Error::Job { stage: 0, message: "a failure was asked for".to_owned() });
    let error = fails(&Noise { rate: |_| 1e30, ..Noise::default() });
    assert!(
        matches!(
            error,
            Error::Pass {
                error: reprop::Error::RangeOverflow { .. } | reprop::Error::LossNotFinite { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_stage_that_panics_stops_all() {
    assert_eq!(fails(&Noise { panic_at: Some(3), ..Noise::default() }), Error::Panicked { stage: 3 });
}

/// Flips a bit of one message.
struct Damaging {
    inner: InProcess,
    left: usize,
}

impl Transport for Damaging {
    fn send(&mut self, to: Side, mut message: Message) -> Result<()> {
        if to == Side::Above {
            if self.left == 0 {
                let mut bytes = message.encode();
                let last = bytes.len() - 9;
                bytes[last] ^= 4;
                message = Message::decode(&bytes).expect("only a value changed");
            }
            self.left = self.left.wrapping_sub(1);
        }
        self.inner.send(to, message)
    }

    fn receive(&mut self, from: Side) -> Result<Message> {
        self.inner.receive(from)
    }
}

#[test]
fn a_damaged_message_is_found_by_its_checksum() {
    let network = vit(2);
    let settings = settings(Method::Petra, network.places(), 2, 20);
    let job = Noise::default();
    let mut ends = links(2, 2, settings.patience);
    let (above, below) = (ends.pop().unwrap(), Damaging { inner: ends.pop().unwrap(), left: 3 });
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| Worker::new(vit(2), 0, &settings, &job, below)?.run().map(drop));
        let second = scope.spawn(|| Worker::new(vit(2), 1, &settings, &job, above)?.run().map(drop));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert!(matches!(second, Err(Error::Checksum { stage: 1, .. })), "{second:?}");
    assert_eq!(first, Err(Error::Neighbour { stage: 0, above: true }));
}

#[test]
fn a_silent_neighbour_is_given_up_after_the_patience() {
    let network = vit(2);
    let patience = Duration::from_millis(200);
    let settings = Settings { patience, ..settings(Method::Petra, network.places(), 2, 20) };
    let job = Noise::default();
    let mut ends = links(2, 2, patience);
    let (above, _silent) = (ends.pop().unwrap(), ends.pop().unwrap());
    let start = Instant::now();
    let stalled = Worker::new(network, 1, &settings, &job, above).unwrap().run().map(drop);
    assert_eq!(stalled, Err(Error::Stalled { stage: 1, above: false, waited: patience }));
    assert!(start.elapsed() < BOUND);
}

#[test]
fn messages_of_another_run_are_refused() {
    let settings = [77, 78].map(|run| Settings { run, ..settings(Method::Petra, 4, 2, 6) });
    let job = Noise::default();
    let mut ends = links(2, 2, Duration::from_mins(1));
    let (above, below) = (ends.pop().unwrap(), ends.pop().unwrap());
    let second = thread::scope(|scope| {
        scope.spawn(|| Worker::new(vit(2), 0, &settings[0], &job, below)?.run().map(drop));
        scope.spawn(|| Worker::new(vit(2), 1, &settings[1], &job, above)?.run().map(drop)).join().unwrap()
    });
    assert!(matches!(second, Err(Error::Unexpected { stage: 1, .. })), "{second:?}");
}

#[test]
fn stages_that_do_not_fit_the_network_are_refused() {
    let network = resnet();
    let places = network.places();
    let job = Noise::default();
    let short = settings(Method::Petra, places - 1, 2, 4);
    let refused = run_in_process(&network, &short, &job, 1).err();
    assert_eq!(refused, Some(Error::Stages { stages: 2, places }));
}
