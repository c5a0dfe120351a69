//! Expect: every line of both tables within its bound, on an idle machine. Run by `bench/plan/run.sh`.
//!
//! Plans against the clock and the meter. First, four networks under budgets from the least at which reprop and pareprop
//! both fit to what storing needs: peak and time as predicted and as measured. Then `auto` beside reprop and pareprop, with
//! the memory of pareprop, at batches of 1 to 16. Everything that is compared runs in turn, and is compared round by round;
//! a predicted time, with steps taken as soon as the plan is made, of three plans for the one in the middle.
//!
//! `budgets [SECONDS [NETWORK...]]` measures each case for so many seconds, 10 by default, and up to six times as long until its
//! ratios are known to a third of their bound; all networks, or those that are named.

use std::process::ExitCode;
use std::time::Instant;

use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{Head, Mode, Network, Pass, Plan, Result, Stem, Strategy};
use reprop_models::{Changes, ImageShape, Model};

/// Networks small enough to measure many rounds of, of the published shapes.
const MODELS: [(&str, Changes); 4] = [
    ("rev-vit-ti", Changes { depth: Some(6), image: Some(112), ..NONE }),
    ("rev-swin-t", Changes { depth: Some(2), width: Some(48), image: Some(96), ..NONE }),
    ("rev-mvit-b", Changes { depth: Some(4), width: Some(32), image: Some(64), ..NONE }),
    ("rev-resnet-18", Changes { width: Some(32), ..NONE }),
];
const NONE: Changes = Changes {
    image: None,
    patch: None,
    channels: None,
    classes: Some(10),
    depth: None,
    width: None,
    dropout: None,
    drop_path: None,
    label_smoothing: None,
    length: None,
    vocabulary: None,
};
const BATCHES: [usize; 5] = [1, 2, 4, 8, 16];
/// The batch of the first table.
const BATCH: usize = 8;
/// Budgets of the first table: this many thirds of the way from the least to what storing needs.
const THIRDS: [u64; 4] = [0, 1, 2, 3];
/// Plans that are made for each budget, one after the other: a machine that slows down for a moment spoils one of them.
const PLANS: usize = 3;
/// Rounds that a case has at least, and at most.
const ROUNDS: std::ops::Range<usize> = 25..1000;
/// The standard error that a ratio may have, of its bound.
const KNOWN: f64 = 1.0 / 3.0;
/// How many times the seconds of a case may go into making its ratios known.
const PATIENCE: f64 = 6.0;
/// Where tables run out of bounds.
const PEAK: f64 = 0.05;
const TIME: f64 = 0.15;
const ENDS: f64 = 0.03;
const SLOWER: f64 = 0.01;

fn main() -> ExitCode {
    // As the program does: else steps differ by the pages that they happen to touch anew.
    reprop::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10.0);
    let chosen: Vec<String> = arguments.collect();
    let models =
        || MODELS.into_iter().filter(|(name, _)| chosen.is_empty() || chosen.iter().any(|n| n == name));
    let mut misses = 0;
    println!("## Plans under budgets, batch {BATCH}, {} threads\n", rayon::current_num_threads());
    println!(
        "| network | budget | plan | peak predicted | measured | off | s/step predicted | measured | off | beside | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, changes) in models() {
        misses += on_network(name, changes, Table::Budgets, BATCH, seconds);
    }
    println!("\n## Auto beside reprop and pareprop, with pareprop's memory\n");
    println!("| network | batch | plan | s/step reprop | pareprop | auto | auto to the better | |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, changes) in models() {
        for batch in BATCHES {
            misses += on_network(name, changes, Table::Auto, batch, seconds);
        }
    }
    println!("\n{misses} out of bounds");
    if misses == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Clone, Copy)]
enum Table {
    Budgets,
    Auto,
}

/// Prints the lines of one network, and counts those that are out of bounds.
fn on_network(name: &str, changes: Changes, table: Table, batch: usize, seconds: f64) -> usize {
    let device = Device::flex().autodiff();
    let model = Model::by_name(name).expect("a name of the catalogue").change(&changes);
    model.check().expect("a network");
    let shape = model.images();
    macro_rules! lines {
        ($network:expr) => {
            match table {
                Table::Budgets => budgets(name, &$network, shape, batch, seconds),
                Table::Auto => auto(name, &$network, shape, batch, seconds),
            }
        };
    }
    let misses = match model {
        Model::RevVit(config) => lines!(config.init(42, &device)),
        Model::RevSwin(config) => lines!(config.init(42, &device)),
        Model::RevMvit(config) => lines!(config.init(42, &device)),
        Model::RevResNet(config) => lines!(config.init(42, &device)),
        Model::Vit(_) | Model::ResNet(_) => unreachable!("no plain network is listed"),
    };
    misses.expect("steps go through")
}

/// A network of images.
trait Classifier<const D: usize>:
    Network<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>>
{
}
impl<const D: usize, N> Classifier<D> for N where
    N: Network<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>>
{
}

