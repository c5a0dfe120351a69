//! A test set through the pipeline is classified as by the whole network.

use reprop::{Network, Pass};
use reprop_pipeline::{Job, Method, Score};

use crate::common::{Noise, assert_same, bits, data, resnet, run, settings};

#[test]
fn a_test_in_the_middle_is_one_of_the_parameters_of_that_day_and_changes_nothing() {
    let network = resnet();
    for method in [Method::Backprop, Method::Petra, Method::Dsp] {
        let settings = |batches| settings(method, network.places(), 4, batches);
        let whole = run(&network, &settings(9), &Noise::default());
        let job = Noise { evaluate_at: vec![2, 3, 7], ..Noise::default() };
        let tested = run(&network, &settings(9), &job);
        assert_same(&bits(&whole.network), &bits(&tested.network), "with tests");
        let scores = job.scores.into_inner().unwrap();
        assert_eq!((scores.len(), scores.last().copied()), (4, whole.score), "{method}");
        assert!(scores.iter().all(|score| score.seen == 12));
        if method.is_synchronous() {
            assert_eq!(Some(scores[0]), run(&network, &settings(3), &Noise::default()).score);
        }
    }
}

#[test]
fn a_test_through_the_stages_is_a_test_of_the_network() {
    let network = resnet();
    let job = Noise::default();
    for stages in [1, 4] {
        let found = run(&network, &settings(Method::Petra, network.places(), stages, 6), &job);
        let mut expected = Score::default();
        for position in 0..4 {
            let (images, labels) = data(1000 + position);
            let output = found.network.predict(images, &Pass::evaluation()).unwrap();
            let score = Job::<4, reprop_models::RevResNet>::score(&job, output, labels);
            expected = Score { right: expected.right + score.right, seen: expected.seen + score.seen };
        }
        assert_eq!(found.score, Some(expected));
    }
}
