//! What the measurements were made on.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine, as far as it tells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Memory in all.
    pub memory_bytes: u64,
    /// The operating system.
    pub system: String,
    /// The version of reprop.
    pub version: String,
}

impl Machine {
    /// Looks around.
    pub fn look() -> Self {
        let field = |path: &str, name: &str| -> Option<String> {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let kilobytes = field("/proc/meminfo", "MemTotal")
            .and_then(|value| value.trim_end_matches("kB").trim().parse::<u64>().ok());
        Self {
            processor: field("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kilobytes.map_or(0, |kilobytes| kilobytes * 1024),
            system: std::env::consts::OS.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}