fn samples(batch: usize, shape: ImageShape) -> (Tensor<4>, Tensor<1, Int>) {
    let dims = [batch, shape.channels, shape.side, shape.side];
    let word = |index: u64| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let elements = dims.iter().product::<usize>() as u64;
    let values: Vec<f32> = (0..elements).map(|i| word(i) as f32 / (1 << 23) as f32 - 1.0).collect();
    let labels: Vec<i64> = (0..batch).map(|sample| (sample % shape.classes) as i64).collect();
    let device = Device::flex();
    (
        Tensor::from_data(TensorData::new(values, dims), &device),
        Tensor::from_data(TensorData::new(labels, [batch]), &device),
    )
}

fn pass() -> Pass {
    Pass::training(42)
}

fn peak<const D: usize, N: Network<D>>(network: &N, batch: usize, strategy: Strategy) -> Result<u64> {
    let prediction = network.predicted(batch, &pass(), strategy)?;
    Ok(prediction.expect("networks of the catalogue tell their bytes").activation_peak)
}

/// Seconds of every round, and the peak, of each strategy; all run in turn.
struct Rounds {
    seconds: Vec<Vec<f64>>,
    peaks: Vec<u64>,
    strategies: Vec<Strategy>,
}

/// The mode that two of the strategies have names for.
fn unnamed(strategy: Strategy) -> Strategy {
    let bare = |overlap| Mode { overlap, ..Mode::default() };
    match strategy {
        Strategy::Reprop => Strategy::Planned(bare(false)),
        Strategy::PaReprop => Strategy::Planned(bare(true)),
        other => other,
    }
}

impl Rounds {
    fn of<const D: usize, N: Classifier<D>>(
        network: &N,
        (images, labels): &(Tensor<4>, Tensor<1, Int>),
        strategies: &[Strategy],
        enough: impl Fn(&Self, f64) -> bool,
    ) -> Result<Self> {
        let mut rounds = Self {
            seconds: vec![Vec::new(); strategies.len()],
            peaks: vec![0; strategies.len()],
            strategies: strategies.iter().copied().map(unnamed).collect(),
        };
        let mut begin = Instant::now();
        for round in 0..=ROUNDS.end {
            // The first round is a warm-up.
            if round == 1 {
                rounds.seconds.iter_mut().for_each(Vec::clear);
                begin = Instant::now();
            }
            if round > ROUNDS.start && enough(&rounds, begin.elapsed().as_secs_f64()) {
                break;
            }
            for turn in 0..strategies.len() {
                let turn = if round % 2 == 0 { turn } else { strategies.len() - 1 - turn };
                let index = (round / 2 + turn) % strategies.len();
                let start = Instant::now();
                let step = network.step(images.clone(), labels.clone(), pass(), strategies[index])?;
                rounds.seconds[index].push(start.elapsed().as_secs_f64());
                rounds.peaks[index] = rounds.peaks[index].max(step.memory.activation_peak);
            }
        }
        Ok(rounds)
    }

    fn median(&self, index: usize) -> f64 {
        median(self.seconds[index].clone())
    }

    /// By how much `index` is slower than `other`: the median over the rounds. What is the same is not.
    fn slower(&self, index: usize, other: usize) -> f64 {
        if self.strategies[index] == self.strategies[other] {
            return 0.0;
        }
        median(self.ratios(index, other)) - 1.0
    }

    fn ratios(&self, index: usize, other: usize) -> Vec<f64> {
        self.seconds[index].iter().zip(&self.seconds[other]).map(|(one, other)| one / other).collect()
    }

    /// Whether `slower` of all `pairs` is known as well as their `bound` needs, or took too long.
    fn known(&self, pairs: &[(usize, usize)], bound: f64, passed: f64, seconds: f64) -> bool {
        let known = || pairs.iter().all(|&(index, other)| self.error(index, other) < KNOWN * bound);
        passed > seconds && (passed > PATIENCE * seconds || known())
    }

    /// The better of two.
    fn better(&self, one: usize, other: usize) -> usize {
        if self.median(one) <= self.median(other) { one } else { other }
    }

