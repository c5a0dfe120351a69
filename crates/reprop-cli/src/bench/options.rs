//! Options of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::bytes::parse_bytes;
use crate::options::{ModelChanges, Numbers, positive};

/// Options of `bench`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchOptions {
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    #[command(flatten)]
    pub sweep: SweepOptions,
}

/// What to do with results that are already there.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Compare two files of results, run by run
    Compare(CompareOptions),
    /// Write results that were kept as JSON in another format
    Report(ReportOptions),
}

/// Options of `bench compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareOptions {
    /// Results to compare with, as `bench --export FILE.json` wrote them.
    #[arg(value_name = "A.json")]
    pub first: PathBuf,
    /// Results to compare.
    #[arg(value_name = "B.json")]
    pub second: PathBuf,
}

/// Options of `bench report`.
#[derive(Args, Clone, Debug)]
pub struct ReportOptions {
    /// Results, as `bench --export FILE.json` wrote them.
    #[arg(value_name = "FILE.json")]
    pub results: PathBuf,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
pub struct OutputOptions {
    /// Write the results to these files: json, csv, md, html, svg or txt, by their endings. Written on the way too.
    #[arg(long, value_delimiter = ',', value_name = "FILES")]
    pub export: Vec<PathBuf>,
    /// Show another framework's times in the report: a JSON file of `bench/peers/run.sh steps --json FILE`.
    #[arg(long, value_name = "FILE")]
    pub peers: Option<PathBuf>,
}

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct SweepOptions {
    /// Networks.
    #[arg(long, value_delimiter = ',', default_value = "rev-vit-digits", value_name = "NAMES")]
    pub model: Vec<String>,
    #[command(flatten)]
    pub changes: ModelChanges,
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_value = "8", value_name = "NUMBERS", value_parser = positive)]
    pub batch: Vec<usize>,
    /// Numbers of blocks; the network's own by default.
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", value_parser = positive)]
    pub depth: Vec<usize>,
    /// Strategies.
    #[arg(long, value_delimiter = ',', default_value = "stored,reprop,pareprop", value_name = "NAMES")]
    pub strategy: Vec<String>,
    /// Bytes of activations that may live at once; for `auto`, once with each.
    #[arg(long, value_delimiter = ',', value_name = "SIZES", value_parser = parse_bytes)]
    pub budget: Vec<u64>,
    /// Numbers of threads; all cores by default. No digest depends on it.
    #[arg(id = "threads", long, value_delimiter = ',', value_name = "NUMBERS", value_parser = positive)]
    pub threads: Vec<usize>,
    #[command(flatten)]
    pub numbers: Numbers,
    /// Rounds before the clock starts.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub warmup: usize,
    /// Timed rounds: each runs every configuration once, so that drift of the machine hits all alike.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = positive)]
    pub steps: usize,
    /// Measure one network after the other: less memory, since only one is held, but drift hits them unlike.
    #[arg(long)]
    pub one_at_a_time: bool,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Write a trace of forward, recover and grads for Perfetto and Chrome.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}
