//! `cargo xtask check`: the one gate, cheapest step first. `cargo xtask docs`: tables and pictures of documents, made from
//! archived runs. `cargo xtask curves`: what archived runs learned, as a picture.

mod curves;
mod docs;

use std::env;
use std::path::Path;
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
/// The report in a real browser. Needs chromium.
const BROWSER_CHECK: &[(&str, &[&str])] = &[(
    "report in a browser",
    &["test", "--release", "-p", "reprop-report", "--test", "browser", "--locked", "--", "--include-ignored"],
)];
/// Programs that can be that browser; another is named by `BROWSER_PROGRAM`.
const BROWSERS: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/// Set to make a missing browser a failure.
const BROWSER_REQUIRED: &str = "REPROP_BROWSER_REQUIRED";
/// Set to make a missing MPI a failure.
const MPI_REQUIRED: &str = "REPROP_MPI_REQUIRED";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(&root),
        ["docs"] => match docs::write(&root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        ["curves", picture, ref metrics @ ..] if !metrics.is_empty() => curves::draw(picture, metrics),
        _ => {
            eprintln!(
                "usage: cargo xtask check, cargo xtask docs, or cargo xtask curves PICTURE.svg METRICS.jsonl..."
            );
            ExitCode::from(2)
        }
    }
}

/// Whether a program is there and answers.
fn answers(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs every check and stops at the first that fails, since later ones cost more.
fn check(root: &Path) -> ExitCode {
    let mpi = answers("mpirun");
    let browser = env::var_os("BROWSER_PROGRAM").is_some() || BROWSERS.into_iter().any(answers);
    let needs = [
        (mpi, MPI_REQUIRED, "mpi", "no mpirun; install openmpi-bin, libopenmpi-dev and libclang-dev"),
        (browser, BROWSER_REQUIRED, "report in a browser", "no browser; install chromium"),
    ];
    for (there, required, name, why) in needs {
        if !there && env::var_os(required).is_some() {
            eprintln!("==> {name} failed: {why}");
            return ExitCode::FAILURE;
        }
    }
    eprintln!("==> documents");
    if let Err(error) = docs::check(root) {
        eprintln!("==> documents failed: {error}");
        return ExitCode::FAILURE;
    }
    let checks = CHECKS.iter().chain(if browser { BROWSER_CHECK } else { &[] });
    for (name, arguments) in checks.chain(if mpi { MPI_CHECKS } else { &[] }) {
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
    for (there, _, name, why) in needs {
        if !there {
            eprintln!("==> {name} was NOT checked: {why} to check it");
        }
    }
    ExitCode::SUCCESS
}
