//! `cargo xtask check`: the one gate, cheapest step first.

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

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some("check") {
        return check();
    }
    eprintln!("usage: cargo xtask check");
    ExitCode::from(2)
}

/// Runs every check and stops at the first that fails, since later ones cost more.
fn check() -> ExitCode {
    for (name, arguments) in CHECKS {
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
    ExitCode::SUCCESS
}
