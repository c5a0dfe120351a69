//! The Python package, which is not part of the workspace: its own script checks, builds, installs and tests it in a
//! virtual environment of its own. Needs Python and its package index.

use std::process::Command;
use std::time::Instant;

use crate::gate::answers;

const SCRIPT: &str = "crates/reprop-python/build.sh";
/// What it ends with where the package index does not answer.
const UNAVAILABLE: i32 = 3;
/// The oldest Python that the package takes, with what its script needs.
const ASKED: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

/// How the package did.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    /// What it is built with cannot be had.
    Unavailable,
}

/// Whether there is a Python that the package takes.
pub fn is_there() -> bool {
    answers("python3", &["-c", ASKED])
}

/// Builds and tests the package; its wheel is in `crates/reprop-python/target/wheels`.
pub fn check() -> Verdict {
    let start = Instant::now();
    eprintln!("==> python");
    let status = Command::new(SCRIPT).status();
    match status.ok().and_then(|status| status.code()) {
        Some(0) => {
            eprintln!("==> python passed in {:.0?}", start.elapsed());
            Verdict::Passed
        }
        Some(UNAVAILABLE) => Verdict::Unavailable,
        code => {
            eprintln!("==> python failed: {SCRIPT} ({code:?})");
            Verdict::Failed
        }
    }
}
