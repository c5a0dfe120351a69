//! `cargo xtask check`: the one gate, cheapest step first. `cargo xtask curves`: what archived runs learned, as a picture.

mod curves;

use std::env;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// What the gate runs, in order: a name for people, then the arguments of `cargo`.
///
/// All in one profile, so that Burn is built once for running and testing and checked once for the rest.
const CHECKS: &[(&str, &[&str])] = &[
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--release", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    ("documentation", &["doc", "--release", "--workspace", "--no-deps", "--locked"]),
    ("tests", &["test", "--release", "--workspace", "--locked"]),
];

/// Stages on MPI ranks: lints of what only that feature compiles, and its tests. Needs an MPI installation.
const MPI_CHECKS: &[(&str, &[&str])] = &[
    (
        "mpi lints",
        &[
            "clippy",
            "--release",
            "-p",
            "reprop-pipeline",
            "-p",
            "reprop-cli",
            "--features",
            "mpi",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
    ),
    (
        "mpi tests",
        &["test", "--release", "-p", "reprop-cli", "--features", "mpi", "--test", "mpi", "--locked"],
    ),
];
/// Set to make a missing MPI a failure.
const MPI_REQUIRED: &str = "REPROP_MPI_REQUIRED";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(),
        ["curves", picture, ref metrics @ ..] if !metrics.is_empty() => curves::draw(picture, metrics),
        _ => {
            eprintln!("usage: cargo xtask check, or cargo xtask curves PICTURE.svg METRICS.jsonl...");
            ExitCode::from(2)
        }
    }
}

/// Runs every check and stops at the first that fails, since later ones cost more.
fn check() -> ExitCode {
    let mpi = Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success());
    if !mpi && env::var_os(MPI_REQUIRED).is_some() {
        eprintln!("==> mpi failed: no mpirun; install openmpi-bin, libopenmpi-dev and libclang-dev");
        return ExitCode::FAILURE;
    }
    for (name, arguments) in CHECKS.iter().chain(if mpi { MPI_CHECKS } else { &[] }) {
        let start = Instant::now();
        eprintln!("==> {name}");
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let passed = Command::new(cargo)
            .args(*arguments)
            .env("RUSTDOCFLAGS", "-D warnings")
            .status()
            .is_ok_and(|status| status.success());
        if !passed {
            eprintln!("==> {name} failed: cargo {}", arguments.join(" "));
            return ExitCode::FAILURE;
        }
        eprintln!("==> {name} passed in {:.0?}", start.elapsed());
    }
    if !mpi {
        eprintln!(
            "==> mpi was NOT checked: no mpirun; install openmpi-bin, libopenmpi-dev and libclang-dev to check it"
        );
    }
    ExitCode::SUCCESS
}
