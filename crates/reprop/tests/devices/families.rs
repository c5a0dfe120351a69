//! A small network of each family keeps the law of equal gradients on the device, with masks on.

use burn::tensor::{Int, Tensor, TensorData};
use reprop::{HiddenKeys, Input, Network, Pass, Side, Strategy, Target};
use reprop_models::{RevMvitConfig, RevResNetConfig, RevRobertaConfig, RevSwinConfig, RevVitConfig};

use crate::common::{assert_same, labels, noise, stepped, trainable};

const BATCH: usize = 2;
const CLASSES: usize = 5;

/// Asserts that all strategies give the gradients of `Stored`, which are the same in each run.
fn keeps_the_law<const D: usize, N: Network<D>>(
    what: &str,
    network: &N,
    (input, target, side): &(Input<D, N>, Target<D, N>, Side),
) {
    let data = (input.clone(), target.clone());
    let run = |strategy| stepped(network, &data, Pass::training(7).side(side.clone()), strategy);
    let stored = run(Strategy::Stored);
    for strategy in [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop, Strategy::PaReprop] {
        assert_same(&stored, &run(strategy), &format!("{what}: {strategy}"));
    }
}

fn images(side: usize) -> (Tensor<4>, Tensor<1, Int>, Side) {
    (noise(4, [BATCH, 3, side, side]), labels(BATCH, CLASSES), Side::new())
}

#[test]
fn rev_vit_keeps_the_law() {
    let config = RevVitConfig::new(16, 4, 16, 3, 2, 32).with_classes(CLASSES).with_deviation(0.2);
    let network = config.with_dropout(0.1).with_drop_path(0.3).init(3, &trainable());
    keeps_the_law("RevViT", &network, &images(16));
}

#[test]
fn rev_swin_keeps_the_law() {
    let config = RevSwinConfig::new(32, 12, vec![1, 2], 2).with_patch(2).with_classes(CLASSES);
    let config = config.with_dropout(0.1).with_drop_path(0.3).with_deviation(0.2);
    keeps_the_law("RevSwin", &config.init(3, &trainable()), &images(32));
}

#[test]
fn rev_mvit_keeps_the_law() {
    let config = RevMvitConfig::new(32, 8, vec![1, 2]).with_classes(CLASSES).with_deviation(0.2);
    let network = config.with_dropout(0.1).with_drop_path(0.3).init(3, &trainable());
    keeps_the_law("RevMViT", &network, &images(32));
}

#[test]
fn rev_resnet_keeps_the_law() {
    for (blocks, bottleneck) in [(vec![2, 3], false), (vec![2, 1], true)] {
        let config =
            RevResNetConfig::new(blocks, bottleneck).with_width(4).with_image(9).with_classes(CLASSES);
        assert_eq!(config.check(), Ok(()));
        keeps_the_law("RevResNet", &config.init(3, &trainable()), &images(9));
    }
}

/// Tokens come several times in a sequence, so that their gradients are sums.
#[test]
fn rev_roberta_keeps_the_law() {
    const LENGTH: usize = 12;
    let config = RevRobertaConfig::new(30, LENGTH, 12, 3, 2, 24).with_deviation(0.2);
    let network = config.with_dropout(0.1).with_drop_path(0.3).init(3, &trainable());
    let numbers = |number: fn(i64) -> i64| {
        let values: Vec<i64> = (0..(BATCH * LENGTH) as i64).map(number).collect();
        Tensor::<2, Int>::from_data(TensorData::new(values, [BATCH, LENGTH]), &crate::device())
    };
    let tokens = numbers(|index| (index * index) % 7);
    let targets = numbers(|index| if index % 5 == 0 { (3 * index) % 30 } else { -100 });
    let padding: Vec<bool> = (0..BATCH * LENGTH).map(|index| index >= BATCH * LENGTH - 3).collect();
    let padding = Tensor::from_data(TensorData::new(padding, [BATCH, LENGTH]), &crate::device());
    let side = Side::new().with(HiddenKeys(padding));
    keeps_the_law("RevRoBERTa", &network, &(tokens, targets, side));
}
