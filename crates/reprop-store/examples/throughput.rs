//! How close the store comes to the disk: the same bytes written and read back by plain `pwrite` and `pread` past the page
//! cache, as `dd` does, then by the store with each codec. Expect the store without a codec within a tenth of the plain
//! transfers, and `Auto` never far behind the best.
//!
//! ```text
//! cargo run --release -p reprop-store --example throughput -- [FOLDER] [MIB A SNAPSHOT] [SNAPSHOTS]
//! ```

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use reprop_store::{Codec, DiskConfig, Dtype, FileLayer, Key, Payload, Store, SystemFiles};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "throughput-snapshots".into());
    let mebibytes: usize = arguments.next().map_or(Ok(8), |text| text.parse())?;
    let snapshots: u64 = arguments.next().map_or(Ok(32), |text| text.parse())?;
    let state = Payload::new(Dtype::F32, activations(mebibytes << 18));
    println!("{snapshots} snapshots of {mebibytes} MiB in {folder}; megabytes a second");
    println!(
        "{:<12} {:>8} {:>8} {:>10} {:>11} {:>11}",
        "", "write", "read", "compressed", "put waited", "get waited"
    );
    plain(Path::new(&folder), state.bytes(), snapshots)?;
    for codec in [Codec::None, Codec::Lz4, Codec::ShuffleZstd, Codec::Auto] {
        stored(Path::new(&folder), codec, &state, snapshots)?;
    }
    Ok(())
}

/// Numbers like a network's activations: a bell curve, rounded to what half precision knows.
fn activations(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut uniform = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    let bell = |uniform: &mut dyn FnMut() -> f32| (0..4).map(|_| uniform()).sum::<f32>() - 2.0;
    (0..count)
        .flat_map(|_| f32::from_bits(bell(&mut uniform).to_bits() & 0xffff_e000).to_le_bytes())
        .collect()
}

fn speed(bytes: u64, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The limit: one file, one thread, nothing checked.
fn plain(folder: &Path, bytes: &[u8], snapshots: u64) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join("plain");
    let file = SystemFiles.open(&path, true)?;
    // An aligned piece of a larger buffer: what direct I/O wants.
    let mut room = vec![0; bytes.len() + 4096];
    let start = room.as_ptr().addr().wrapping_neg() % 4096;
    let buffer = &mut room[start..start + bytes.len()];
    buffer.copy_from_slice(bytes);
    file.allocate(bytes.len() as u64 * snapshots)?;
    let total = bytes.len() as u64 * snapshots;
    let clock = Instant::now();
    for index in 0..snapshots {
        whole(file.write_at(buffer, index * bytes.len() as u64)?, bytes.len())?;
    }
    file.sync()?;
    let write = speed(total, clock);
    let clock = Instant::now();
    for index in (0..snapshots).rev() {
        whole(file.read_at(buffer, index * bytes.len() as u64)?, bytes.len())?;
    }
    println!("{:<12} {write:>8.0} {:>8.0}", "plain", speed(total, clock));
    std::fs::remove_file(path)?;
    Ok(())
}

fn whole(done: usize, all: usize) -> Result<(), String> {
    if done == all {
        Ok(())
    } else {
        Err(format!("only {done} of {all} bytes at a time: take smaller snapshots"))
    }
}

/// Forward: put all. Backward: get all, the last first, reading ahead.
fn stored(folder: &Path, codec: Codec, state: &Payload, snapshots: u64) -> Result<(), Box<dyn Error>> {
    let store = DiskConfig::new(folder).codec(codec).create()?;
    let total = state.len() as u64 * snapshots;
    let clock = Instant::now();
    let tickets: Result<Vec<_>, _> =
        (0..snapshots).map(|step| store.put(Key::new(0, step), state.clone())).collect();
    for ticket in tickets? {
        ticket.wait()?;
    }
    let write = speed(total, clock);
    let clock = Instant::now();
    for step in (0..snapshots).rev() {
        for ahead in step.saturating_sub(2)..step {
            store.prefetch(Key::new(0, ahead))?;
        }
        if store.get(Key::new(0, step))? != *state {
            return Err(format!("step {step} came back different").into());
        }
        store.remove(Key::new(0, step))?;
    }
    let read = speed(total, clock);
    let report = store.finish()?;
    println!(
        "{:<12} {write:>8.0} {read:>8.0} {:>9.2}x {:>9.3} s {:>9.3} s",
        format!("{codec:?}"),
        report.compression(),
        report.stall_put.as_secs_f64(),
        report.stall_get.as_secs_f64()
    );
    Ok(())
}
