//! `reprop`: trains, benchmarks, plans and verifies reversible networks, and plans snapshots of long chains.

mod bench;
mod bytes;
mod data;
mod device;
mod failure;
mod images;
mod memory;
mod models;
mod options;
mod plan;
mod safetensors_file;
mod sample;
mod schedule;
mod trace_file;
mod train;
mod verify;
mod weights_file;
mod whole_file;

use std::panic;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::failure::Failure;
use crate::options::{Command, Global, Options};

/// Counts every byte the program holds, so that peaks are measured and not estimated.
#[global_allocator]
static ALLOCATOR: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> ExitCode {
    // The same tensors come and go with every step.
    reprop::keep_freed_memory();
    // Wrong usage ends here, with clap's message and exit code 2.
    let Options { global, command } = Options::parse();
    if command.is_none() && global.device != device::LIST {
        Options::command().error(ErrorKind::MissingSubcommand, "a command is missing").exit();
    }
    match panic::catch_unwind(|| run(&global, command)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            failure.print();
            failure.exit_code()
        }
        Err(_) => {
            eprintln!("error: this is a defect of reprop; the message above tells where");
            ExitCode::FAILURE
        }
    }
}

fn run(global: &Global, command: Option<Command>) -> Result<(), Failure> {
    let Some(command) = command.filter(|_| global.device != device::LIST) else {
        return device::list(global.format);
    };
    device::use_threads(global.threads)?;
    match command {
        Command::Train(options) => train::run(global, *options),
        Command::Bench(options) => bench::run(global, &options),
        Command::Plan(options) => plan::run(global, &options),
        Command::Verify(options) => verify::run(global, &options),
        Command::Schedule(options) => schedule::run(global, &options),
        Command::Models(options) => models::run(global, &options),
        Command::Data(options) => data::run(global, &options),
    }
}
