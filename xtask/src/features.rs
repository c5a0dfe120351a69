//! `cargo xtask features`: the compiler's word on every family of devices, built here or not.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::device::FAMILIES;

/// Checks each feature by itself, and says which do not pass.
pub fn check(root: &Path) -> ExitCode {
    let failed: Vec<&str> = FAMILIES.into_iter().filter(|family| !checks(root, family)).collect();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("==> these features do not check here: {}", failed.join(", "));
    ExitCode::FAILURE
}

fn checks(root: &Path, family: &str) -> bool {
    eprintln!("==> {family}");
    let start = Instant::now();
    let feature = format!("reprop-cli/{family}");
    let passed = Command::new("cargo")
        // In the profile of the suite, whose build scripts and macros are there once it has run.
        .args([
            "check",
            "--profile",
            "device",
            "--workspace",
            "--all-targets",
            "--locked",
            "--features",
            &feature,
        ])
        .current_dir(root)
        // The compilers of cuda and rocm are a native LLVM, which their build scripts would download. Types need none: with
        // this variable the scripts leave it out, as on a server of documentation.
        .env("DOCS_RS", "1")
        .status()
        .is_ok_and(|status| status.success());
    eprintln!("==> {family} {} in {:.0?}", if passed { "passed" } else { "failed" }, start.elapsed());
    passed
}
