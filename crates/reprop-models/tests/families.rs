//! The laws on a small network of each family: gradients equal bit for bit under every strategy, on both kinds of kernels,
//! at any number of threads, at odd and even depths with masks on; and memory as predicted.

use burn::module::Param;
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{
    HiddenKeys, Input, Inputs, Kernels, Mode, Network, Pass, Side, Step, Strategy, Target, gradient_digest,
};
use reprop_models::{RevMvitConfig, RevRoberta, RevRobertaConfig, RevSwinConfig, RevVitConfig};

/// Of the last two every block is recovered.
const STRATEGIES: [Strategy; 5] = [
    Strategy::Stored,
    Strategy::Reprop,
    Strategy::PaReprop,
    Strategy::Planned(recover_all(false)),
    Strategy::Planned(recover_all(true)),
];
const KERNELS: [Kernels; 2] = [Kernels::Auto, Kernels::Burn];
/// The law's own.
const PREDICTION: f64 = 0.05;

const fn recover_all(overlap: bool) -> Mode {
    Mode { blocks_kept: 0, overlap, recompute_transitions: false, inputs: Inputs::Kept }
}

/// Asserts the laws for a batch.
fn keeps_the_laws<N: Network<3> + Sync>(
    what: &str,
    network: &N,
    (input, target, side): &(Input<3, N>, Target<3, N>, Side),
    batch: usize,
) where
    Input<3, N>: Sync,
    Target<3, N>: Sync,
{
    let cases = KERNELS.into_iter().flat_map(|kernels| [false, true].map(|recompute| (kernels, recompute)));
    for (kernels, recompute) in cases {
        let pass = || {
            let pass = Pass::training(7).kernels(kernels).side(side.clone());
            if recompute { pass.recompute_transitions() } else { pass }
        };
        let step = |strategy| {
            network.step(input.clone(), target.clone(), pass(), strategy).expect("the step goes through")
        };
        let plain = Pass::training(7).kernels(kernels).side(side.clone());
        let stored = network.step(input.clone(), target.clone(), plain, Strategy::Stored).expect("a step");
        let stored = gradient_digest(network, &stored.gradients);
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            for strategy in STRATEGIES {
                let what =
                    format!("{what}: {strategy:?}, {kernels}, {threads} threads, recomputed: {recompute}");
                let (digest, measured) = pool.install(|| {
                    let step = step(strategy);
                    (gradient_digest(network, &step.gradients), step.memory.activation_peak)
                });
                assert_eq!(digest, stored, "{what}");
                let predicted =
                    network.predicted(batch, &pass(), strategy).expect("a plan").expect("a prediction");
                let ratio = predicted.activation_peak as f64 / measured as f64;
                assert!(
                    (ratio - 1.0).abs() <= PREDICTION,
                    "{what}: predicted {ratio} of {measured} measured"
                );
            }
        }
    }
}

