//! Where the snapshots of a long chain live: in memory or on a disk, written and read in the background.

mod buffer;
mod codec;
mod disk;
mod engine;
mod error;
mod estimate;
mod files;
mod frame;
mod key;
mod medium;
mod memory;
mod payload;
mod report;
mod store;
pub mod testing;
mod ticket;

pub use codec::Codec;
pub use disk::{DiskConfig, Durability, Recovered};
pub use engine::BackgroundStore;
pub use error::{Error, Result};
pub use estimate::Estimate;
pub use files::{FileLayer, LayerFile, SystemFiles};
pub use key::Key;
pub use memory::MemoryStore;
pub use payload::{Dtype, Payload};
pub use report::Report;
pub use store::Store;
pub use ticket::Ticket;
