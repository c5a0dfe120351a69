//! What checks of the kernels outside the gate share: the tests they run, and how they tell what came of them.

use std::process::Command;
use std::time::Instant;

/// What compares kernels with naive ones on random shapes, and runs each once on a few odd elements. Page faults are another
/// program's business here.
const TESTS: &str = "tiny gemm attention window pooled stages mlp conv strided branch entering recurrent sixteen threads grid losses \
     not_a_number";

/// The tests as arguments of `cargo test`, those of single functions first.
pub fn tests() -> Vec<&'static str> {
    std::iter::once("--lib").chain(TESTS.split(' ').flat_map(|test| ["--test", test])).collect()
}

/// Something a check needs, and how to get it.
pub struct Need {
    pub there: bool,
    pub hint: &'static str,
}

/// Runs a check if all it needs is there, and says how it went. What is missing is named, and is a failure: who asks for the
/// check wants it run.
pub fn run(name: &str, needs: &[Need], check: &mut Command) -> bool {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.there).collect();
    if !missing.is_empty() {
        eprintln!("{name}: missing");
        for need in missing {
            eprintln!("hint: {}", need.hint);
        }
        return false;
    }
    let start = Instant::now();
    let passed = check.status().is_ok_and(|status| status.success());
    let verdict = if passed { "passed" } else { "failed" };
    eprintln!("{name}: {verdict} in {:.0} s", start.elapsed().as_secs_f64());
    passed
}
