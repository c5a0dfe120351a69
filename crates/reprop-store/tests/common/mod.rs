//! What the tests share.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::Path;
use std::sync::Arc;

use reprop_store::testing::FaultyFiles;
use reprop_store::{BackgroundStore, DiskConfig, Dtype, Key, Payload};

/// A step of the one run most tests have.
pub fn key(step: u64) -> Key {
    Key::new(1, step)
}

/// Bytes that depend on every bit of the seed, and that no other seed gives.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(length).collect()
}

/// A snapshot of noise.
pub fn payload(seed: u64, length: usize) -> Payload {
    Payload::new(Dtype::F32, noise(seed, length))
}

/// A store in `folder` on a file system that can be made to fail.
pub fn faulty(config: DiskConfig) -> (BackgroundStore, FaultyFiles) {
    let files = FaultyFiles::new();
    let store = config.layer(Arc::new(files.clone())).create().expect("a store opens in an empty folder");
    (store, files)
}

/// Small files, so that several are made.
pub fn small(folder: &Path) -> DiskConfig {
    DiskConfig::new(folder).segment_bytes(64 << 10)
}

/// Names of the files in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
