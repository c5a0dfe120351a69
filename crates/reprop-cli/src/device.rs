//! Devices and threads by name.

use burn::tensor::Device;

use crate::failure::Failure;

/// What the program was built with.
const NAMES: &[&str] = &[
    "cpu",
    #[cfg(feature = "cuda")]
    "cuda",
    #[cfg(feature = "wgpu")]
    "wgpu",
];

/// The device of that name, for training.
pub fn by_name(name: &str) -> Result<Device, Failure> {
    match name {
        "cpu" => Ok(Device::flex().autodiff()),
        #[cfg(feature = "cuda")]
        "cuda" => Ok(Device::cuda(0).autodiff()),
        #[cfg(feature = "wgpu")]
        "wgpu" => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice).autodiff()),
        known if ["cuda", "wgpu"].contains(&known) => {
            Err(Failure::usage(format!("this program was built without the device `{name}`"))
                .hint(format!("build it with `cargo build --release --features {name}`")))
        }
        _ => Err(Failure::usage(format!("there is no device called `{name}`"))
            .hint(format!("choose one of {}", NAMES.join(", ")))),
    }
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
