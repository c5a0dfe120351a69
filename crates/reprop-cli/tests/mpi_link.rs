//! A link that is cut between two ranks, each in a network namespace of its own: a machine of its own, as far as MPI can see.
//!
//! Needs root, iproute2 and `mpirun`, so that it is ignored unless asked for; `cargo xtask check` asks where they are there, and
//! says so where they are not.
#![cfg(feature = "mpi")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds that a stage waits for its neighbour.
const PATIENCE: u64 = 3;
/// Beside the patience: both ranks say so, and MPI takes the job down.
const SLACK: Duration = Duration::from_secs(12);

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two namespaces with two links: one to each other for the ranks' messages, and one through a bridge to the launcher.
struct Namespaces {
    names: [String; 2],
    bridge: String,
    control: String,
}

impl Namespaces {
    fn new() -> Self {
        let process = std::process::id();
        let control = format!("10.{}.{}", 128 + process % 100, process / 100 % 250);
        let made = Self {
            names: ["a", "b"].map(|name| format!("reprop{process}{name}")),
            bridge: format!("rp{process}"),
            control,
        };
        let Self { names, bridge, control } = &made;
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("addr add {control}.254/24 dev {bridge}"));
        ip(&format!("link set {bridge} up"));
        for (index, name) in names.iter().enumerate() {
            let outside = format!("{bridge}{index}");
            ip(&format!("netns add {name}"));
            ip(&format!("link add {outside} type veth peer name control netns {name}"));
            ip(&format!("link set {outside} master {bridge} up"));
            ip(&format!("-n {name} addr add {control}.{}/24 dev control", index + 1));
        }
        ip(&format!("-n {} link add data type veth peer name data netns {}", names[0], names[1]));
        for (index, name) in names.iter().enumerate() {
            ip(&format!("-n {name} addr add 10.255.255.{}/24 dev data", index + 1));
            for link in ["lo", "control", "data"] {
                ip(&format!("-n {name} link set {link} up"));
            }
        }
        made
    }

    /// Cuts the link of the ranks' messages. What goes in is lost, and nobody is told.
    fn cut(&self) {
        ip(&format!("-n {} link set data down", self.names[0]));
    }

    /// What the launcher runs in place of ssh: a daemon in a namespace, under a host name of its own.
    fn agent(folder: &Path) -> PathBuf {
        let path = folder.join("agent");
        let script = "#!/bin/sh\nhost=$1\nshift\n\
                      exec ip netns exec $host unshare --uts sh -c \"hostname $host; $*\"\n";
        fs::write(&path, script).expect("the agent is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it may be run");
        path
    }
}

impl Drop for Namespaces {
    /// Links between namespaces go with them.
    fn drop(&mut self) {
        for arguments in [
            ["netns", "del", &self.names[0]],
            ["netns", "del", &self.names[1]],
            ["link", "del", &self.bridge],
        ] {
            let _ = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
        }
    }
}

/// Processes that train into this folder.
fn ranks_of(folder: &str) -> usize {
    let processes = fs::read_dir("/proc").expect("processes").filter_map(|entry| {
        let line = fs::read_to_string(entry.ok()?.path().join("cmdline")).ok()?;
        (line.contains(folder) && line.starts_with(env!("CARGO_BIN_EXE_reprop"))).then_some(())
    });
    processes.count()
}

#[test]
#[ignore = "needs root, iproute2 and mpirun: cargo xtask check runs it where they are there"]
fn a_cut_link_is_noticed_within_the_patience_and_nobody_hangs() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespaces = Namespaces::new();
    let out = folder.path().join("run");
    let plain = out.to_str().expect("a plain path");
    let hosts = namespaces.names.join(",");
    let agent = Namespaces::agent(folder.path());
    let launcher = format!("{}.0/24", namespaces.control);
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "-np", "2", "-host", &hosts]);
    for (name, value) in [
        ("plm_rsh_agent", agent.to_str().expect("a plain path")),
        ("plm_rsh_no_tree_spawn", "1"),
        ("btl", "self,tcp"),
        ("btl_tcp_if_include", "data"),
        ("oob_tcp_if_include", &launcher),
    ] {
        command.args(["--mca", name, value]);
    }
    command.arg(env!("CARGO_BIN_EXE_reprop"));
    command.args([
        "train",
        "--depth",
        "8",
        "--width",
        "16",
        "--batch",
        "32",
        "--steps",
        "100000",
        "--threads",
        "1",
    ]);
    command.args(["--method", "petra", "--stages", "2", "--patience", &PATIENCE.to_string(), "--out", plain]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("mpirun starts");

    let deadline = Instant::now() + Duration::from_mins(2);
    while fs::read_to_string(out.join("metrics.jsonl")).map_or(0, |text| text.lines().count()) < 20 {
        if Instant::now() > deadline || child.try_wait().expect("it can be asked").is_some() {
            let _ = child.kill();
            let output = child.wait_with_output().expect("mpirun ends");
            panic!("no metrics: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ranks_of(plain), 2);
    namespaces.cut();
    let cut = Instant::now();
    let bound = Duration::from_secs(PATIENCE) + SLACK;
    while child.try_wait().expect("it can be asked").is_none() && cut.elapsed() < bound {
        std::thread::sleep(Duration::from_millis(50));
    }
    let hangs = child.try_wait().expect("it can be asked").is_none();
    if hangs {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("mpirun ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!hangs, "{bound:?} after the cut the job is still there: {errors}");
    assert!(!output.status.success() && errors.contains("waited 3s for the stage"), "{errors}");
    assert_eq!(ranks_of(plain), 0, "ranks live on");
}
