//! Devices by name: what the library was built with, and what it finds on this machine.
//!
//! A name is a family with an index where there are several: `cpu`, `wgpu`, `cuda:1`. A family is compiled in by the cargo
//! feature of the same name; the CPU always is.

use std::sync::LazyLock;

use burn::tensor::Device;
#[cfg(any(feature = "cuda", feature = "metal", feature = "rocm", feature = "vulkan", feature = "wgpu"))]
use burn::tensor::DeviceType;

/// A family of devices.
struct Family {
    name: &'static str,
    built: bool,
    /// Whether streams of one device run side by side.
    streams: bool,
    find: fn() -> Vec<Device>,
    /// What to do where none is found.
    install: &'static str,
}

/// Of a feature: its devices if it is compiled in, else none.
macro_rules! find {
    ($feature:literal, $kind:ident) => {{
        #[cfg(feature = $feature)]
        let find = || Device::enumerate(DeviceType::$kind).into_iter().collect();
        #[cfg(not(feature = $feature))]
        let find = Vec::new;
        find
    }};
}

const FAMILIES: [Family; 6] = [
    Family { name: "cpu", built: true, streams: false, find: || vec![Device::flex()], install: "" },
    Family {
        name: "wgpu",
        built: cfg!(feature = "wgpu"),
        streams: false,
        find: find!("wgpu", Wgpu),
        install: "install a driver for Vulkan; Debian's package mesa-vulkan-drivers has one that needs no GPU",
    },
    Family {
        name: "vulkan",
        built: cfg!(feature = "vulkan"),
        streams: false,
        find: find!("vulkan", Vulkan),
        install: "install a driver for Vulkan; Debian's package mesa-vulkan-drivers has one that needs no GPU",
    },
    Family {
        name: "metal",
        built: cfg!(feature = "metal"),
        streams: false,
        find: find!("metal", Metal),
        install: "Metal is found on macOS alone",
    },
    Family {
        name: "cuda",
        built: cfg!(feature = "cuda"),
        streams: true,
        find: find!("cuda", Cuda),
        install: "install NVIDIA's driver, and look at what `nvidia-smi` says",
    },
    Family {
        name: "rocm",
        built: cfg!(feature = "rocm"),
        streams: true,
        find: find!("rocm", Rocm),
        install: "install AMD's ROCm, and look at what `rocminfo` says",
    },
];

/// A device that is here.
#[derive(Clone, Debug)]
pub struct FoundDevice {
    /// What [`named_device`] takes: `cpu`, `wgpu:0`.
    pub name: String,
    /// What the device calls itself.
    pub model: String,
    /// The device.
    pub device: Device,
}

/// Why there is no device of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No family is called so, or the index is no number.
    #[error("there is no device called `{name}`")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The family is not compiled in.
    #[error("this program was built without the device `{family}`")]
    NotBuilt {
        /// Its family.
        family: &'static str,
    },
    /// The family is compiled in, but has no device here.
    #[error("no {family} device was found")]
    Nothing {
        /// Its family.
        family: &'static str,
    },
    /// The family has fewer devices.
    #[error("there is no device {family}:{index}: {found} found, counted from 0")]
    Index {
        /// Its family.
        family: &'static str,
        /// What was asked for.
        index: usize,
        /// How many there are.
        found: usize,
    },
}

impl DeviceError {
    /// The way out.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { .. } => {
                format!("choose one of {}, or one of several as in wgpu:1", built_devices().join(", "))
            }
            Self::NotBuilt { family } => format!("build it with `cargo build --release --features {family}`"),
            Self::Nothing { family } => FAMILIES
                .iter()
                .find(|known| known.name == *family)
                .map_or("", |known| known.install)
                .to_owned(),
            Self::Index { family, .. } => format!("leave out the number for {family}:0"),
        }
    }
}

