//! The disk tier: how it is opened.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use crate::engine::{Settings, background_settings};
use crate::files::{FileLayer, SystemFiles};
use crate::medium::folder::{Folder, FolderSettings};
use crate::{BackgroundStore, Error, Result};

/// What survives a kill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing.
    #[default]
    None,
    /// Every k-th point offered by [`commit`](crate::Store::commit).
    Every(u64),
}

/// What a killed run left: its last durable point. Its snapshots are in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// What the run gave to [`commit`](crate::Store::commit).
    pub meta: Vec<u8>,
    /// The point's number, counted from 1.
    pub point: u64,
    /// Bytes of an unfinished point behind it, which was dropped. 0 after a clean end.
    pub torn: u64,
}

/// A store of snapshots in a folder of its own.
///
/// ```
/// use reprop_store::{Codec, DiskConfig, Dtype, Key, Payload, Store};
///
/// let folder = tempfile::tempdir()?;
/// let store = DiskConfig::new(folder.path().join("snapshots")).codec(Codec::Auto).create()?;
/// for step in 0..4 {
///     store.put(Key::new(0, step), Payload::new(Dtype::U8, vec![step as u8; 1000]))?; // goes on at once
/// }
/// for step in (0..4).rev() {
///     if step > 0 {
///         store.prefetch(Key::new(0, step - 1))?; // is read while this one is used
///     }
///     assert_eq!(store.get(Key::new(0, step))?.bytes(), vec![step as u8; 1000]);
///     store.remove(Key::new(0, step))?;
/// }
/// let report = store.finish()?;
/// assert_eq!(report.puts, 4);
/// assert!(!folder.path().join("snapshots").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct DiskConfig {
    folder: FolderSettings,
    engine: Settings,
    durability: Durability,
}

background_settings!(DiskConfig);

impl DiskConfig {
    /// Snapshots in `folder`, which is made if it is not there. Nobody else may use it at the same time.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: FolderSettings {
                folder: folder.into(),
                layer: Arc::new(SystemFiles),
                direct: true,
                segment_bytes: 16 << 20,
                budget: u64::MAX,
                durable: false,
                discard_stale: false,
            },
            engine: Settings::default(),
            durability: Durability::None,
        }
    }

    /// What survives a kill. Nothing by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether `finish` leaves the files. What can be opened later is the last durable point, so it goes with
    /// [`Durability::Every`] only. Off by default.
    pub fn keep(mut self, keep: bool) -> Self {
        self.engine.keep = keep;
        self
    }

    /// Whether [`create`](Self::create) may throw away a run that could be resumed. Off by default. What cannot be
    /// resumed is thrown away in any case.
    pub fn discard_stale(mut self, discard: bool) -> Self {
        self.folder.discard_stale = discard;
        self
    }

    /// The most bytes the snapshots' files may take. As much as the disk has by default.
    pub fn budget(mut self, bytes: u64) -> Self {
        self.folder.budget = bytes;
        self
    }

    /// Bytes of the first file, 16 MiB by default; each further one is twice as long, up to 4 GiB.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.folder.segment_bytes = bytes;
        self
    }

    /// Whether to go past the page cache where the file system can: on by default. Otherwise each write is written
    /// back and dropped from the cache at once.
    pub fn direct(mut self, direct: bool) -> Self {
        self.folder.direct = direct;
        self
    }

    /// Another file system than the real one, for tests.
    pub fn layer(mut self, layer: Arc<dyn FileLayer>) -> Self {
        self.folder.layer = layer;
        self
    }

    /// Starts an empty store. Files that a killed run left are removed, if they cannot be resumed.
    ///
    /// # Errors
    /// [`Error::Locked`] if the folder is in use, [`Error::Resumable`] if it holds a durable point and
    /// [`discard_stale`](Self::discard_stale) is off, [`Error::Io`] for what the system refuses, [`Error::Setting`].
    pub fn create(&self) -> Result<BackgroundStore> {
        let (folder, engine) = self.settings()?;
        let store = RandomState::new().build_hasher().finish();
        let folder = Folder::create(&folder, store)?;
        BackgroundStore::start(Box::new(folder), store, engine, Vec::new())
    }

    /// Takes up a killed run at its last durable point.
    ///
    /// # Errors
    /// [`Error::NothingToResume`] without one, [`Error::Manifest`] if the manifest is damaged, [`Error::Locked`],
    /// [`Error::Io`], [`Error::Setting`]; the latter also if durability is off, since then no second kill would be survived.
    pub fn open_existing(&self) -> Result<(BackgroundStore, Recovered)> {
        let (folder, engine) = self.settings()?;
        if engine.every == 0 {
            let value = format!("{:?}", self.durability);
            return Err(Error::Setting {
                name: "durability",
                value,
                needed: "to resume it has to be `Every`",
            });
        }
        let (folder, left) = Folder::open_existing(&folder)?;
        let recovered = Recovered { meta: left.meta, point: left.points, torn: left.torn };
        let store = BackgroundStore::start(Box::new(folder), left.store, engine, left.records)?;
        Ok((store, recovered))
    }

    fn settings(&self) -> Result<(FolderSettings, Settings)> {
        let every = match self.durability {
            Durability::None => 0,
            Durability::Every(0) => {
                let needed = "it has to be at least 1, or `Durability::None`";
                return Err(Error::Setting { name: "durability", value: "Every(0)".into(), needed });
            }
            Durability::Every(k) => k,
        };
        if self.engine.keep && every == 0 {
            let needed = "without durability there is nothing to open later: set `Durability::Every` too";
            return Err(Error::Setting { name: "keep", value: "true".into(), needed });
        }
        let engine = Settings { every, ..self.engine.clone() };
        engine.check()?;
        let folder = FolderSettings { durable: every > 0, ..self.folder.clone() };
        Ok((folder, engine))
    }
}
