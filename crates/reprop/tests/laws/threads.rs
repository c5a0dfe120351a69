//! The same bits at any number of threads, run after run, and no deadlock.

use std::sync::mpsc;
use std::time::Duration;

use rayon::prelude::*;
use reprop::{Coupling, Strategy};
use reprop_models::RevVitConfig;

use crate::common::{
    Bits, Perceptron, assert_same, labels, mixed, noise, stepped, trainable, training, user_data,
    user_network, with_threads,
};

const STRATEGIES: [Strategy; 3] = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop];

/// Asserts that `run` gives the same bits at one to eight threads under every strategy, each time it is run.
fn same_everywhere(what: &str, runs: usize, run: impl Fn(Strategy) -> (u32, Bits) + Sync) {
    let expected = with_threads(1, || run(Strategy::Stored));
    for threads in [1, 2, 3, 4, 8] {
        for strategy in STRATEGIES {
            for number in 0..runs {
                let found = with_threads(threads, || run(strategy));
                let what = format!("{what}: {strategy} on {threads} threads, run {number}");
                assert_same(&expected, &found, &what);
            }
        }
    }
}

#[test]
fn small_networks_have_the_same_bits_at_any_number_of_threads() {
    let network = user_network(&[2, 3], &[8, 6], mixed(0.2));
    let data = user_data(5);
    same_everywhere("small", 3, |strategy| stepped(&network, &data, training(3), strategy));
}

/// Wide and long enough that every operation that goes parallel does.
#[test]
fn a_vision_transformer_of_published_width_has_the_same_bits_at_any_number_of_threads() {
    let config = RevVitConfig { depth: 2, ..RevVitConfig::small() }.with_dropout(0.1).with_drop_path(0.2);
    let network = config.init(3, &trainable());
    let data = (noise(4, [4, 3, 224, 224]), labels(4, 1000));
    same_everywhere("RevViT-S", 1, |strategy| stepped(&network, &data, training(3), strategy));
}

/// What `run` gives, or a panic if it does not end: a deadlock fails, and does not hang.
fn watched<T: Send + 'static>(limit: Duration, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(run()));
    receiver.recv_timeout(limit).expect("the run ends: it neither panics nor deadlocks")
}

/// A run takes a tenth of a second; a deadlock would take for ever.
const LIMIT: Duration = Duration::from_secs(100);
const STRESS_RUNS: usize = 40;

/// Matrices large enough to go parallel inside `backward`, so that a thread that waits there takes up other work.
#[test]
fn overlap_with_autodiff_does_not_deadlock() {
    watched(LIMIT, || {
        let network = user_network(&[4, 3], &[96, 64], |width, initial| {
            Coupling::new(
                Perceptron::new(width, 256, 0.2, initial),
                Perceptron::new(width, 256, 0.2, initial),
            )
        });
        let data = user_data(48);
        let run = |strategy| stepped(&network, &data, training(3), strategy);
        let expected = run(Strategy::Stored);
        for number in 0..STRESS_RUNS {
            let found = with_threads(1 + number % 4, || run(Strategy::PaReprop));
            assert_same(&expected, &found, &format!("run {number}"));
        }
    });
}

#[test]
fn steps_of_one_network_may_run_side_by_side() {
    watched(LIMIT, || {
        let network = user_network(&[2, 2], &[32, 16], mixed(0.2));
        let data = user_data(24);
        let run = |call| stepped(&network, &data, training(3).call(call), Strategy::PaReprop);
        let expected: Vec<_> = (0..4).map(run).collect();
        for _ in 0..STRESS_RUNS / 4 {
            let found: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|call| scope.spawn(move || run(call))).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            for (call, (expected, found)) in expected.iter().zip(&found).enumerate() {
                assert_same(expected, found, &format!("call {call}"));
            }
        }
    });
}

/// Parameters are made when they are first used: here by several threads at once, in the middle of other parallel work.
#[test]
fn first_steps_of_one_network_may_run_side_by_side() {
    let run = || {
        let config = RevVitConfig { depth: 2, ..RevVitConfig::new(16, 4, 256, 2, 4, 512) };
        let network = config.init(3, &trainable());
        let data = (noise(4, [4, 3, 16, 16]), labels(4, 1000));
        let step = |call| stepped(&network, &data, training(3).call(call), Strategy::PaReprop);
        with_threads(4, || (0..4).into_par_iter().map(step).collect::<Vec<_>>())
    };
    watched(LIMIT, move || {
        let expected = run();
        for _ in 0..5 {
            for (expected, found) in expected.iter().zip(&run()) {
                assert_same(expected, found, "first step");
            }
        }
    });
}
