//! Rounds: each runs every configuration once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use indicatif::ProgressBar;
use rayon::{ThreadPool, ThreadPoolBuilder};
use reprop::{Strategy, Trace};
use reprop_report::{Results, Run, Timeline, TimelineSpan};

use crate::failure::Failure;
use crate::memory;
use crate::options::Numbers;
use crate::sample::{AnyModel, with_model};

use super::export::Output;
use super::subject::{Making, Subject};
use super::sweep::{Case, Configuration};

/// How to measure.
pub struct Measurement<'a> {
    pub warmup: usize,
    pub steps: usize,
    pub numbers: Numbers,
    pub seed: u64,
    pub device: &'a Device,
    /// One for each number of threads; empty where there is one number, which is then that of the whole program.
    pub pools: BTreeMap<usize, ThreadPool>,
    pub bar: &'a ProgressBar,
    pub trace: Option<&'a Trace>,
    pub output: &'a Output,
}

/// Files are written at most this often while steps are shorter: writing disturbs the step that follows it.
const OFTEN: Duration = Duration::from_millis(500);

/// A network that is held, and what was found about it.
struct Held {
    subject: Box<dyn Subject>,
    /// Bytes that it keeps between steps: parameters, optimizer, batches.
    bytes: u64,
    runs: Vec<(Configuration, Run)>,
    /// What cannot be run, and why.
    left_out: Vec<(String, Failure)>,
}

/// A pool for each number of threads, if there are several.
pub fn pools(threads: &[usize]) -> Result<BTreeMap<usize, ThreadPool>, Failure> {
    if threads.len() < 2 {
        return Ok(BTreeMap::new());
    }
    let pool = |&threads: &usize| Ok((threads, ThreadPoolBuilder::new().num_threads(threads).build()?));
    threads.iter().map(pool).collect()
}

