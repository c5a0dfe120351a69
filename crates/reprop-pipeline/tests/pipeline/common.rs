//! Networks, data and a job that the tests share.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use burn::module::Module;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{Head, Pass, Stem, named_parameters};
use reprop_models::{RevResNet, RevResNetConfig, RevVit, RevVitConfig};
use reprop_pipeline::{Job, Method, Orders, Outcome, Piped, Report, Score, Settings, run_in_process, split};

/// Stem, block, block, transition, block, transition, block, head: 8 places.
pub fn resnet() -> RevResNet {
    let config = RevResNetConfig::new(vec![2, 2, 2], false).with_width(4).with_image(8).with_classes(5);
    config.init(3, &Device::flex().autodiff())
}

/// Reversible but for its ends, with masks.
pub fn vit(depth: usize) -> RevVit {
    let config = RevVitConfig::new(8, 4, 8, depth, 2, 16).with_classes(5).with_deviation(0.2);
    config.with_dropout(0.1).with_drop_path(0.1).init(3, &Device::flex().autodiff())
}

/// Values in `[-1, 1)` that depend on the seed and the shape alone.
fn noise(seed: u64, shape: [usize; 4]) -> Tensor<4> {
    let elements = shape.iter().product::<usize>() as u64;
    let values: Vec<f32> = (0..elements)
        .map(|index| {
            let word = (seed << 32 ^ index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

pub fn data(batch: u64) -> (Tensor<4>, Tensor<1, Int>) {
    let labels: Vec<i64> = (0..3).map(|sample| ((3 * sample + batch + 1) % 5) as i64).collect();
    (noise(batch, [3, 3, 8, 8]), Tensor::from_data(TensorData::new(labels, [3]), &Device::flex()))
}

/// A job on noise, which keeps its records in memory.
pub struct Noise {
    /// The learning rate of each batch's update.
    pub rate: fn(u64) -> f64,
    pub adam: bool,
    /// Without momentum.
    pub plain: bool,
    /// Batches after which the test set goes through the stages.
    pub evaluate_at: Vec<u64>,
    pub scores: Mutex<Vec<Score>>,
    pub cosines: Mutex<Vec<(u64, Vec<f64>)>>,
    /// Batches after which a record is saved.
    pub record_at: Vec<u64>,
    pub stop_at: Option<u64>,
    /// Where to go on from.
    pub resume: Option<HashMap<usize, Vec<u8>>>,
    pub records: Mutex<HashMap<u64, HashMap<usize, Vec<u8>>>>,
    pub committed: Mutex<Vec<u64>>,
    pub reports: Mutex<Vec<Report>>,
    /// A batch whose report fails.
    pub fail_at: Option<u64>,
    /// A batch whose score panics, in the last stage.
    pub panic_at: Option<u64>,
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            rate: |batch| 0.05 / (1.0 + 0.1 * batch as f64),
            adam: false,
            plain: false,
            evaluate_at: Vec::new(),
            scores: Mutex::default(),
            cosines: Mutex::default(),
            record_at: Vec::new(),
            stop_at: None,
            resume: None,
            records: Mutex::default(),
            committed: Mutex::default(),
            reports: Mutex::default(),
            fail_at: None,
            panic_at: None,
        }
    }
}

impl Noise {
    pub fn make_optimizer(&self) -> ModuleOptimizer {
        if self.adam {
            return AdamWConfig::new().init();
        }
        if self.plain {
            return SgdConfig::new().init();
        }
        let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0).with_nesterov(true);
        SgdConfig::new().with_momentum(Some(momentum)).init()
    }
}

impl<const D: usize, N> Job<D, N> for Noise
where
    N: Piped<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>, Output = Tensor<2>>>,
{
    fn device(&self) -> Device {
        Device::flex()
    }

    fn pass(&self, _: usize, batch: u64) -> Pass {
        Pass::training(7).step(batch)
    }

    fn evaluation_pass(&self, _: u64) -> Pass {
        Pass::evaluation()
    }

    fn optimizer(&self) -> ModuleOptimizer {
        self.make_optimizer()
    }

    fn rate(&self, batch: u64) -> f64 {
        (self.rate)(batch)
    }

    fn batch(&self, batch: u64) -> (Tensor<4>, Tensor<1, Int>) {
        data(batch)
    }

    fn test_batch(&self, position: u64) -> Option<(Tensor<4>, Tensor<1, Int>)> {
        (position < 4).then(|| data(1000 + position))
    }

    fn score(&self, output: Tensor<2>, target: Tensor<1, Int>) -> Score {
        let [seen] = target.dims();
        let right = output.argmax(1).reshape([seen]).equal(target).int().sum().into_scalar::<i64>();
        assert!(self.panic_at.is_none() || self.reports.lock().unwrap().len() < 3, "a panic was asked for");
        Score { right: right as u64, seen: seen as u64 }
    }

    fn orders(&self, batch: u64) -> Orders {
        let stop = self.stop_at == Some(batch);
        let evaluate = self.evaluate_at.contains(&batch);
        Orders { record: stop || self.record_at.contains(&batch), stop, evaluate }
    }

    fn report(&self, report: &Report) -> Result<(), String> {
        self.reports.lock().unwrap().push(*report);
        if self.fail_at == Some(report.batch) { Err("a failure was asked for".to_owned()) } else { Ok(()) }
    }

    fn evaluated(&self, score: Score) -> Result<(), String> {
        self.scores.lock().unwrap().push(score);
        Ok(())
    }

    fn aligned(&self, batch: u64, cosines: &[f64]) -> Result<(), String> {
        self.cosines.lock().unwrap().push((batch, cosines.to_vec()));
        Ok(())
    }

    fn save(&self, stage: usize, batch: u64, record: Vec<u8>) -> Result<(), String> {
        self.records.lock().unwrap().entry(batch).or_default().insert(stage, record);
        Ok(())
    }

    fn commit(&self, batch: u64) -> Result<(), String> {
        self.committed.lock().unwrap().push(batch);
        Ok(())
    }

    fn load(&self, stage: usize) -> Result<Option<Vec<u8>>, String> {
        Ok(self.resume.as_ref().and_then(|parts| parts.get(&stage).cloned()))
    }
}

/// `batches` batches through stages of equal numbers of places.
pub fn settings(method: Method, places: usize, stages: usize, batches: u64) -> Settings {
    let stages = split(&vec![1.0; places], stages).expect("no more stages than places");
    Settings { patience: Duration::from_mins(1), run: 77, ..Settings::new(method, stages, batches) }
}

pub fn run<const D: usize, N>(network: &N, settings: &Settings, job: &Noise) -> Outcome<N>
where
    N: Piped<D>,
    Noise: Job<D, N>,
{
    run_in_process(network, settings, job, 1).expect("the pipeline runs")
}

pub type Bits = Vec<(String, Vec<u8>)>;

pub fn bits<M: Module>(module: &M) -> Bits {
    named_parameters(module).into_iter().map(|(name, data)| (name, data.as_bytes().to_vec())).collect()
}

/// Panics, naming the first difference.
pub fn assert_same(left: &Bits, right: &Bits, what: &str) {
    assert_eq!(left.len(), right.len(), "{what}");
    for (a, b) in left.iter().zip(right) {
        assert!(a == b, "{what}: {} differs", a.0);
    }
}
