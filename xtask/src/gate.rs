//! The gate: every check, cheapest first, up to the first that fails.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::{docs, python};

/// What the gate runs, in order: a name for people, then the arguments of `cargo`.
///
/// All in one profile, so that Burn is built once for running and testing and checked once for the rest.
const CHECKS: &[(&str, &[&str])] = &[
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--release", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    ("documentation", &["doc", "--release", "--workspace", "--no-deps", "--locked"]),
    ("tests", &["test", "--release", "--workspace", "--locked"]),
    // What only that feature compiles.
    (
        "object store",
        &[
            "test",
            "--release",
            "-p",
            "reprop-store",
            "--features",
            "object-store",
            "--test",
            "blobs",
            "--locked",
        ],
    ),
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
/// A link that is cut between ranks in network namespaces. Needs root and iproute2 beside MPI.
const LINK_CHECK: &[(&str, &[&str])] = &[(
    "a cut link",
    &[
        "test",
        "--release",
        "-p",
        "reprop-cli",
        "--features",
        "mpi",
        "--test",
        "mpi_link",
        "--locked",
        "--",
        "--include-ignored",
    ],
)];
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
/// Set to make missing network namespaces a failure.
const NAMESPACES_REQUIRED: &str = "REPROP_NAMESPACES_REQUIRED";
/// Set to make a missing Python a failure.
const PYTHON_REQUIRED: &str = "REPROP_PYTHON_REQUIRED";

/// Something that the gate needs beside the Rust toolchain.
struct Need {
    there: bool,
    /// The variable that makes its absence a failure.
    required: &'static str,
    name: &'static str,
    why: &'static str,
}

impl Need {
    fn is_missed(&self) -> bool {
        !self.there && env::var_os(self.required).is_some()
    }
}

/// Runs every check and stops at the first that fails, since later ones cost more.
pub fn check(root: &Path) -> ExitCode {
    let mpi = Need {
        there: answers("mpirun", &["--version"]),
        required: MPI_REQUIRED,
        name: "mpi",
        why: "no mpirun; install openmpi-bin, libopenmpi-dev and libclang-dev",
    };
    let namespaces = Need {
        there: mpi.there && has_namespaces(),
        required: NAMESPACES_REQUIRED,
        name: "a cut link",
        why: "no network namespaces; it needs root, iproute2 and mpirun",
    };
    let browser = Need {
        there: env::var_os("BROWSER_PROGRAM").is_some()
            || BROWSERS.into_iter().any(|browser| answers(browser, &["--version"])),
        required: BROWSER_REQUIRED,
        name: "report in a browser",
        why: "no browser; install chromium",
    };
    let mut package = Need {
        there: python::is_there(),
        required: PYTHON_REQUIRED,
        name: "python",
        why: "it needs python3 from 3.11 on with venv, and pip with a package index",
    };
    for need in [&mpi, &namespaces, &browser, &package] {
        if need.is_missed() {
            eprintln!("==> {} failed: {}", need.name, need.why);
            return ExitCode::FAILURE;
        }
    }
    eprintln!("==> documents");
    if let Err(error) = docs::check(root) {
        eprintln!("==> documents failed: {error}");
        return ExitCode::FAILURE;
    }
    let checks = CHECKS.iter().chain(if browser.there { BROWSER_CHECK } else { &[] });
    let checks = checks.chain(if mpi.there { MPI_CHECKS } else { &[] });
    let mut checks = checks.chain(if namespaces.there { LINK_CHECK } else { &[] });
    if !checks.all(|(name, arguments)| run(name, arguments)) {
        return ExitCode::FAILURE;
    }
    if package.there {
        match python::check() {
            python::Verdict::Passed => {}
            python::Verdict::Failed => return ExitCode::FAILURE,
            python::Verdict::Unavailable => package.there = false,
        }
    }
    if package.is_missed() {
        eprintln!("==> {} failed: {}", package.name, package.why);
        return ExitCode::FAILURE;
    }
    for Need { there, name, why, .. } in [mpi, namespaces, browser, package] {
        if !there {
            eprintln!("==> {name} was NOT checked: {why}");
        }
    }
    ExitCode::SUCCESS
}

/// Whether network namespaces with links between them can be made: tried with one.
fn has_namespaces() -> bool {
    let name = format!("reprop-try-{}", std::process::id());
    let made = answers("ip", &["netns", "add", &name]);
    let linked = made
        && answers("ip", &["-n", &name, "link", "add", "one", "type", "veth", "peer", "name", "two"])
        && answers("ip", &["-n", &name, "link", "add", "three", "type", "bridge"]);
    if made {
        answers("ip", &["netns", "del", &name]);
    }
    linked
}

/// Whether a program is there and ends well.
pub fn answers(program: &str, arguments: &[&str]) -> bool {
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
