//! Masked language models in stages: padding reaches every one of them, and each end has a table of its own.

use std::sync::Mutex;

use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use reprop::layers::NOT_ASKED;
use reprop::{HiddenKeys, Network, Pass, Side, Strategy};
use reprop_models::{RevRoberta, RevRobertaConfig};
use reprop_pipeline::{Error, Job, Method, Orders, Score, run_in_process};

use crate::common::{Bits, assert_same, bits, settings};

const VOCABULARY: u64 = 11;
const PLACES: u64 = 6;
const SEQUENCES: u64 = 3;
const BATCHES: u64 = 8;
const TEST_BATCHES: u64 = 2;

fn config() -> RevRobertaConfig {
    let config = RevRobertaConfig::new(VOCABULARY as usize, PLACES as usize, 8, 4, 2, 16).with_deviation(0.2);
    config.with_dropout(0.1).with_tied(false)
}

fn network(config: &RevRobertaConfig) -> RevRoberta {
    config.init(3, &Device::flex().autodiff())
}

fn grid(number: impl Fn(u64, u64) -> i64) -> TensorData {
    let places = (0..SEQUENCES).flat_map(|sequence| (0..PLACES).map(move |place| (sequence, place)));
    let values: Vec<i64> = places.map(|(sequence, place)| number(sequence, place)).collect();
    TensorData::new(values, [SEQUENCES as usize, PLACES as usize])
}

/// The last sequences are the shortest; how short depends on the batch.
fn is_padding(batch: u64, sequence: u64, place: u64) -> bool {
    place + sequence * (1 + batch % 2) >= PLACES
}

fn padding(batch: u64) -> Side {
    let hidden = grid(|sequence, place| i64::from(is_padding(batch, sequence, place)));
    let hidden: Tensor<2, Bool> = Tensor::<2, Int>::from_data(hidden, &Device::flex()).equal_elem(1);
    Side::new().with(HiddenKeys(hidden))
}

fn data(batch: u64) -> (Tensor<2, Int>, Tensor<2, Int>) {
    let token = move |sequence, place| ((5 * batch + 3 * sequence + 7 * place) % VOCABULARY) as i64;
    let target = |sequence, place| match (place + sequence) % 3 {
        0 if !is_padding(batch, sequence, place) => (token(sequence, place) + 1) % VOCABULARY as i64,
        _ => NOT_ASKED,
    };
    let device = Device::flex();
    (Tensor::from_data(grid(token), &device), Tensor::from_data(grid(target), &device))
}

fn score(output: Tensor<2>, target: Tensor<2, Int>) -> Score {
    let target: Vec<i64> = target.into_data().iter().collect();
    let guesses: Vec<i64> = output.argmax(1).into_data().iter().collect();
    let asked = target.iter().filter(|&&token| token != NOT_ASKED);
    // Training scores the tokens asked for, a test all of them.
    let right = if guesses.len() == target.len() {
        guesses.iter().zip(&target).filter(|(guess, token)| guess == token).count()
    } else {
        guesses.iter().zip(asked.clone()).filter(|(guess, token)| guess == token).count()
    };
    Score { right: right as u64, seen: asked.count() as u64 }
}

#[derive(Default)]
struct Text {
    /// Nothing is hidden from attention.
    blind: bool,
    scores: Mutex<Vec<Score>>,
}

impl Text {
    fn side(&self, batch: u64) -> Side {
        if self.blind { Side::new() } else { padding(batch) }
    }
}

impl Job<3, RevRoberta> for Text {
    fn device(&self) -> Device {
        Device::flex()
    }

    fn pass(&self, _: usize, batch: u64) -> Pass {
        Pass::training(7).step(batch).side(self.side(batch))
    }

    fn evaluation_pass(&self, position: u64) -> Pass {
        Pass::evaluation().side(self.side(1000 + position))
    }

    fn optimizer(&self) -> ModuleOptimizer {
        AdamWConfig::new().init()
    }

