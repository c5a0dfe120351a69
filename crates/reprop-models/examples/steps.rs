//! Whole training steps, one at a time, for comparisons with other programs. Each line of the input, `MODEL STRATEGY
//! BATCH` (`rev-vit-s reprop 8`), is answered by the milliseconds of one step on noise: forward, backward and optimizer.
//! Residual networks get images of 32x32 and SGD, the others their own images and `AdamW`; networks of text get sequences
//! of 128 tokens, with one in seven asked for. With `-kept` behind a strategy (`rev-vit-s reprop-kept 8`) a recovered block
//! keeps its attention's probabilities for its derivative; with `-bf16` or `-f16` (`rev-vit-s stored-bf16 8`) saved tensors are
//! kept in 16 bits.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Write as _};
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use reprop::layers::NOT_ASKED;
use reprop::optim::{AdamWConfig, SgdConfig};
use reprop::{Head, Input, Meter, Network, Pass, Stem, Storage, Strategy, Target};
use reprop_models::{Changes, LanguageModel, Model, ResNet, Vit};

/// Tokens of a sequence, as `bench/peers/networks/rev_roberta.py` has them: fewer than a network has places for.
const PLACES: usize = 128;
/// One token in so many is asked for, there too.
const ASKED: usize = 7;

/// Takes one step, of a pass that is changed first.
type Training = Box<dyn FnMut(Strategy, &dyn Fn(Pass) -> Pass) -> Option<()>>;

fn training<const D: usize, N>(
    network: N,
    mut optimizer: ModuleOptimizer,
    input: Input<D, N>,
    target: Target<D, N>,
) -> Training
where
    N: Network<D, Stem: Stem<D, Input: 'static>, Head: Head<D, Target: 'static>> + 'static,
{
    // Empty only while a step runs.
    let mut network = Some(network);
    Box::new(move |strategy, change| {
        let before = network.take()?;
        let pass = change(Pass::training(1).meter(Meter::new()));
        let step = before.step(input.clone(), target.clone(), pass, strategy).ok()?;
        network = Some(step.statistics.apply(optimizer.step(1e-4, before, step.gradients)));
        Some(())
    })
}

fn adam() -> ModuleOptimizer {
    AdamWConfig::new().with_weight_decay(0.05).init()
}

fn sgd() -> ModuleOptimizer {
    SgdConfig::new().with_weight_decay(5e-4).init()
}

fn begin(model: &str, batch: usize) -> Option<Training> {
    match LanguageModel::by_name(model) {
        Some(model) => Some(begin_text(&model, batch)),
        None => Some(begin_images(Model::by_name(model)?, batch)),
    }
}

fn begin_images(model: Model, batch: usize) -> Training {
    let small = Changes { image: Some(32), classes: Some(10), ..Changes::default() };
    let model = if matches!(model, Model::RevResNet(_)) { model.change(&small) } else { model };
    let shape = model.images();
    let device = Device::flex();
    let sizes = [batch, shape.channels, shape.side, shape.side];
    let images: Tensor<4> = Tensor::random(sizes, Distribution::Normal(0.0, 1.0), &device);
    let labels: Tensor<1, Int> = Tensor::zeros([batch], &device);
    let device = device.autodiff();
    match model {
        Model::RevVit(config) => training(config.init(1, &device), adam(), images, labels),
        Model::RevSwin(config) => training(config.init(1, &device), adam(), images, labels),
        Model::RevMvit(config) => training(config.init(1, &device), adam(), images, labels),
        Model::RevResNet(config) => training(config.init(1, &device), sgd(), images, labels),
        Model::Vit(config) => training(Vit::new(&config, 1, &device), adam(), images, labels),
        Model::ResNet(config) => training(ResNet::new(&config, 1, &device), sgd(), images, labels),
    }
}

fn begin_text(LanguageModel::RevRoberta(config): &LanguageModel, batch: usize) -> Training {
    let device = Device::flex();
    let count = batch * PLACES;
    let token = |index: usize| {
        let hash = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (hash % config.vocabulary as u64) as i64
    };
    let asked = |index: usize| if index.is_multiple_of(ASKED) { token(index + count) } else { NOT_ASKED };
    let tensor = |values: Vec<i64>| -> Tensor<2, Int> {
        Tensor::from_data(TensorData::new(values, [batch, PLACES]), &device)
    };
    let tokens = tensor((0..count).map(token).collect());
    let targets = tensor((0..count).map(asked).collect());
    training(config.init(1, &device.clone().autodiff()), adam(), tokens, targets)
}

fn main() -> io::Result<()> {
    reprop::keep_freed_memory();
    reprop::join_pool(None);
    // One network under all strategies: the largest have gigabytes of weights and moments.
    let mut known = HashMap::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = || -> Option<f64> {
            let [model, strategy, batch] = words[..] else { return None };
            let (strategy, change) = strategy.split_once('-').unwrap_or((strategy, "f32"));
            let change: Box<dyn Fn(Pass) -> Pass> = if change == "kept" {
                Box::new(Pass::keep_probabilities)
            } else {
                let storage: Storage = change.parse().ok()?;
                Box::new(move |pass| pass.saved_in(storage))
            };
            let (strategy, batch) = (strategy.parse().ok()?, batch.parse().ok()?);
            let name = (model.to_owned(), batch);
            if !known.contains_key(&name) {
                known.insert(name.clone(), begin(model, batch)?);
            }
            let step = known.get_mut(&name)?;
            let start = Instant::now();
            step(strategy, &change)?;
            Some(start.elapsed().as_secs_f64() * 1e3)
        }();
        match answer {
            Some(milliseconds) => println!("{milliseconds:.3}"),
            None => println!("cannot run `{line}`: give a model, a strategy and a batch"),
        }
        io::stdout().flush()?;
    }
    Ok(())
}