    /// About the standard error of [`Self::slower`], from the quartiles.
    fn error(&self, index: usize, other: usize) -> f64 {
        if self.strategies[index] == self.strategies[other] {
            return 0.0;
        }
        let mut ratios = self.ratios(index, other);
        ratios.sort_by(f64::total_cmp);
        let quarter = ratios.len() / 4;
        (ratios[ratios.len() - 1 - quarter] - ratios[quarter]) / (ratios.len() as f64).sqrt()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// A verdict for the last column, counted where it is a miss.
fn verdict(misses: &mut usize, wrong: &[(bool, &str)]) -> String {
    let found: Vec<&str> = wrong.iter().filter(|(wrong, _)| *wrong).map(|(_, what)| *what).collect();
    *misses += usize::from(!found.is_empty());
    if found.is_empty() { "holds".to_owned() } else { format!("**{}**", found.join(", ")) }
}

/// A plan, and what a step of it took right after it was made.
struct Clocked {
    plan: Plan,
    seconds: f64,
}

impl Clocked {
    fn plan<const D: usize, N: Classifier<D>>(
        network: &N,
        data: &(Tensor<4>, Tensor<1, Int>),
        budget: u64,
        seconds: f64,
    ) -> Result<Self> {
        let costs = network.measure(data.0.clone(), data.1.clone(), &pass(), budget)?;
        let plan = network.plan(data.0.dims()[0], &pass(), budget, &costs)?;
        let steps = Rounds::of(network, data, &[plan.strategy()], |_, passed| passed > seconds)?;
        Ok(Self { plan, seconds: steps.median(0) })
    }

    /// By how much the predicted time is longer.
    fn off(&self) -> f64 {
        self.plan.chosen().time / self.seconds - 1.0
    }
}

fn budgets<const D: usize, N: Classifier<D>>(
    name: &str,
    network: &N,
    shape: ImageShape,
    batch: usize,
    seconds: f64,
) -> Result<usize> {
    let data = samples(batch, shape);
    let most = peak(network, batch, Strategy::Stored)?;
    let least = peak(network, batch, Strategy::Reprop)?.max(peak(network, batch, Strategy::PaReprop)?);
    let plans = THIRDS
        .iter()
        .map(|thirds| {
            let budget = least + (most - least) * thirds / 3;
            let mut clocked = (0..PLANS)
                .map(|_| Clocked::plan(network, &data, budget, seconds / 4.0))
                .collect::<Result<Vec<Clocked>>>()?;
            clocked.sort_by(|a, b| a.off().total_cmp(&b.off()));
            Ok(clocked.swap_remove(PLANS / 2))
        })
        .collect::<Result<Vec<Clocked>>>()?;
    let fixed = [Strategy::Reprop, Strategy::PaReprop, Strategy::Stored];
    let [reprop, pareprop, stored] = [0, 1, 2].map(|index| plans.len() + index);
    let strategies: Vec<Strategy> =
        plans.iter().map(|clocked| clocked.plan.strategy()).chain(fixed).collect();
    // Each beside what stands at its end, or the plan of the next smaller budget.
    let pairs = |rounds: &Rounds| {
        let beside = |index| match index {
            0 => rounds.better(reprop, pareprop),
            _ if index == THIRDS.len() - 1 => stored,
            _ => index - 1,
        };
        (0..THIRDS.len()).map(|index| (index, beside(index))).collect::<Vec<_>>()
    };
    // Seven things take turns here, and three in the other table.
    let rounds = Rounds::of(network, &data, &strategies, |rounds, passed| {
        rounds.known(&pairs(rounds), ENDS, passed, 2.0 * seconds)
    })?;

    let mut misses = 0;
    for (clocked, (index, other)) in plans.iter().zip(pairs(&rounds)) {
        let plan = &clocked.plan;
        let chosen = plan.chosen();
        let measured = rounds.peaks[index];
        let peak_off = chosen.prediction.activation_peak as f64 / measured as f64 - 1.0;
        let time_off = clocked.off();
        let beside = rounds.slower(index, other);
        let wrong = [
            (measured > plan.budget, "over budget"),
            (peak_off.abs() > PEAK, "peak"),
            (time_off.abs() > TIME, "time"),
            (beside > ENDS, "slower"),
        ];
        println!(
            "| {name} | {} | {} | {} | {measured} | {:+.1} % | {:.4} | {:.4} | {:+.1} % | {:+.1} % | {} |",
            plan.budget,
            plan.name(chosen),
            chosen.prediction.activation_peak,
            100.0 * peak_off,
            chosen.time,
            clocked.seconds,
            100.0 * time_off,
            100.0 * beside,
            verdict(&mut misses, &wrong),
        );
    }
    Ok(misses)
}

fn auto<const D: usize, N: Classifier<D>>(
    name: &str,
    network: &N,
    shape: ImageShape,
    batch: usize,
    seconds: f64,
) -> Result<usize> {
    let data = samples(batch, shape);
    let budget = peak(network, batch, Strategy::PaReprop)?.max(peak(network, batch, Strategy::Reprop)?);
    let costs = network.measure(data.0.clone(), data.1.clone(), &pass(), budget)?;
    let plan = network.plan(batch, &pass(), budget, &costs)?;
    let strategies = [Strategy::Reprop, Strategy::PaReprop, plan.strategy()];
    let rounds = Rounds::of(network, &data, &strategies, |rounds, passed| {
        rounds.known(&[(2, rounds.better(0, 1))], SLOWER, passed, seconds)
    })?;
    let [reprop, pareprop, auto] = [0, 1, 2].map(|index| rounds.median(index));
    let better = rounds.better(0, 1);
    let (slower, error) = (rounds.slower(2, better), rounds.error(2, better));
    let mut misses = 0;
    let verdict = verdict(&mut misses, &[(slower > SLOWER, "slower")]);
    println!(
        "| {name} | {batch} | {} | {reprop:.4} | {pareprop:.4} | {auto:.4} | {:+.2} ± {:.2} % | {verdict} |",
        plan.name(plan.chosen()),
        100.0 * slower,
        100.0 * error,
    );
    Ok(misses)
}
