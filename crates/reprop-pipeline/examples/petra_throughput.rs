//! PETRA in two stages, one thread each, beside the `reversible` method on one thread: at least 1.7 times as many batches.
//!
//! `throughput [ROUNDS [BATCHES]]`: both methods in turn, in one process, on noise, for a RevResNet-18 at a quarter of its
//! width and a RevViT; stages are cut by measured times. Rates are taken between the report of the first batch after the
//! warm-up and that of the last. Beside the clock, the processor time of each stage's thread tells what an idle machine
//! would give: a batch takes as long as its most expensive stage.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::optim::SgdConfig;
use reprop::{Head, Pass, Stem};
use reprop_models::{RevResNetConfig, RevVitConfig};
use reprop_pipeline::{
    Job, Method, Piped, PlaceTimes, Report, Score, Settings, probe, run_in_process, split,
};

const STAGES: usize = 2;
/// Batches before the clock starts: more than the warm-up of any stage.
const IGNORED: u64 = 4;

/// Processor time of this thread.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// When batches were seen by the first stage and by the last, on the clock and on the processor.
#[derive(Default)]
struct Seen {
    first: Mutex<Vec<(Instant, Duration)>>,
    last: Mutex<Vec<(Instant, Duration)>>,
}

struct Noise {
    images: Tensor<4>,
    labels: Tensor<1, Int>,
    seen: Seen,
}

impl Noise {
    fn new(batch: usize, side: usize) -> Self {
        let value = |index: usize| {
            let word = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (word >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let pixels: Vec<f32> = (0..batch * 3 * side * side).map(value).collect();
        let labels: Vec<i32> = (0..batch as i32).map(|sample| sample % 10).collect();
        let device = Device::flex();
        Self {
            images: Tensor::from_data(TensorData::new(pixels, [batch, 3, side, side]), &device),
            labels: Tensor::from_data(TensorData::new(labels, [batch]), &device),
            seen: Seen::default(),
        }
    }
}

fn note(list: &Mutex<Vec<(Instant, Duration)>>) {
    list.lock().expect("no panic while it is held").push((Instant::now(), on_processor()));
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
        SgdConfig::new().with_momentum(0.9).init()
    }

    fn rate(&self, _: u64) -> f64 {
        1e-3
    }

    fn batch(&self, _: u64) -> (Tensor<4>, Tensor<1, Int>) {
        (self.images.clone(), self.labels.clone())
    }

    fn test_batch(&self, _: u64) -> Option<(Tensor<4>, Tensor<1, Int>)> {
        None
    }

    fn score(&self, _: Tensor<2>, _: Tensor<1, Int>) -> Score {
        note(&self.seen.last);
        Score::default()
    }

    fn report(&self, _: &Report) -> Result<(), String> {
        note(&self.seen.first);
        Ok(())
    }
}

/// Seconds a batch: on the clock, and on the processors of the first and the last stage.
struct Times {
    clock: f64,
    first: f64,
    last: f64,
}

fn between(list: &[(Instant, Duration)]) -> (f64, f64) {
    let (begin, end) = (list[IGNORED as usize - 1], list[list.len() - 1]);
    let batches = (list.len() as u64 - IGNORED) as f64;
    ((end.0 - begin.0).as_secs_f64() / batches, end.1.saturating_sub(begin.1).as_secs_f64() / batches)
}

fn run<const D: usize, N>(network: &N, job: &Noise, settings: &Settings) -> Times
where
    N: Piped<D>,
    Noise: Job<D, N>,
{
    for list in [&job.seen.first, &job.seen.last] {
        list.lock().expect("no panic while it is held").clear();
    }
    run_in_process(network, settings, job, 1).expect("the pipeline runs");
    let (clock, first) = between(&job.seen.first.lock().expect("no panic while it is held"));
    let (_, last) = between(&job.seen.last.lock().expect("no panic while it is held"));
    Times { clock, first, last }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare<const D: usize, N>(name: &str, network: &N, job: &Noise, rounds: usize, batches: u64)
where
    N: Piped<D>,
    Noise: Job<D, N>,
{
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let costs: Vec<f64> = pool
        .install(|| probe(network, job))
        .expect("the probe runs")
        .into_iter()
        .map(PlaceTimes::seconds)
        .collect();
    let stages = split(&costs, STAGES).expect("as many places as stages");
    let shown: Vec<String> = costs.iter().map(|cost| format!("{:.1}", 1e3 * cost)).collect();
    println!("{name}: stages {stages:?}; milliseconds of each place {}", shown.join(" "));
    let batches = batches + IGNORED;
    let petra = Settings::new(Method::Petra, stages, batches);
    let whole = split(&costs, 1).expect("there is a place");
    let reversible = Settings::new(Method::Reversible, whole, batches);
    let (mut by_clock, mut by_processor) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let one = run(network, job, &reversible);
        let two = run(network, job, &petra);
        by_clock.push(one.clock / two.clock);
        by_processor.push(one.first / two.first.max(two.last));
        println!(
            "  round {round}: reversible {:6.1} ms a batch ({:.1} on the processor), petra {:6.1} ({:.1} and {:.1}): {:.2}x",
            1e3 * one.clock,
            1e3 * one.first,
            1e3 * two.clock,
            1e3 * two.first,
            1e3 * two.last,
            one.clock / two.clock
        );
    }
    println!("{name}: {:.2}x by the clock, {:.2}x by processor time", median(by_clock), median(by_processor));
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let (rounds, batches) = (arguments.next().unwrap_or(5), arguments.next().unwrap_or(16));
    let device = Device::flex().autodiff();
    let resnet = RevResNetConfig::resnet18().with_width(16).init(3, &device);
    compare("rev-resnet-18, width 16", &resnet, &Noise::new(64, 32), rounds, batches as u64);
    let vit = RevVitConfig::cifar().init(3, &device);
    compare("rev-vit-cifar", &vit, &Noise::new(64, 32), rounds, batches as u64);
}
