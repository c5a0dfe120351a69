//! `cargo xtask sanitize`: the kernels' unsafe code under tools that watch every access. Minutes, so not part of the gate.
//!
//! - **Miri** interprets the portable set: aliasing, bounds, uninitialised memory, data races between tasks.
//! - **Address sanitizer** runs the vector sets of this CPU: bounds of every load and store.
//!
//! Both need a nightly toolchain (`rustup toolchain install nightly --component miri`).

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::kernels::{self, Need};

/// Rayon keeps its threads to the end, which is no leak, and its deque needs the newer aliasing model; isolation hides the
/// number of cores. The last job of a rayon scope has told of its end while it still holds a reference to the scope, for the few
/// instructions until it returns. Threads are switched only where one waits, so that no run ends there; races are found by the order
/// of events, whatever the switches.
const MIRI_FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-ignore-leaks \
                          -Zmiri-permissive-provenance -Zmiri-preemption-rate=0";
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Each kernel once on a few odd elements: short enough for an interpreter.
const TINY: [&str; 2] = ["--test", "tiny"];

/// Runs both; fails if one fails or is missing.
pub fn run(root: &Path) -> ExitCode {
    let folder = root.join("target/sanitize");
    let miri = Check {
        name: "miri, portable set",
        there: &["miri", "--version"],
        arguments: [&["miri", "test", "-p", "reprop-kernels"], &TINY[..]].concat(),
        variable: ("MIRIFLAGS", MIRI_FLAGS),
        hint: "rustup toolchain install nightly --component miri",
    };
    let address = Check {
        name: "address sanitizer, vector sets",
        there: &["--version"],
        arguments: [
            &["test", "--release", "--target", TARGET, "-p", "reprop-kernels"],
            &kernels::tests()[..],
        ]
        .concat(),
        variable: ("RUSTFLAGS", "-Zsanitizer=address"),
        hint: "rustup toolchain install nightly, on x86-64 Linux",
    };
    let passed = [miri, address].map(|check| check.run(root, &folder));
    if passed.contains(&false) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

struct Check {
    name: &'static str,
    /// What the nightly `cargo` answers if the tool is there.
    there: &'static [&'static str],
    arguments: Vec<&'static str>,
    variable: (&'static str, &'static str),
    hint: &'static str,
}

impl Check {
    fn run(&self, root: &Path, folder: &Path) -> bool {
        let cargo = |arguments: &[&str]| {
            let mut command = Command::new("cargo");
            // The toolchain that runs this program must not be passed on to the one that is asked for.
            command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").arg("+nightly").args(arguments);
            command.current_dir(root).env("CARGO_TARGET_DIR", folder);
            command
        };
        let there = cargo(self.there).output().is_ok_and(|output| output.status.success());
        let (variable, value) = self.variable;
        let needs = [Need { there, hint: self.hint }];
        kernels::run(self.name, &needs, cargo(&self.arguments).env(variable, value))
    }
}
