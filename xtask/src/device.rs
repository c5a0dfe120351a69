//! `cargo xtask check --device wgpu`: the laws on a device other than the CPU, and a report to send.
//!
//! Nothing is installed. Where no device is found, the program itself says what is missing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::gate::answers;

/// Families of devices that there are cargo features for.
pub const FAMILIES: [&str; 5] = ["wgpu", "vulkan", "metal", "cuda", "rocm"];
/// What is tested, and by which test targets.
const TESTS: [(&str, &str); 3] =
    [("laws", "devices"), ("reads by the host", "host_reads"), ("memory of the allocator", "device_memory")];
const BENCH: [&str; 15] = [
    "bench",
    "--model",
    "rev-vit-digits",
    "--depth",
    "4,16",
    "--batch",
    "4",
    "--strategy",
    "stored,reprop,pareprop",
    "--warmup",
    "2",
    "--steps",
    "5",
    "--format",
    "json",
];
/// Lines of a step's output that go into the report.
const LINES: usize = 60;

/// One step: its name, its program and arguments, whether its output goes into the report, and how it went.
struct Done {
    name: &'static str,
    line: String,
    output: String,
    passed: bool,
    time: Duration,
}

/// Runs the suite on the device of that name, and writes a report.
pub fn check(root: &Path, device: &str) -> ExitCode {
    let family = device.split(':').next().unwrap_or(device);
    if !FAMILIES.contains(&family) {
        eprintln!("error: there is no device called `{device}`: choose one of {}", FAMILIES.join(", "));
        return ExitCode::from(2);
    }
    let feature = format!("reprop-cli/{family}");
    let program = root.join("target/device/reprop").to_string_lossy().into_owned();
    let chosen = ["--profile", "device", "--workspace", "--locked", "--features", &feature];
    let cargo = |command, targets: &[&'static str]| [&["cargo", command], &chosen[..], targets].concat();
    let test = |name| cargo("test", &["--test", name, "--", "--nocapture", "--test-threads", "2"]);
    let run = |arguments: &[&'static str]| [&[program.as_str()], arguments, &["--device", device]].concat();
    let tests = TESTS.iter().flat_map(|(_, name)| ["--test", name]);
    let build = cargo("build", &["--bin", "reprop"].into_iter().chain(tests).collect::<Vec<_>>());
    let list = [program.as_str(), "--device", "list", "--format", "json"];
    let mut steps = vec![
        ("build", build),
        ("devices", list.to_vec()),
        ("verify", run(&["verify", "--depth", "3", "--batch", "2", "--dropout", "0.1"])),
    ];
    steps.extend(TESTS.iter().map(|&(what, name)| (what, test(name))));
    steps.push(("bench", run(&BENCH)));
    let mut done = Vec::new();
    for (name, line) in &steps {
        let step = run_step(root, name, line, device);
        let passed = step.passed;
        done.push(step);
        if !passed {
            break;
        }
    }
    let passed = done.len() == steps.len() && done.iter().all(|step| step.passed);
    eprintln!("==> {} steps in {:.0?}", done.len(), done.iter().map(|step| step.time).sum::<Duration>());
    let path = root.join(format!("target/device-report-{}.md", device.replace(':', "-")));
    if let Err(error) = fs::write(&path, report(root, device, &done, passed)) {
        eprintln!("==> the report could not be written to {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    eprintln!("==> the report is in {}: please send it", path.display());
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one step. What it says on stderr is seen as it comes; what it says on stdout goes into the report.
fn run_step(root: &Path, name: &'static str, line: &[&str], device: &str) -> Done {
    eprintln!("==> {name}");
    let start = Instant::now();
    let output = Command::new(line[0])
        .args(&line[1..])
        .current_dir(root)
        .env("REPROP_DEVICE", device)
        .stderr(Stdio::inherit())
        .output();
    let (passed, output) = match output {
        Ok(output) => (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => (false, error.to_string()),
    };
    let time = start.elapsed();
    eprintln!("==> {name} {} in {time:.0?}", if passed { "passed" } else { "failed" });
    if !passed {
        eprint!("{output}");
    }
    // The path of this machine says nothing to others.
    let line = line.join(" ").replace(&*root.to_string_lossy(), ".");
    Done { name, line, output, passed, time }
}

fn report(root: &Path, device: &str, done: &[Done], passed: bool) -> String {
    let first_line = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(root).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let mut text = format!("# reprop on {device}: {}\n\n", if passed { "passed" } else { "FAILED" });
    let system = if answers("uname", &["-srm"]) {
        first_line("uname", &["-srm"])
    } else {
        std::env::consts::OS.into()
    };
    let _ = writeln!(text, "- commit: {}", first_line("git", &["describe", "--always", "--dirty"]));
    let _ = writeln!(text, "- compiler: {}", first_line("rustc", &["--version"]));
    let _ = writeln!(text, "- system: {system}\n");
    for Done { name, line, output, passed, time } in done {
        let verdict = if *passed { "passed" } else { "FAILED" };
        let _ = writeln!(text, "## {name}: {verdict} in {:.0} s\n\n`{line}`\n\n```", time.as_secs_f64());
        let lines: Vec<&str> = output.lines().collect();
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            let _ = writeln!(text, "{line}");
        }
        text.push_str("```\n\n");
    }
    text
}
