//! Measuring one network under several strategies.

use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use indicatif::ProgressBar;
use reprop::optim::AdamWConfig;
use reprop::{Meter, Pass, Strategy, Trace, gradient_digest};
use reprop_models::Model;

use crate::failure::Failure;
use crate::images::{Batch, ImageNetwork, Task};
use crate::memory;
use crate::options::Numbers;
use crate::plan;

use super::Run;

/// One network and batch size, with all strategies to compare.
pub struct Case {
    pub name: String,
    pub model: Model,
    pub batch: usize,
    pub strategies: Vec<Strategy>,
    pub numbers: Numbers,
    pub warmup: usize,
    pub steps: usize,
    pub threads: usize,
}

pub struct Measurement {
    pub case: Case,
    pub seed: u64,
    pub device: Device,
    pub bar: ProgressBar,
    pub trace: Option<Trace>,
}

impl Measurement {
    fn pass(&self, step: usize) -> Pass {
        let pass = Pass::training(self.seed)
            .step(step as u64)
            .arithmetic(self.case.numbers.arithmetic())
            .precision(self.case.numbers.precision())
            .kernels(self.case.numbers.kernels)
            .meter(Meter::new());
        match &self.trace {
            Some(trace) => pass.trace(trace),
            None => pass,
        }
    }

    fn blank<const D: usize, N: ImageNetwork<D>>(
        &self,
        network: &N,
        strategy: Strategy,
    ) -> Result<Run, Failure> {
        let prediction = network.predicted(self.case.batch, &self.pass(0), strategy)?;
        Ok(Run {
            model: self.case.name.clone(),
            batch: self.case.batch,
            depth: network.pieces().len(),
            strategy: strategy.to_string(),
            threads: self.case.threads,
            step_seconds: Vec::new(),
            median_seconds: 0.0,
            samples_per_second: 0.0,
            peak_bytes: 0,
            activation_peak_bytes: 0,
            predicted_activation_bytes: prediction.map(|prediction| prediction.activation_peak),
            loss: 0.0,
            gradient_digest: String::new(),
        })
    }

    /// One step with its optimizer. The updated network is thrown away, so that every strategy sees the same weights.
    fn step<const D: usize, N: ImageNetwork<D>>(
        &self,
        network: &N,
        optimizer: &mut ModuleOptimizer,
        batch: &Batch,
        round: usize,
        strategy: Strategy,
        run: &mut Run,
    ) -> Result<f64, Failure> {
        let Batch { images, labels } = batch.clone();
        memory::reset_peak();
        let start = Instant::now();
        let result = network.step(images, labels, self.pass(round), strategy)?;
        let mut time = start.elapsed();
        if round == 0 {
            run.gradient_digest = gradient_digest(network, &result.gradients);
            run.loss = result.loss;
        }
        let start = Instant::now();
        let updated = optimizer.step(1e-3, network.clone(), result.gradients);
        time += start.elapsed();
        drop(updated);
        run.peak_bytes = run.peak_bytes.max(memory::peak());
        run.activation_peak_bytes = run.activation_peak_bytes.max(result.memory.activation_peak);
        self.bar.inc(1);
        Ok(time.as_secs_f64())
    }
}

impl Task for Measurement {
    type Output = Result<Vec<Run>, Failure>;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> Self::Output {
        let Case { batch, warmup, steps, ref strategies, ref model, .. } = self.case;
        let samples = Batch::noise(batch, model.images(), self.seed, &self.device);
        let mut optimizer = AdamWConfig::new().init();
        // What `auto` comes to is found before the clock starts.
        let strategies = &strategies
            .iter()
            .map(|&strategy| {
                let sample = || (samples.images.clone(), samples.labels.clone());
                plan::resolve(&network, batch, &self.pass(0), strategy, sample)
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        let mut runs = strategies
            .iter()
            .zip(&self.case.strategies)
            .map(|(&strategy, asked)| {
                Ok(Run { strategy: asked.to_string(), ..self.blank(&network, strategy)? })
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        for round in 0..warmup + steps {
            for (&strategy, run) in strategies.iter().zip(&mut runs) {
                let seconds = self.step(&network, &mut optimizer, &samples, round, strategy, run)?;
                if round >= warmup {
                    run.step_seconds.push(seconds);
                }
            }
        }
        for run in &mut runs {
            run.median_seconds = median(&run.step_seconds);
            run.samples_per_second = batch as f64 / run.median_seconds;
        }
        Ok(runs)
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
    }
}
