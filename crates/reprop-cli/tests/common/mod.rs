//! Running the program.

use std::process::{Command, Output, Stdio};

/// The program with these arguments, its output piped.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprop"));
    // Costs that tests measure are no user's.
    command.env("REPROP_CACHE", env!("CARGO_TARGET_TMPDIR"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What the program said and how it ended.
pub fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

/// What the program said, if it ended well.
pub fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} ended with {}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("the program writes UTF-8")
}
