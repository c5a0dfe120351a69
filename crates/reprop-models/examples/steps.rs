//! Whole training steps, one at a time, for comparisons with other programs. Each line of the input, `MODEL STRATEGY
//! BATCH` (`rev-vit-s reprop 8`), is answered by the milliseconds of one step on noise: forward, backward and optimizer.
//! Residual networks get images of 32x32 and SGD, the others their own images and `AdamW`.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Write as _};
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Distribution, Int, Tensor};
use reprop::optim::{AdamWConfig, SgdConfig};
use reprop::{Head, Meter, Network, Pass, Stem, Strategy};
use reprop_models::{Changes, Model, ResNet, Vit};

/// Takes one step.
type Training = Box<dyn FnMut() -> Option<()>>;

fn training<const D: usize, N>(
    network: N,
    mut optimizer: ModuleOptimizer,
    images: Tensor<4>,
    strategy: Strategy,
) -> Training
where
    N: Network<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>> + 'static,
{
    let labels = Tensor::zeros([images.dims()[0]], &images.device());
    // Empty only while a step runs.
    let mut network = Some(network);
    Box::new(move || {
        let before = network.take()?;
        let pass = Pass::training(1).meter(Meter::new());
        let step = before.step(images.clone(), labels.clone(), pass, strategy).ok()?;
        network = Some(step.statistics.apply(optimizer.step(1e-4, before, step.gradients)));
        Some(())
    })
}

fn begin(model: &str, strategy: &str, batch: usize) -> Option<Training> {
    let strategy = strategy.parse().ok()?;
    let model = Model::by_name(model)?;
    let small = Changes { image: Some(32), classes: Some(10), ..Changes::default() };
    let model = if matches!(model, Model::RevResNet(_)) { model.change(&small) } else { model };
    let shape = model.images();
    let device = Device::flex();
    let sizes = [batch, shape.channels, shape.side, shape.side];
    let images = Tensor::random(sizes, Distribution::Normal(0.0, 1.0), &device);
    let device = device.autodiff();
    let adam = AdamWConfig::new().with_weight_decay(0.05).init();
    Some(match model {
        Model::RevVit(config) => training(config.init(1, &device), adam, images, strategy),
        Model::RevSwin(config) => training(config.init(1, &device), adam, images, strategy),
        Model::RevMvit(config) => training(config.init(1, &device), adam, images, strategy),
        Model::RevResNet(config) => {
            let sgd = SgdConfig::new().with_weight_decay(5e-4).init();
            training(config.init(1, &device), sgd, images, strategy)
        }
        Model::Vit(config) => training(Vit::new(&config, 1, &device), adam, images, strategy),
        Model::ResNet(config) => {
            let sgd = SgdConfig::new().with_weight_decay(5e-4).init();
            training(ResNet::new(&config, 1, &device), sgd, images, strategy)
        }
    })
}

fn main() -> io::Result<()> {
    reprop::keep_freed_memory();
    reprop::join_pool(None);
    let mut known = HashMap::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = || -> Option<f64> {
            let [model, strategy, batch] = words[..] else { return None };
            if !known.contains_key(&line) {
                known.insert(line.clone(), begin(model, strategy, batch.parse().ok()?)?);
            }
            let step = known.get_mut(&line)?;
            let start = Instant::now();
            step()?;
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
