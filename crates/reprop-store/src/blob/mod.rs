//! The blob tier: anything that keeps bytes under a name.

mod folder;
#[cfg(feature = "object-store")]
mod object;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::Arc;

use crate::engine::{Settings, background_settings};
use crate::medium::blobs::BlobMedium;
use crate::{BackgroundStore, Result};

pub use folder::FolderBlobs;
#[cfg(feature = "object-store")]
pub use object::ObjectBlobs;

/// Bytes under names: an object store, a network share, a cache server. Three calls, from any thread.
pub trait Blobs: Send + Sync {
    /// Keeps `bytes` under `name`, which is new.
    ///
    /// # Errors
    /// What went wrong. [`io::ErrorKind::StorageFull`] is told to the store's callers as
    /// [`Error::Full`](crate::Error::Full).
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// All bytes kept under `name`.
    ///
    /// # Errors
    /// What went wrong.
    fn get(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Forgets `name`.
    ///
    /// # Errors
    /// What went wrong.
    fn delete(&self, name: &str) -> io::Result<()>;
}

/// A store of snapshots as blobs, one each, with the same background work, codecs and checks as on a disk. It has no
/// durable points.
///
/// ```
/// use reprop_store::{BlobConfig, Codec, Dtype, FolderBlobs, Key, Payload, Store};
///
/// let folder = tempfile::tempdir()?;
/// let blobs = FolderBlobs::new(folder.path())?;
/// let store = BlobConfig::new(blobs).prefix("run-7/").codec(Codec::Lz4).writers(4).create()?;
/// store.put(Key::new(0, 1), Payload::new(Dtype::U8, vec![3; 1000]))?.wait()?;
/// assert_eq!(store.get(Key::new(0, 1))?.bytes(), [3; 1000]);
/// store.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BlobConfig {
    blobs: Arc<dyn Blobs>,
    prefix: String,
    engine: Settings,
}

background_settings!(BlobConfig);

impl BlobConfig {
    /// Snapshots in `blobs`.
    pub fn new(blobs: impl Blobs + 'static) -> Self {
        Self { blobs: Arc::new(blobs), prefix: String::new(), engine: Settings::default() }
    }

    /// What all names begin with. Several stores may share one: their names have a random part.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Starts an empty store.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting), or [`Error::Io`](crate::Error::Io) if no thread can be started.
    pub fn create(&self) -> Result<BackgroundStore> {
        self.engine.check()?;
        let store = RandomState::new().build_hasher().finish();
        let medium = BlobMedium::new(self.blobs.clone(), format!("{}{store:016x}", self.prefix));
        BackgroundStore::start(Box::new(medium), store, self.engine.clone(), Vec::new())
    }
}

impl fmt::Debug for BlobConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobConfig")
            .field("prefix", &self.prefix)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}
