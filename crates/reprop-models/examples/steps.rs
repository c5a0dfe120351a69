//! Whole training steps, one at a time, for comparisons with other programs. Each line of the input, `MODEL STRATEGY
//! BATCH` (`rev-vit-s reprop 8`), is answered by the milliseconds of one step on noise: forward, backward and optimizer.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Write as _};
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Distribution, Int, Tensor};
use reprop::optim::AdamWConfig;
use reprop::{Meter, Network as _, Pass, Strategy};
use reprop_models::{Model, RevVit};

/// A network in training.
struct Training {
    /// Empty only while a step runs.
    network: Option<RevVit>,
    optimizer: ModuleOptimizer,
    images: Tensor<4>,
    labels: Tensor<1, Int>,
    strategy: Strategy,
}

impl Training {
    fn new(model: &str, strategy: &str, batch: usize) -> Option<Self> {
        let model = Model::by_name(model)?;
        let shape = model.images();
        let Model::RevVit(config) = model;
        let device = Device::flex();
        Some(Self {
            network: Some(config.init(1, &device.clone().autodiff())),
            optimizer: AdamWConfig::new().with_weight_decay(0.05).init(),
            images: Tensor::random(
                [batch, shape.channels, shape.side, shape.side],
                Distribution::Normal(0.0, 1.0),
                &device,
            ),
            labels: Tensor::zeros([batch], &device),
            strategy: strategy.parse().ok()?,
        })
    }

    fn step(&mut self) -> Option<()> {
        let network = self.network.take()?;
        let pass = Pass::training(1).meter(Meter::new());
        let step = network.step(self.images.clone(), self.labels.clone(), pass, self.strategy).ok()?;
        self.network = Some(self.optimizer.step(1e-4, network, step.gradients));
        Some(())
    }
}

fn main() -> io::Result<()> {
    let mut known = HashMap::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = || -> Option<f64> {
            let [model, strategy, batch] = words[..] else { return None };
            if !known.contains_key(&line) {
                known.insert(line.clone(), Training::new(model, strategy, batch.parse().ok()?)?);
            }
            let training = known.get_mut(&line)?;
            let start = Instant::now();
            training.step()?;
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
