//! A network that is measured, whatever its type.

use std::collections::BTreeMap;
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use reprop::optim::AdamWConfig;
use reprop::{Input, Meter, Network, Pass, Strategy, Target, Trace, gradient_digest};

use crate::failure::Failure;
use crate::memory;
use crate::options::Numbers;
use crate::plan;
use crate::sample::{Noise, Sample, Scored, Trial};

/// A network with its optimizer.
pub trait Subject: Send {
    /// Blocks and transitions.
    fn depth(&self) -> usize;

    /// What `auto` comes to, found before the clock starts; other strategies are themselves.
    fn resolve(&mut self, batch: usize, strategy: Strategy) -> Result<Strategy, Failure>;

    /// Activation bytes at the peak, where the network can tell.
    fn predicted(&mut self, batch: usize, strategy: Strategy) -> Result<Option<u64>, Failure>;

    /// One step with its optimizer. The updated network is thrown away, so that every step sees the same weights.
    fn step(
        &mut self,
        batch: usize,
        strategy: Strategy,
        round: usize,
        trace: Option<&Trace>,
    ) -> Result<Taken, Failure>;
}

/// What a step was.
pub struct Taken {
    pub seconds: f64,
    pub loss: f32,
    /// Of the first round; hashing takes time.
    pub digest: Option<String>,
    pub activation_peak_bytes: u64,
    /// The most that the process held meanwhile.
    pub peak_bytes: u64,
    /// Of the first round: what the device's allocator took for the step, where it tells.
    pub device_reserved_bytes: Option<u64>,
}

/// Makes a network into a subject.
pub struct Making {
    pub numbers: Numbers,
    pub seed: u64,
    pub device: Device,
}

impl Trial for Making {
    type Output = Box<dyn Subject>;

    fn run<const D: usize, N: Scored<D>>(self, network: N, noise: Noise<D, N>) -> Self::Output {
        let optimizer = AdamWConfig::new().init();
        Box::new(Measured::<D, N> { network, optimizer, noise, batches: BTreeMap::new(), making: self })
    }
}

struct Measured<const D: usize, N: Network<D>> {
    network: N,
    optimizer: ModuleOptimizer,
    noise: Noise<D, N>,
    /// Noise, by its size.
    batches: BTreeMap<usize, (Input<D, N>, Target<D, N>)>,
    making: Making,
}

impl<const D: usize, N: Scored<D>> Measured<D, N> {
    fn pass(&self, round: usize) -> Pass {
        let Making { numbers, seed, .. } = self.making;
        numbers.on(Pass::training(seed)).step(round as u64).meter(Meter::new())
    }

    /// Bytes that the device's allocator has taken, where it tells.
    fn reserved(&self) -> Option<u64> {
        Some(self.making.device.memory_pool_usage()?.bytes_reserved)
    }

    fn batch(&self, batch: usize) -> (Input<D, N>, Target<D, N>) {
        let Sample { input, target, .. } = (self.noise)(batch);
        (input, target)
    }
}

impl<const D: usize, N: Scored<D>> Subject for Measured<D, N> {
    fn depth(&self) -> usize {
        self.network.pieces().len()
    }

    fn resolve(&mut self, batch: usize, strategy: Strategy) -> Result<Strategy, Failure> {
        plan::resolve(&self.network, batch, &self.pass(0), strategy, || self.batch(batch))
    }

    fn predicted(&mut self, batch: usize, strategy: Strategy) -> Result<Option<u64>, Failure> {
        let prediction = self.network.predicted(batch, &self.pass(0), strategy)?;
        Ok(prediction.map(|prediction| prediction.activation_peak))
    }

    fn step(
        &mut self,
        batch: usize,
        strategy: Strategy,
        round: usize,
        trace: Option<&Trace>,
    ) -> Result<Taken, Failure> {
        let pass = match trace {
            Some(trace) => self.pass(round).trace(trace),
            None => self.pass(round),
        };
        if !self.batches.contains_key(&batch) {
            self.batches.insert(batch, self.batch(batch));
        }
        let (input, target) = self.batches[&batch].clone();
        let first = round == 0;
        if first {
            // What earlier runs left in the pools is given back, so that only what this one takes is counted.
            self.making.device.memory_cleanup();
        }
        let before = if first { self.reserved() } else { None };
        memory::reset_peak();
        let start = Instant::now();
        let result = self.network.step(input, target, pass, strategy)?;
        let mut time = start.elapsed();
        let digest = first.then(|| gradient_digest(&self.network, &result.gradients));
        let start = Instant::now();
        let updated = self.optimizer.step(1e-3, self.network.clone(), result.gradients);
        // A device may still be at work.
        self.making.device.sync()?;
        time += start.elapsed();
        drop(updated);
        let taken = before.and_then(|before| Some(self.reserved()?.saturating_sub(before)));
        Ok(Taken {
            seconds: time.as_secs_f64(),
            loss: result.loss,
            digest,
            activation_peak_bytes: result.memory.activation_peak,
            peak_bytes: memory::peak(),
            device_reserved_bytes: taken,
        })
    }
}
