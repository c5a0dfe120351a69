//! Blobs in an object store.

use std::io;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tokio::runtime::{Builder, Runtime};

use super::Blobs;

/// Blobs in any store of the `object_store` crate: S3, Google Cloud, Azure, HTTP, memory, as its features say.
///
/// ```
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use reprop_store::{Blobs, ObjectBlobs};
///
/// let blobs = ObjectBlobs::new(Arc::new(InMemory::new()))?;
/// blobs.put("a", b"bytes")?;
/// assert_eq!(blobs.get("a")?, b"bytes");
/// blobs.delete("a")?;
/// assert!(blobs.get("a").is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
}

impl ObjectBlobs {
    /// Wraps an object store, with a small runtime of its own to wait in.
    ///
    /// # Errors
    /// What the system says if the runtime's thread cannot be started.
    pub fn new(store: Arc<dyn ObjectStore>) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { store, runtime })
    }
}

impl Blobs for ObjectBlobs {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let payload = PutPayload::from(bytes.to_vec());
        self.runtime.block_on(self.store.put(&Path::from(name), payload))?;
        Ok(())
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = Path::from(name);
        let bytes = self.runtime.block_on(async { self.store.get(&path).await?.bytes().await })?;
        Ok(bytes.to_vec())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        Ok(self.runtime.block_on(self.store.delete(&Path::from(name)))?)
    }
}
