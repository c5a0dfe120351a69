//! A test set through the pipeline is classified as by the whole network.

use reprop::{Network, Pass};
use reprop_pipeline::{Job, Method, Score};

use crate::common::{Noise, data, resnet, run, settings};

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