/// The families that are compiled in.
///
/// ```
/// assert!(reprop::built_devices().contains(&"cpu"));
/// ```
pub fn built_devices() -> Vec<&'static str> {
    FAMILIES.iter().filter(|family| family.built).map(|family| family.name).collect()
}

/// Every device that is here, of the families that are compiled in. It opens each, to ask for its model.
///
/// ```
/// let names: Vec<String> = reprop::found_devices().into_iter().map(|found| found.name).collect();
/// assert_eq!(names[0], "cpu");
/// ```
pub fn found_devices() -> Vec<FoundDevice> {
    FAMILIES
        .iter()
        .filter(|family| family.built)
        .flat_map(|family| {
            let devices = (family.find)().into_iter().enumerate();
            devices.map(|(index, device)| FoundDevice {
                name: if family.name == "cpu" {
                    "cpu".to_owned()
                } else {
                    format!("{}:{index}", family.name)
                },
                model: model(&device),
                device,
            })
        })
        .collect()
}

/// The device of that name. Nothing is opened yet.
///
/// ```
/// use reprop::named_device;
///
/// let device = named_device("cpu")?.autodiff();
/// assert!(named_device("cpu:1").is_err());
/// # Ok::<(), reprop::DeviceError>(())
/// ```
///
/// # Errors
///
/// A name that is none, a family that is not compiled in, or fewer devices than asked for.
pub fn named_device(name: &str) -> Result<Device, DeviceError> {
    let unknown = || DeviceError::Unknown { name: name.to_owned() };
    let (family, index) = match name.split_once(':') {
        Some((family, index)) => (family, Some(index.parse::<usize>().map_err(|_| unknown())?)),
        None => (name, None),
    };
    let family = FAMILIES.iter().find(|known| known.name == family).ok_or_else(unknown)?;
    if !family.built {
        return Err(DeviceError::NotBuilt { family: family.name });
    }
    let devices = (family.find)();
    let found = devices.len();
    let index = index.unwrap_or(0);
    devices.into_iter().nth(index).ok_or(if found == 0 {
        DeviceError::Nothing { family: family.name }
    } else {
        DeviceError::Index { family: family.name, index, found }
    })
}

/// Whether streams of `device` run side by side, and not one after the other in a queue that they share.
pub(crate) fn has_streams(device: &Device) -> bool {
    static FOUND: LazyLock<Vec<Device>> = LazyLock::new(|| {
        FAMILIES.iter().filter(|family| family.streams).flat_map(|family| (family.find)()).collect()
    });
    FOUND.contains(device)
}

/// What a device calls itself.
fn model(device: &Device) -> String {
    #[cfg(any(feature = "cuda", feature = "rocm", feature = "wgpu"))]
    if let Some(identity) = device.identity() {
        return identity.name;
    }
    if *device == Device::flex() { "this machine's processor".to_owned() } else { format!("{device:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_families_with_an_index_where_there_are_several() {
        assert_eq!(named_device("cpu"), Ok(Device::flex()));
        assert_eq!(named_device("cpu:0"), Ok(Device::flex()));
        let missing = DeviceError::Index { family: "cpu", index: 3, found: 1 };
        assert_eq!(named_device("cpu:3"), Err(missing));
        for name in ["", "tpu", "cpu:", "cpu:x", ":0", "cpu:-1"] {
            assert_eq!(named_device(name), Err(DeviceError::Unknown { name: name.to_owned() }));
        }
    }

    #[test]
    fn every_refusal_has_a_way_out() {
        for family in FAMILIES.iter().filter(|family| !family.built) {
            let refused = named_device(family.name).expect_err("it is not compiled in");
            assert_eq!(refused, DeviceError::NotBuilt { family: family.name });
            assert!(refused.hint().contains(&format!("--features {}", family.name)));
        }
        let nothing = DeviceError::Nothing { family: "wgpu" };
        assert!(nothing.hint().contains("mesa-vulkan-drivers"), "{}", nothing.hint());
    }
}
