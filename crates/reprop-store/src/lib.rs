//! Where the snapshots of a long chain live: in memory, on a disk, or in a store of blobs, written and read in the
//! background, checked on every read.
//!
//! A chain that is differentiated backward needs its states again, the last one first. Those that do not fit into memory
//! are put into a [`Store`] on the way forward and fetched on the way back, while the computation goes on. This crate knows
//! nothing of tensors or schedules: a snapshot is bytes with a [`Key`].
//!
//! ```
//! use reprop_store::{DiskConfig, Dtype, Key, Payload, Store};
//!
//! let folder = tempfile::tempdir()?;
//! let store = DiskConfig::new(folder.path().join("snapshots")).create()?;
//!
//! // Forward: x becomes x^2 / 2 + 0.3, and every state is handed over.
//! let mut x = 0.5_f64;
//! for step in 0..20 {
//!     store.put(Key::new(0, step), Payload::new(Dtype::F64, x.to_le_bytes().to_vec()))?;
//!     x = x * x / 2.0 + 0.3;
//! }
//! // Backward: the derivative of the last state by the first is the product of all states.
//! let mut gradient = 1.0;
//! for step in (0..20).rev() {
//!     if step > 0 {
//!         store.prefetch(Key::new(0, step - 1))?; // read while this one is worked on
//!     }
//!     let state = store.get(Key::new(0, step))?.into_bytes();
//!     gradient *= f64::from_le_bytes(state.try_into().unwrap());
//!     store.remove(Key::new(0, step))?;
//! }
//! println!("{gradient}, {}", store.finish()?);
//! assert!((1e-9..1e-7).contains(&gradient));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which store
//! | you have | use | not |
//! |---|---|---|
//! | memory to spare | [`MemoryStore`] | |
//! | a disk | [`DiskConfig`] | a disk in memory (`tmpfs`): it takes the memory you want to save |
//! | an object store or a network share | [`BlobConfig`] with [`FolderBlobs`], your own [`Blobs`], or `ObjectBlobs` (feature `object-store`) | on a disk of your own: slower, and through the page cache |
//!
//! Do not use it as a database: it holds few, large, short-lived snapshots (a small one takes a block of 4 KiB), and the
//! index of them is in memory.
//!
//! # What it promises
//! 1. `put` gives a [`Ticket`], and the store owns the data until it can be read. Queues are bounded; waiting for them is
//!    measured and reported as stall ([`Report::stall_put`], [`Report::stall_get`]).
//! 2. Every read checks a header (magic number, version, store, run, step, number of the write, lengths, dtype, codec) and
//!    a checksum. A mismatch is [`Error::Corrupt`] with file, step, expected and found: never garbage.
//! 3. An error in the background is told by the next call and by `finish`; nothing is swallowed, and dropping never
//!    panics. A full disk is [`Error::Full`], and what was stored before stays readable: see [`Store`] for how to go on.
//! 4. With [`Durability::Every`], a killed process finds its last durable point again: the snapshots it held then, and a few
//!    bytes of its own, both or neither. See *Durable points*.
//! 5. The page cache does not hide the cost: direct I/O, or writing back and dropping from the cache at once. The memory
//!    saved is saved, and [`Report::write_seconds`] is what a write takes.
//! 6. Files are removed at the end unless kept. A lock refuses a second run on the same folder, and vanishes with its
//!    process.
//!
//! # Memory it takes
//! Snapshots in the queue ([`DiskConfig::queue`]) and read ahead ([`DiskConfig::read_ahead`]; memory of those that were read is
//! kept for the next reads), and for each I/O thread a buffer as large as the largest snapshot it has seen, two with a codec.
//! With the defaults and equal snapshots: about six of them, nine with a codec, and about a hundred and twenty bytes for
//! each snapshot stored.
//!
//! It runs on Unix; direct I/O is for Linux, elsewhere files are synced after each write.
//!
//! # Durable points
//! [`Store::commit`] offers a point: what is held at that moment, and a few bytes that say where the caller is. It is made
//! durable in the background, after the writes before it. Removing a snapshot that the last durable point names frees its
//! place only when a later point is durable, so a kill at any moment leaves one whole point.
//!
//! ```
//! use reprop_store::{DiskConfig, Dtype, Durability, Key, Payload, Store};
//!
//! let folder = tempfile::tempdir()?;
//! let config = DiskConfig::new(folder.path()).durability(Durability::Every(1));
//! let store = config.create()?;
//! store.put(Key::new(0, 3), Payload::new(Dtype::U8, vec![1, 2, 3]))?;
//! store.commit(b"at step 3")?;
//! store.put(Key::new(0, 4), Payload::new(Dtype::U8, vec![4]))?;
//! store.commit(b"at step 4")?.expect("every offer is taken").wait()?;
//! store.remove(Key::new(0, 3))?; // after the point: so the point still has it
//! drop(store); // as a kill would
//!
//! let (store, recovered) = config.open_existing()?;
//! assert_eq!(recovered.meta, b"at step 4");
//! assert_eq!(store.keys(), [Key::new(0, 3), Key::new(0, 4)]);
//! assert_eq!(store.get(Key::new(0, 3))?.bytes(), [1, 2, 3]);
//! store.finish()?; // ended well: the files go
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blob;
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
mod sorted;
mod store;
pub mod testing;
mod ticket;

#[cfg(feature = "object-store")]
pub use blob::ObjectBlobs;
pub use blob::{BlobConfig, Blobs, FolderBlobs};
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
