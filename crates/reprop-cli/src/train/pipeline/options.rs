//! What the command line says of pipelines, and what defines one.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use reprop_pipeline::{Method, Queue, split};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Options of a pipeline.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Pipelines")]
pub struct PipelineOptions {
    /// Train in stages: backprop or reversible (one batch at a time), petra, delayed or dsp (several at once).
    #[arg(long, value_name = "NAME")]
    pub method: Option<Method>,
    /// Stages of the pipeline: threads of this process, or the ranks of an MPI job; 2, or all ranks, by default.
    #[arg(long, value_name = "J", requires = "method", value_parser = crate::options::positive)]
    pub stages: Option<usize>,
    /// Batches an update.
    #[arg(long, default_value_t = 1, value_name = "K", requires = "method", value_parser = crate::options::positive)]
    pub accumulate: usize,
    /// Forwards ahead of the stage above: 2 is PETRA's, 1 is one-forward-one-backward; auto measures what is needed.
    #[arg(long, default_value = "2", value_name = "C|auto", requires = "method")]
    pub warm_up: WarmUp,
    /// Where stages begin: predicted (equal multiplications), measured (equal times here), or places such as 3,5,8.
    #[arg(long, default_value = "predicted", value_name = "HOW", requires = "method")]
    pub split: Split,
    /// Pipelines side by side, each with batches of its own, whose gradients are summed: stages times replicas are the ranks.
    #[arg(long, default_value_t = 1, value_name = "R", requires = "method", value_parser = crate::options::positive)]
    pub replicas: usize,
    /// How the inputs of parts that are not reversible wait for their backward: f32, f16 or u8.
    #[arg(long, default_value_t = Queue::F32, value_name = "TYPE", requires = "method")]
    pub queue: Queue,
    /// Compare the gradients of each stage with the true ones every N updates: `alignment` in metrics.jsonl.
    #[arg(long, default_value_t = 0, value_name = "N", requires = "method")]
    pub alignment: u64,
    /// Seconds that a stage waits for a neighbour before it gives up.
    #[arg(long, default_value_t = 300, value_name = "SECONDS", requires = "method")]
    pub patience: u64,
}

/// How a network is cut into stages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    #[default]
    Predicted,
    Measured,
    /// At these places.
    At(Vec<usize>),
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "predicted" => Ok(Self::Predicted),
            "measured" => Ok(Self::Measured),
            places => {
                let places: Result<Vec<usize>, _> = places.split(',').map(str::parse).collect();
                places
                    .map(Self::At)
                    .map_err(|_| "say predicted, measured, or places such as 3,5,8".to_owned())
            }
        }
    }
}

/// How many forwards a stage is ahead of the one above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmUp {
    Measured,
    Depth(f64),
}

impl FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            _ if text == "auto" => Ok(Self::Measured),
            Ok(depth) if (1.0..=64.0).contains(&depth) => Ok(Self::Depth(depth)),
            Ok(depth) => Err(format!("must be auto, or from 1 to 64, found {depth}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// What defines a pipeline: part of a run's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineSettings {
    pub method: String,
    /// How many stages were asked for.
    #[serde(default)]
    pub count: usize,
    #[serde(default)]
    pub split: Split,
    /// The places of each stage. Chosen once, when a run begins: a resumed run has the same, whatever it would measure.
    pub stages: Vec<Range<usize>>,
    pub accumulate: u64,
    /// 0 until it is measured.
    pub warm_up: f64,
    pub patience: u64,
    #[serde(default = "one")]
    pub replicas: usize,
    /// Nothing in runs of before there was a choice.
    #[serde(default)]
    pub queue: Option<String>,
    #[serde(default)]
    pub alignment: u64,
}

fn one() -> usize {
    1
}

impl PipelineSettings {
    /// What the command line asks for; nothing without a method.
    pub fn new(options: &PipelineOptions) -> Option<Self> {
        let method = options.method?;
        let warm_up = match options.warm_up {
            WarmUp::Depth(depth) => depth,
            WarmUp::Measured => 0.0,
        };
        Some(Self {
            method: method.to_string(),
            count: options
                .stages
                .or_else(|| super::ranks().map(|ranks| (ranks / options.replicas).max(1)))
                .unwrap_or(2),
            split: options.split.clone(),
            stages: Vec::new(),
            accumulate: options.accumulate as u64,
            warm_up,
            patience: options.patience,
            replicas: options.replicas,
            queue: Some(options.queue.to_string()),
            alignment: options.alignment,
        })
    }

    /// Whether something has to be measured before the run can begin.
    pub fn measures(&self) -> bool {
        (self.stages.is_empty() && self.split == Split::Measured) || self.warm_up == 0.0
    }

    /// Chooses the stages of a network of `places` places, whose costs may be known, if that takes no measuring.
    pub fn cut(&mut self, costs: Option<Vec<f64>>, places: usize) -> Result<(), Failure> {
        if !self.stages.is_empty() {
            return Ok(());
        }
        let count = self.count;
        match &self.split {
            Split::Measured if count <= places => {}
            Split::Measured => self.balance(&vec![1.0; places])?,
            Split::Predicted => {
                let costs = costs.ok_or_else(|| {
                    Failure::usage("the costs of this network's parts are not known beforehand")
                        .hint("add --split measured, or say where to cut, as --split 3,5 does")
                })?;
                self.balance(&costs)?;
            }
            Split::At(cuts) => {
                let bounds: Vec<usize> =
                    [0].into_iter().chain(cuts.iter().copied()).chain([places]).collect();
                if !bounds.is_sorted_by(|a, b| a < b) || bounds.len() != count + 1 {
                    return Err(Failure::usage(format!(
                        "{count} stages of a network of {places} places need {} cuts, rising from 1 to {}, found {cuts:?}",
                        count - 1,
                        places - 1,
                    )));
                }
                self.stages = bounds.windows(2).map(|pair| pair[0]..pair[1]).collect();
            }
        }
        Ok(())
    }

    /// Stages of nearly equal cost.
    pub fn balance(&mut self, costs: &[f64]) -> Result<(), Failure> {
        self.stages = split(costs, self.count).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(())
    }

    /// For the workers; `run` marks their messages.
    pub fn of_workers(&self, steps: usize, run: u64) -> Result<reprop_pipeline::Settings, Failure> {
        let method = self.method.parse::<Method>()?;
        if !steps.is_multiple_of(self.accumulate as usize) {
            return Err(Failure::usage(format!(
                "{steps} batches cannot be divided into updates of {} batches each",
                self.accumulate
            ))
            .hint(format!("add --steps {}", steps.next_multiple_of(self.accumulate as usize))));
        }
        Ok(reprop_pipeline::Settings {
            accumulate: self.accumulate,
            depth: self.warm_up,
            patience: Duration::from_secs(self.patience),
            run,
            queue: self.queue.as_deref().map_or(Ok(Queue::F32), str::parse)?,
            replicas: self.replicas,
            alignment: self.alignment,
            ..reprop_pipeline::Settings::new(method, self.stages.clone(), steps as u64)
        })
    }
}
