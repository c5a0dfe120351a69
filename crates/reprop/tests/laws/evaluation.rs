//! Evaluation uses no randomness, and says what the loss was computed from.

use burn::module::Module;
use reprop::{Network, Pass, Strategy};

use crate::common::{evaluation, mixed, training, user_data, user_network};

#[test]
fn evaluation_equals_itself_whatever_the_seed_rates_and_number_of_calls() {
    let data = user_data(3).0;
    let predict = |rate, pass: &Pass| {
        let network = user_network(&[2, 1], &[8, 6], mixed(rate));
        network.predict(data.clone(), pass).expect("an output").into_data()
    };
    let first = predict(0.3, &evaluation());
    assert_eq!(first, predict(0.3, &evaluation().step(9).call(4)));
    assert_eq!(first, predict(0.0, &evaluation()), "rates mean nothing in evaluation");
    assert_ne!(first, predict(0.3, &training(0)), "but they do in training");
}

#[test]
fn a_step_gives_the_output_that_prediction_gives() {
    let network = user_network(&[2, 1], &[8, 6], mixed(0.3));
    let (input, target) = user_data(3);
    let predicted = network.predict(input.clone(), &training(5)).expect("an output").into_data();
    let step = network.step(input, target, training(5), Strategy::PaReprop).expect("a step");
    assert_eq!(step.output.into_data(), predicted);
}

#[test]
fn a_network_off_the_graph_predicts_the_same() {
    let network = user_network(&[2, 1], &[8, 6], mixed(0.3));
    let predict = |network: &crate::common::User<crate::common::Mixed>| {
        network.predict(user_data(3).0, &evaluation()).expect("an output").into_data()
    };
    assert_eq!(predict(&network), predict(&network.clone().valid()));
}
