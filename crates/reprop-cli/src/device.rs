//! Devices and threads by name.

use burn::tensor::Device;
use reprop::{built_devices, found_devices, named_device};
use serde::Serialize;

use crate::failure::Failure;
use crate::options::Format;

/// The name that asks for a list instead of a device.
pub const LIST: &str = "list";

/// The device of that name, for training.
pub fn by_name(name: &str) -> Result<Device, Failure> {
    let device = named_device(name).map_err(|error| {
        let hint = format!("{}; `reprop --device {LIST}` tells what is here", error.hint());
        Failure::usage(error.to_string()).hint(hint)
    })?;
    Ok(device.autodiff())
}

/// What `--device list` says.
#[derive(Serialize)]
struct Listing {
    /// Families that the program was built with.
    built: Vec<&'static str>,
    /// Devices of those families that are here.
    found: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    model: String,
}

/// Prints what the program was built with and what it finds.
pub fn list(format: Format) -> Result<(), Failure> {
    let found = found_devices().into_iter().map(|found| Entry { name: found.name, model: found.model });
    let listing = Listing { built: built_devices(), found: found.collect() };
    match format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&listing)?),
        Format::Text => {
            println!("built with: {}", listing.built.join(", "));
            for Entry { name, model } in listing.found {
                println!("{name:<8}  {model}");
            }
        }
    }
    Ok(())
}

/// Lets everything run on `threads` threads.
pub fn use_threads(threads: Option<usize>) -> Result<(), Failure> {
    if !reprop::join_pool(threads)
        && let Some(threads) = threads
    {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    }
    Ok(())
}
