//! `reprop schedule`: a snapshot schedule's counts, actions or picture.

use std::io::{BufWriter, Write, stdout};

use clap::{Args, ValueEnum};
use reprop_schedule::{Error, Method, Request, draw};

use crate::failure::Failure;
use crate::options::{Format, Global};

/// Columns of a drawing where the terminal does not tell its own.
const COLUMNS: usize = 100;

/// Options of `schedule`.
#[derive(Args, Clone, Debug)]
pub struct ScheduleOptions {
    /// The schedule: stored, revolve, mixed, multistage, disk-revolve, periodic, h-revolve, online or async.
    #[arg(long, value_name = "NAME")]
    method: Method,
    /// Steps of the chain.
    #[arg(long, value_name = "N")]
    steps: usize,
    /// Snapshots that fit in memory, the first state's included.
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Snapshots that fit on disk; unlimited if not given, where the method allows it.
    #[arg(long, value_name = "N")]
    disk_slots: Option<usize>,
    /// Time of a write to disk.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    write: Option<f64>,
    /// Time of a read from disk; that of a write by default.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    read: Option<f64>,
    /// Time of a forward step.
    #[arg(long, default_value_t = 1.0, value_name = "TIME", allow_negative_numbers = true)]
    forward: f64,
    /// Time of a reverse step, with the forward that records what it needs.
    #[arg(long, default_value_t = 1.0, value_name = "TIME", allow_negative_numbers = true)]
    backward: f64,
    /// Draw it: for the terminal, or as a picture.
    #[arg(long, value_enum)]
    draw: Option<Drawing>,
    /// Print every action.
    #[arg(long, conflicts_with = "draw")]
    actions: bool,
}

/// How to draw.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Drawing {
    Text,
    Svg,
}

/// Prints what was asked for.
pub fn run(global: &Global, options: &ScheduleOptions) -> Result<(), Failure> {
    let request = Request {
        slots: options.slots,
        disk_slots: options.disk_slots,
        write: options.write,
        read: options.read,
        forward: options.forward,
        backward: options.backward,
        ..Request::new(options.method, options.steps)
    };
    let out = &mut BufWriter::new(stdout().lock());
    let json = global.format == Format::Json;
    match (options.actions, options.draw) {
        (true, _) => {
            for action in request.schedule().map_err(refused)? {
                if json {
                    writeln!(out, "{}", serde_json::to_string(&action)?)?;
                } else {
                    writeln!(out, "{action}")?;
                }
            }
        }
        (_, Some(Drawing::Text)) => {
            write!(out, "{}", draw::text(&request.picture().map_err(refused)?, columns()))?;
        }
        (_, Some(Drawing::Svg)) => write!(out, "{}", draw::svg(&request.picture().map_err(refused)?))?,
        _ => {
            let report = request.report().map_err(refused)?;
            if json {
                writeln!(out, "{}", serde_json::to_string(&report)?)?;
            } else {
                writeln!(out, "{report}")?;
            }
        }
    }
    Ok(out.flush()?)
}

/// The terminal's width, as shells export it.
fn columns() -> usize {
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(COLUMNS)
}

/// What the user asked for wrongly ends with exit code 2, what cannot be planned with 1.
fn refused(error: Error) -> Failure {
    match error {
        Error::Missing { .. }
        | Error::UnknownMethod { .. }
        | Error::Cost { .. }
        | Error::NoSteps
        | Error::NoSlots { .. } => Failure::usage(error.to_string()),
        other => other.into(),
    }
}
