//! `cargo xtask neon`: the kernels' tests on NEON. On another CPU they are built for that one and run under an emulator,
//! minutes, so not part of the gate; on a CPU that has NEON they are what the gate runs.
//!
//! Emulated threads see each other's stores in the order of the CPU below, and faults of that kind are Miri's to find.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::gate::answers;
use crate::kernels::{self, Need};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Statically, so that the emulator need not be told where that CPU's libraries are.
const FLAGS: &str = "-Clinker=aarch64-linux-gnu-gcc -Ctarget-feature=+crt-static";
/// A test program, of which the longest takes some twenty seconds, is stopped after five minutes. In the foreground: whoever
/// stops this program stops it too.
const RUNNER: &str = "timeout --foreground 300 qemu-aarch64";

/// Runs the tests; fails if one fails or something is missing.
pub fn run(root: &Path) -> ExitCode {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["test", "--release", "--locked", "-p", "reprop-kernels"])
        .args(kernels::tests())
        .current_dir(root);
    let passed = if cfg!(target_arch = "aarch64") {
        kernels::run("neon, this CPU", &[], &mut cargo)
    } else {
        cargo.args(["--target", TARGET]).env("RUSTFLAGS", FLAGS);
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", RUNNER);
        kernels::run("neon, emulated", &needs(root), &mut cargo)
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn needs(root: &Path) -> [Need; 4] {
    // Each answers with a path, whether or not it is there.
    let library = answer(root, "rustc", &["--print", "target-libdir", "--target", TARGET]);
    let archive = answer(root, LINKER, &["-print-file-name=libc.a"]);
    [
        Need { there: Path::new(&library).is_dir(), hint: "rustup target add aarch64-unknown-linux-gnu" },
        Need { there: answers(LINKER, &["--version"]), hint: "install gcc-aarch64-linux-gnu" },
        Need { there: Path::new(&archive).is_absolute(), hint: "install libc6-dev-arm64-cross" },
        Need { there: answers(EMULATOR, &["--version"]), hint: "install qemu-user" },
    ]
}

/// What a program says, or nothing if it is not there.
fn answer(root: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
