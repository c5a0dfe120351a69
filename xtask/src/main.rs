//! `cargo xtask check`: the one gate, cheapest step first. `cargo xtask python`: the Python package's wheel and tests.
//! `cargo xtask curves`: what archived runs learned, as a picture.

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

/// The Python package, which is not part of the workspace: its own script checks, builds, installs and tests it in a
/// virtual environment of its own. Needs Python and its package index.
const PYTHON_CHECK: &str = "crates/reprop-python/build.sh";
/// What it ends with where the package index does not answer.
const PYTHON_UNAVAILABLE: i32 = 3;
/// Set to make a missing Python a failure.
const PYTHON_REQUIRED: &str = "REPROP_PYTHON_REQUIRED";
/// The oldest Python that the package takes, with what its script needs.
const PYTHON_ASKED: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(),
        ["python"] => python(),
        ["curves", picture, ref metrics @ ..] if !metrics.is_empty() => curves::draw(picture, metrics),
        _ => {
            eprintln!(
                "usage: cargo xtask check, or cargo xtask python, or cargo xtask curves PICTURE.svg METRICS.jsonl..."
            );
            ExitCode::from(2)
        }
    }
}

/// Runs every check and stops at the first that fails, since later ones cost more.
fn check() -> ExitCode {
    let mpi = answers("mpirun", &["--version"]);
    if !mpi && env::var_os(MPI_REQUIRED).is_some() {
        eprintln!("==> mpi failed: no mpirun; install openmpi-bin, libopenmpi-dev and libclang-dev");
        return ExitCode::FAILURE;
    }
    let python = answers("python3", &["-c", PYTHON_ASKED]);
    let checks = CHECKS.iter().chain(if mpi { MPI_CHECKS } else { &[] });
    if !checks.into_iter().all(|(name, arguments)| run(name, arguments)) {
        return ExitCode::FAILURE;
    }
    let python = if python { python_checked() } else { None };
    if python == Some(false) || python.is_none() && env::var_os(PYTHON_REQUIRED).is_some() {
        return ExitCode::FAILURE;
    }
    if !mpi {
        eprintln!(
            "==> mpi was NOT checked: no mpirun; install openmpi-bin, libopenmpi-dev and libclang-dev to check it"
        );
    }
    if python.is_none() {
        eprintln!(
            "==> python was NOT checked: it needs python3 from 3.11 on with venv, and pip with a package index"
        );
    }
    ExitCode::SUCCESS
}

/// The Python package alone: its wheel is in `crates/reprop-python/target/wheels`.
fn python() -> ExitCode {
    if python_checked() == Some(true) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the Python package passed; `None` if what it is built with cannot be had.
fn python_checked() -> Option<bool> {
    let start = Instant::now();
    eprintln!("==> python");
    let status = Command::new(PYTHON_CHECK).status();
    match status.ok().and_then(|status| status.code()) {
        Some(0) => eprintln!("==> python passed in {:.0?}", start.elapsed()),
        Some(PYTHON_UNAVAILABLE) => return None,
        code => {
            eprintln!("==> python failed: {PYTHON_CHECK} ({code:?})");
            return Some(false);
        }
    }
    Some(true)
}

/// Whether a program is there and ends well.
fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Runs one check by cargo, and says how it went.
fn run(name: &str, arguments: &[&str]) -> bool {
    let start = Instant::now();
    eprintln!("==> {name}");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let passed = Command::new(cargo)
        .args(arguments)
        .env("RUSTDOCFLAGS", "-D warnings")
        .status()
        .is_ok_and(|status| status.success());
    if passed {
        eprintln!("==> {name} passed in {:.0?}", start.elapsed());
    } else {
        eprintln!("==> {name} failed: cargo {}", arguments.join(" "));
    }
    passed
}