fn noise<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let elements: usize = shape.iter().product();
    let word = |index: u64| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let values: Vec<f32> = (0..elements as u64).map(|i| word(i) as f32 / (1 << 23) as f32 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

fn numbers<const D: usize>(shape: [usize; D], number: impl Fn(i64) -> i64) -> Tensor<D, Int> {
    let elements: usize = shape.iter().product();
    let values: Vec<i64> = (0..elements as i64).map(number).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

/// Samples of a batch of images.
const BATCH: usize = 3;

fn images(side: usize, classes: i64) -> (Tensor<4>, Tensor<1, Int>, Side) {
    (noise([BATCH, 3, side, side]), numbers([BATCH], |index| (2 * index + 1) % classes), Side::new())
}

/// Where parameters live. Wide initial weights, so that no gradient drowns.
fn trainable() -> Device {
    Device::flex().autodiff()
}

#[test]
fn rev_swin_keeps_the_laws() {
    for depths in [vec![1, 2, 3], vec![2, 3], vec![3], vec![2, 1, 1]] {
        let config = RevSwinConfig::new(32, 12, depths.clone(), 2)
            .with_patch(2)
            .with_classes(5)
            .with_dropout(0.1)
            .with_drop_path(0.3)
            .with_deviation(0.2);
        let network = config.init(3, &trainable());
        keeps_the_laws(&format!("RevSwin {depths:?}"), &network, &images(32, 5), BATCH);
    }
}

#[test]
fn rev_mvit_keeps_the_laws() {
    for depths in [vec![1, 2], vec![2, 1, 1], vec![3]] {
        let config = RevMvitConfig::new(32, 8, depths.clone())
            .with_classes(5)
            .with_dropout(0.1)
            .with_drop_path(0.3)
            .with_deviation(0.2);
        let network = config.init(3, &trainable());
        keeps_the_laws(&format!("RevMViT {depths:?}"), &network, &images(32, 5), BATCH);
    }
}

/// 15 % of the places are asked for; the last places of some sequences are padding.
fn sequences() -> (Tensor<2, Int>, Tensor<2, Int>, Side) {
    let tokens = numbers([BATCH, 40], |index| (index * index) % 300);
    let targets = numbers([BATCH, 40], |index| if index % 20 % 7 == 0 { (3 * index) % 300 } else { -100 });
    let padding = (0..BATCH * 40).map(|index| index % 40 >= 40 - index / 40).collect::<Vec<bool>>();
    let padding = Tensor::from_data(TensorData::new(padding, [BATCH, 40]), &Device::flex());
    (tokens, targets, Side::new().with(HiddenKeys(padding)))
}

fn rev_roberta(depth: usize) -> RevRobertaConfig {
    let config = RevRobertaConfig::new(300, 40, 24, depth, 3, 60);
    config.with_dropout(0.1).with_drop_path(0.3).with_deviation(0.2)
}

#[test]
fn rev_roberta_keeps_the_laws() {
    for depth in 1..=4 {
        for tied in [true, false] {
            let network = rev_roberta(depth).with_tied(tied).init(3, &trainable());
            keeps_the_laws(&format!("RevRoBERTa {depth}, tied: {tied}"), &network, &sequences(), BATCH);
        }
    }
}

#[test]
fn tables_at_both_ends_have_the_parts_of_the_gradient_of_the_one_they_could_share() {
    let tied = rev_roberta(2).init(3, &trainable());
    let mut parted = tied.clone();
    parted.text.scores = Some(Param::from_tensor(tied.text.tokens.val()));
    let step = |network: &RevRoberta| {
        let (tokens, targets, side) = sequences();
        network.step(tokens, targets, Pass::training(7).side(side), Strategy::Reprop).expect("a step")
    };
    let of = |step: &Step<Tensor<2>>, param: &Param<Tensor<2>>| -> Tensor<2> {
        step.gradients.get(param.id).expect("a gradient")
    };
    let (one, two) = (step(&tied), step(&parted));
    assert_eq!(one.loss.to_bits(), two.loss.to_bits());
    let scores = parted.text.scores.as_ref().expect("a table of its own");
    let sum = of(&two, scores) + of(&two, &parted.text.tokens);
    assert_eq!(of(&one, &tied.text.tokens).into_data(), sum.into_data());
}

#[test]
fn probabilities_that_are_kept_change_memory_and_no_bit() {
    // Probabilities of 64 tokens in two heads, in a width of 32: as many floats as `q k v` and the heads' values.
    let config = RevVitConfig::new(32, 4, 32, 3, 2, 64).with_classes(5).with_dropout(0.1).with_deviation(0.2);
    let network = config.init(3, &trainable());
    let (images, labels, _) = images(32, 5);
    let step = |pass: Pass| {
        let predicted =
            network.predicted(BATCH, &pass, Strategy::Reprop).expect("a plan").expect("a prediction");
        let step = network.step(images.clone(), labels.clone(), pass, Strategy::Reprop).expect("a step");
        let ratio = predicted.activation_peak as f64 / step.memory.activation_peak as f64;
        assert!((ratio - 1.0).abs() <= PREDICTION, "predicted {ratio} of what was measured");
        (gradient_digest(&network, &step.gradients), step.memory.activation_peak)
    };
    let (again, kept) = (step(Pass::training(7)), step(Pass::training(7).keep_probabilities()));
    assert_eq!(again.0, kept.0);
    let probabilities = (BATCH * 2 * 64 * 64 * size_of::<f32>()) as u64;
    assert!(kept.1 >= again.1 + probabilities, "{} bytes kept, {} without", kept.1, again.1);
}

/// Samples of a batch in which what is needed once, such as packed weights, is spread over many images.
const MANY: u64 = 64;

/// Bytes that storing and `reprop` need for one image of many, as predicted for fused kernels.
fn saving<N: Network<3>>(what: &str, network: &N) -> (f64, f64) {
    let peak = |pass: &Pass, strategy| {
        let prediction = network.predicted(MANY as usize, pass, strategy).expect("a plan");
        prediction.expect("a prediction").activation_peak as f64 / MANY as f64
    };
    let pass = Pass::training(0);
    let [stored, reprop] = [Strategy::Stored, Strategy::Reprop].map(|strategy| peak(&pass, strategy));
    let recomputed = peak(&pass.recompute_transitions(), Strategy::Reprop);
    println!(
        "{what}: MB an image: {:.1} stored, {:.1} recovered ({:.2}x), {:.1} with transitions recomputed ({:.2}x)",
        stored / 1e6,
        reprop / 1e6,
        stored / reprop,
        recomputed / 1e6,
        stored / recomputed,
    );
    (stored, reprop)
}

/// Published are 8.8, 17.0 and 22.6 MB an image for RevViT-S, B and L, and 35 MiB for RevSwin-S, at 7.6, 7.6, 15.5 and 5.0
/// times less than storing.
#[test]
fn published_sizes_need_less_memory_than_published() {
    let vit = |config: RevVitConfig| config.init(0, &Device::flex());
    let small = RevSwinConfig::small().init(0, &Device::flex());
    let savings = [
        (saving("RevViT-S", &vit(RevVitConfig::small())), 8.8e6, 7.5),
        (saving("RevViT-B", &vit(RevVitConfig::base())), 17.0e6, 7.5),
        (saving("RevViT-L", &vit(RevVitConfig::large())), 22.6e6, 15.0),
        (saving("RevSwin-S", &small), 35.0 * 1_048_576.0, 5.0),
    ];
    for ((stored, recovered), published, factor) in savings {
        assert!(recovered <= published, "{recovered} bytes, and {published} are published");
        assert!(stored / recovered >= factor, "{} times less", stored / recovered);
    }
}

#[test]
fn what_is_predicted_makes_no_weights() {
    let network = RevVitConfig::small().init(0, &Device::flex());
    for strategy in STRATEGIES {
        network.predicted(8, &Pass::training(1), strategy).expect("bytes");
    }
    for block in &network.blocks {
        let [qkv, expand] = [&block.attention.qkv.weight, &block.mlp.expand.weight];
        assert!(!qkv.is_initialized() && !expand.is_initialized());
    }
}