    fn rate(&self, batch: u64) -> f64 {
        0.01 / (1.0 + batch as f64)
    }

    fn batch(&self, batch: u64) -> (Tensor<2, Int>, Tensor<2, Int>) {
        data(batch)
    }

    fn test_batch(&self, position: u64) -> Option<(Tensor<2, Int>, Tensor<2, Int>)> {
        (position < TEST_BATCHES).then(|| data(1000 + position))
    }

    fn score(&self, output: Tensor<2>, target: Tensor<2, Int>) -> Score {
        score(output, target)
    }

    fn orders(&self, batch: u64) -> Orders {
        Orders { evaluate: batch + 1 == BATCHES / 2, ..Orders::default() }
    }

    fn evaluated(&self, score: Score) -> Result<(), String> {
        self.scores.lock().unwrap().push(score);
        Ok(())
    }
}

/// What a pipeline of `stages` makes of the network, and what its tests said.
fn trained(job: Text, method: Method, stages: usize) -> (Bits, Vec<Score>) {
    let network = network(&config());
    let settings = settings(method, network.places(), stages, BATCHES);
    let outcome = run_in_process(&network, &settings, &job, 1).expect("the pipeline runs");
    (bits(&outcome.network), job.scores.into_inner().unwrap())
}

/// The same by steps of the whole network.
fn ordinary() -> (Bits, Vec<Score>) {
    let (job, mut network) = (Text::default(), network(&config()));
    let mut optimizer = job.optimizer();
    let mut scores = Vec::new();
    for batch in 0..BATCHES {
        let (tokens, targets) = data(batch);
        let step = network.step(tokens, targets, job.pass(0, batch), Strategy::Stored).expect("a step");
        network = optimizer.step(job.rate(batch), network, step.gradients);
        if batch + 1 == BATCHES / 2 || batch + 1 == BATCHES {
            let tests = (0..TEST_BATCHES).map(|position| {
                let (tokens, targets) = data(1000 + position);
                score(network.predict(tokens, &job.evaluation_pass(position)).expect("a test"), targets)
            });
            scores.push(tests.fold(Score::default(), |sum, score| Score {
                right: sum.right + score.right,
                seen: sum.seen + score.seen,
            }));
        }
    }
    (bits(&network), scores)
}

#[test]
fn text_with_padding_trains_in_stages_as_it_does_in_one() {
    let (expected, scores) = ordinary();
    assert_ne!(expected, bits(&network(&config())), "training changes parameters");
    for stages in [1, 2, 3, 6] {
        for method in [Method::Backprop, Method::Reversible] {
            let (found, tests) = trained(Text::default(), method, stages);
            assert_same(&expected, &found, &format!("{method}, {stages} stages"));
            assert_eq!(tests, scores, "{method}, {stages} stages");
        }
    }
    let (blind, _) = trained(Text { blind: true, ..Text::default() }, Method::Backprop, 3);
    assert_ne!(blind, expected, "padding is hidden in the first place");
}

#[test]
fn text_trains_by_petra_to_the_same_bits_again() {
    let (expected, scores) = trained(Text::default(), Method::Petra, 3);
    assert_eq!(trained(Text::default(), Method::Petra, 3), (expected.clone(), scores));
    assert_ne!(expected, ordinary().0, "delayed gradients are not today's");
    let (whole, _) = trained(Text::default(), Method::Petra, 1);
    assert_same(&whole, &ordinary().0, "one stage");
}

#[test]
fn ends_that_share_a_table_are_refused_before_anything_is_done() {
    let network = network(&config().with_tied(true));
    let refused = |stages| {
        let settings = settings(Method::Petra, network.places(), stages, BATCHES);
        run_in_process(&network, &settings, &Text::default(), 1).err()
    };
    let name = "text.tokens".to_owned();
    assert_eq!(refused(3), Some(Error::Tied { name, first: 0, second: 2 }));
    assert_eq!(refused(1), None);
}
