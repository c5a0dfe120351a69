//! What the command line says of pipelines, and what defines one.

use std::ops::Range;
use std::time::Duration;

use clap::Args;
use reprop_models::Model;
use reprop_pipeline::{Method, split};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Options of a pipeline.
#[derive(Args, Clone, Debug)]
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
    /// Forwards ahead of the stage above: 2 is PETRA's, 1 is one-forward-one-backward.
    #[arg(long, default_value_t = 2.0, value_name = "C", requires = "method", value_parser = warm_up)]
    pub warm_up: f64,
    /// Places at which stages begin, such as 3,5,8; by default stages are of nearly equal cost.
    #[arg(long, value_delimiter = ',', value_name = "PLACES", requires = "method")]
    pub cuts: Vec<usize>,
    /// Seconds that a stage waits for a neighbour before it gives up.
    #[arg(long, default_value_t = 300, value_name = "SECONDS", requires = "method")]
    pub patience: u64,
}

fn warm_up(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(depth) if (1.0..=64.0).contains(&depth) => Ok(depth),
        Ok(depth) => Err(format!("must be from 1 to 64, found {depth}")),
        Err(error) => Err(error.to_string()),
    }
}

/// What defines a pipeline: part of a run's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineSettings {
    pub method: String,
    pub stages: Vec<Range<usize>>,
    pub accumulate: u64,
    pub warm_up: f64,
    pub patience: u64,
}

impl PipelineSettings {
    /// What the command line asks for; nothing without a method.
    pub fn new(options: &PipelineOptions, model: &Model) -> Result<Option<Self>, Failure> {
        let Some(method) = options.method else { return Ok(None) };
        let costs = model.costs().ok_or_else(|| {
            Failure::usage("this network cannot be cut into stages yet")
                .hint("choose a rev-vit or a rev-resnet for a pipeline")
        })?;
        let places = costs.len();
        let count = options.stages.or_else(super::ranks).unwrap_or(2);
        let stages = if options.cuts.is_empty() {
            split(&costs, count).map_err(|error| Failure::usage(error.to_string()))?
        } else {
            let bounds: Vec<usize> =
                [0].into_iter().chain(options.cuts.iter().copied()).chain([places]).collect();
            if !bounds.is_sorted_by(|a, b| a < b) || bounds.len() != count + 1 {
                return Err(Failure::usage(format!(
                    "{count} stages of a network of {places} places need {} cuts, rising from 1 to {}, found {:?}",
                    count - 1,
                    places - 1,
                    options.cuts
                )));
            }
            bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
        };
        Ok(Some(Self {
            method: method.to_string(),
            stages,
            accumulate: options.accumulate as u64,
            warm_up: options.warm_up,
            patience: options.patience,
        }))
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
            ..reprop_pipeline::Settings::new(method, self.stages.clone(), steps as u64)
        })
    }
}
