//! Masks: different in every place, the same in every replay, none in evaluation.

use burn::tensor::Tensor;
use reprop::{Context, Network, Pass};

use crate::common::{evaluation, mixed, noise, training, user_data, user_network};

const RATE: f64 = 0.5;

/// The mask that a sub-block sees: what is left of ones.
fn mask(context: &Context<'_>, site: u64) -> Vec<f32> {
    let ones = Tensor::<2>::ones([16, 16], &crate::device());
    context.dropout(ones, RATE, site).into_data().try_to_vec().expect("floats")
}

#[test]
fn masks_differ_between_f_and_g_sites_blocks_calls_steps_and_seeds() {
    let pass = || training(1).step(2).call(3);
    let passes =
        [pass(), training(2).step(2).call(3), pass().step(3), pass().call(4), pass().step(3).call(2)];
    let mut seen = Vec::new();
    for pass in &passes {
        for block in 0..3 {
            for branch in 0..2 {
                for site in 0..2 {
                    seen.push(mask(&pass.context(block).branch(branch), site));
                }
            }
        }
    }
    let places = seen.len();
    seen.sort_by(|a, b| a.partial_cmp(b).expect("no mask holds NaN"));
    seen.dedup();
    assert_eq!(seen.len(), places, "two places share a mask");
}

#[test]
fn a_mask_is_the_same_each_time_on_any_number_of_threads() {
    let pass = training(1);
    // Larger than one task fills.
    let draw = || pass.context(4).dropout(noise(0, [3, 50_000]), RATE, 0).into_data();
    let first = draw();
    for threads in 1..=4 {
        assert_eq!(crate::common::with_threads(threads, draw), first, "{threads} threads");
    }
}

#[test]
fn drop_path_drops_whole_samples() {
    let pass = training(1);
    let kept = pass.context(1).drop_path(Tensor::<2>::ones([64, 3], &crate::device()), RATE, 1);
    let rows = kept.into_data().try_to_vec::<f32>().expect("floats");
    let rows: Vec<&[f32]> = rows.chunks(3).collect();
    assert!(rows.iter().all(|row| *row == [0.0; 3] || *row == [2.0; 3]), "rows are whole");
    assert!(rows.contains(&&[0.0; 3][..]) && rows.contains(&&[2.0; 3][..]), "some are dropped and some kept");
}

#[test]
fn masks_matter_to_the_streams() {
    let network = user_network(&[2], &[8], mixed(0.25));
    let streams = |pass: Pass| network.streams(user_data(3).0, &pass).expect("streams").x1.into_data();
    assert_ne!(streams(training(1)), streams(evaluation()));
    assert_ne!(streams(training(1)), streams(training(1).call(1)));
    assert_eq!(streams(training(1)), streams(training(1)));
}