impl Measurement<'_> {
    /// Measures these networks in turn, and adds their runs to the results, written on the way.
    pub fn add(&self, cases: &[Case], results: &mut Results) -> Result<(), Failure> {
        let mut held = cases.iter().map(|case| self.hold(case)).collect::<Vec<_>>();
        // What is asked for with every network of a sweep need not fit all.
        let nothing = held.iter().all(|held| held.runs.is_empty());
        for (name, failure) in held.iter_mut().flat_map(|held| held.left_out.drain(..)) {
            if nothing {
                return Err(failure.within(name));
            }
            self.bar.suspend(|| eprintln!("left out {name}: {failure}"));
        }
        let before = results.runs.clone();
        let mut written = Instant::now();
        for round in 0..self.warmup + self.steps {
            for place in 0..held.len() {
                for index in 0..held[place].runs.len() {
                    self.bar.set_message(held[place].runs[index].1.name());
                    self.step(&mut held, place, index, round)?;
                    self.bar.inc(1);
                    if round >= self.warmup && written.elapsed() > OFTEN {
                        results.runs = before.iter().chain(timed(&held)).cloned().collect();
                        self.output.write(results)?;
                        written = Instant::now();
                    }
                }
            }
        }
        results.runs = before.iter().chain(timed(&held)).cloned().collect();
        if self.output.shows_timelines() {
            for held in &mut held {
                results.timelines.extend(self.timelines(held)?);
            }
        }
        self.output.write(results)
    }

    fn hold(&self, case: &Case) -> Held {
        let before = memory::held();
        let making = Making { numbers: self.numbers, seed: self.seed, device: self.device.clone() };
        let mut subject = with_model(&case.model, self.seed, self.device, making);
        let image = match &case.model {
            AnyModel::Images(model) => Some(model.images().side),
            AnyModel::Text(_) => None,
        };
        let (mut runs, mut left_out) = (Vec::new(), Vec::new());
        for &configuration in &case.configurations {
            let Configuration { batch, threads, strategy } = configuration;
            let budget = match strategy {
                Strategy::Auto { budget } => Some(budget),
                _ => None,
            };
            let run = Run {
                model: case.name.clone(),
                batch,
                depth: subject.depth(),
                strategy: strategy.to_string(),
                threads,
                image,
                budget,
                ..Run::default()
            };
            let resolved = self.within(threads, || {
                let strategy = subject.resolve(batch, strategy)?;
                Ok((strategy, subject.predicted(batch, strategy)?))
            });
            match resolved {
                Ok((strategy, bytes)) => {
                    let configuration = Configuration { strategy, ..configuration };
                    runs.push((configuration, Run { predicted_activation_bytes: bytes, ..run }));
                }
                Err(failure) => left_out.push((run.name(), failure)),
            }
        }
        Held { bytes: memory::held().saturating_sub(before), subject, runs, left_out }
    }

    /// One step of one configuration.
    fn step(&self, held: &mut [Held], place: usize, index: usize, round: usize) -> Result<(), Failure> {
        // What the process holds for other networks is not this run's.
        let others: u64 = held.iter().map(|held| held.bytes).sum::<u64>() - held[place].bytes;
        let Held { subject, bytes, runs, .. } = &mut held[place];
        let (Configuration { batch, threads, strategy }, run) = &mut runs[index];
        let before = memory::held();
        let taken = self.within(*threads, || subject.step(*batch, *strategy, round, self.trace))?;
        *bytes = (*bytes + memory::held()).saturating_sub(before);
        if let Some(digest) = taken.digest {
            run.gradient_digest = digest;
            run.loss = taken.loss;
        }
        run.device_reserved_bytes = taken.device_reserved_bytes.or(run.device_reserved_bytes);
        run.peak_bytes = run.peak_bytes.max(taken.peak_bytes.saturating_sub(others));
        run.activation_peak_bytes = run.activation_peak_bytes.max(taken.activation_peak_bytes);
        if round >= self.warmup {
            let mut seconds = std::mem::take(&mut run.step_seconds);
            seconds.push(taken.seconds);
            *run = std::mem::take(run).timed(seconds);
        }
        Ok(())
    }

    /// One more step of every strategy without a budget, watched: at the largest batch, on the most threads.
    fn timelines(&self, held: &mut Held) -> Result<Vec<Timeline>, Failure> {
        let largest = held.runs.iter().map(|(of, _)| (of.batch, of.threads)).max();
        let Held { subject, runs, .. } = held;
        let mut timelines = Vec::new();
        for (Configuration { batch, threads, strategy }, run) in runs {
            if Some((*batch, *threads)) != largest || run.budget.is_some() {
                continue;
            }
            let trace = Trace::new();
            // Not the first round: that one pays for its digest.
            self.within(*threads, || subject.step(*batch, *strategy, 1, Some(&trace)))?;
            timelines.push(timeline(run, &trace));
        }
        Ok(timelines)
    }

    /// Works on so many threads.
    fn within<T: Send>(&self, threads: usize, work: impl FnOnce() -> T + Send) -> T {
        match self.pools.get(&threads) {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

/// Runs that have been timed.
fn timed(held: &[Held]) -> impl Iterator<Item = &Run> {
    let runs = held.iter().flat_map(|held| held.runs.iter().map(|(_, run)| run));
    runs.filter(|run| !run.step_seconds.is_empty())
}

fn timeline(run: &Run, trace: &Trace) -> Timeline {
    let spans = trace.spans();
    let first = spans.iter().map(|span| span.begin).fold(f64::INFINITY, f64::min);
    let span = |span: &reprop::Span| TimelineSpan {
        activity: span.activity.name().to_owned(),
        place: span.place,
        worker: span.worker,
        begin: span.begin - first,
        seconds: span.seconds,
    };
    Timeline {
        model: run.model.clone(),
        batch: run.batch,
        depth: run.depth,
        strategy: run.strategy.clone(),
        threads: run.threads,
        spans: spans.iter().map(span).collect(),
    }
}
