//! Streams that leave memory for a disk, and come back for the backward pass.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use burn::tensor::{DType, Device, Tensor, TensorData};
use reprop_store::{BackgroundStore, DiskConfig, Dtype, Key, Payload, Store, Ticket};

use crate::{Error, Result, Streams, host};

/// A disk for the inputs of transitions that have no place in memory. Clones share it.
///
/// A pass that has one can run in modes that [spill](crate::Inputs::Spilled): then plans have them among their candidates.
/// The store is made when the first of them runs, and its files are gone with the last clone. The folder has to be on a real
/// disk: one in memory takes the memory that is to be saved.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use reprop::{Inputs, Mode, Network, Pass, Spill, Strategy, gradient_digest};
/// use reprop_models::{RevVitConfig, Vit};
/// use reprop_store::DiskConfig;
///
/// let network = Vit::new(&RevVitConfig::digits(), 42, &Device::flex().autodiff());
/// let images = Tensor::<4>::ones([8, 1, 8, 8], &Device::flex());
/// let labels = Tensor::<1, Int>::zeros([8], &Device::flex());
///
/// let folder = tempfile::tempdir().unwrap();
/// let spill = Spill::new(DiskConfig::new(folder.path().join("streams")));
/// let mode = Mode { recompute_transitions: true, inputs: Inputs::Spilled, ..Mode::default() };
/// let step = |pass, strategy| network.step(images.clone(), labels.clone(), pass, strategy);
/// let spilled = step(Pass::training(42).spill(&spill), Strategy::Planned(mode))?;
/// let stored = step(Pass::training(42), Strategy::Stored)?;
/// assert_eq!(gradient_digest(&network, &spilled.gradients), gradient_digest(&network, &stored.gradients));
/// # Ok::<(), reprop::Error>(())
/// ```
#[derive(Clone)]
pub struct Spill {
    shared: Arc<Shared>,
}

struct Shared {
    config: DiskConfig,
    store: OnceLock<reprop_store::Result<BackgroundStore>>,
    /// Passes that have spilled, which tells the streams of one from those of another.
    passes: AtomicU64,
    /// Nanoseconds that passes have waited.
    stall: AtomicU64,
}

impl Spill {
    /// A store of this configuration.
    pub fn new(config: DiskConfig) -> Self {
        let [passes, stall] = [0, 0].map(AtomicU64::new);
        Self { shared: Arc::new(Shared { config, store: OnceLock::new(), passes, stall }) }
    }

    /// Seconds that passes have waited for the disk.
    pub fn stall_seconds(&self) -> f64 {
        Duration::from_nanos(self.shared.stall.load(Ordering::Relaxed)).as_secs_f64()
    }

    /// What `call` gives, with its wait counted.
    fn waiting<T>(&self, call: impl FnOnce(&BackgroundStore) -> reprop_store::Result<T>) -> Result<T> {
        let store = self.store()?;
        let begin = Instant::now();
        let given = call(store);
        let waited = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.stall.fetch_add(waited, Ordering::Relaxed);
        given.map_err(Error::spill)
    }

    /// Room for the streams of one pass.
    pub(crate) fn shelf(&self) -> Shelf {
        let run = self.shared.passes.fetch_add(1, Ordering::Relaxed);
        Shelf { spill: self.clone(), run, held: Vec::new() }
    }

    fn store(&self) -> Result<&BackgroundStore> {
        let store = self.shared.store.get_or_init(|| self.shared.config.create());
        store.as_ref().map_err(Error::spill)
    }
}

impl fmt::Debug for Spill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Spill").field(&self.shared.config).finish()
    }
}

/// The streams of one pass on a disk. What is left of them when it is dropped is removed.
pub(crate) struct Shelf {
    spill: Spill,
    run: u64,
    held: Vec<(usize, Ticket)>,
}

/// What makes streams of bytes.
pub(crate) struct Form<const D: usize> {
    dims: [usize; D],
    dtype: DType,
    device: Device,
    /// Whether both are one, as in networks that are not reversible: it is written once.
    same: bool,
}

impl<const D: usize> Form<D> {
    /// The bytes of such streams, each counted by itself.
    pub fn bytes(&self) -> u64 {
        2 * (self.dims.iter().product::<usize>() * self.dtype.size()) as u64
    }
}

impl Shelf {
    fn key(&self, step: usize) -> Key {
        Key::new(self.run, step as u64)
    }

    /// Begins to write streams.
    pub fn put<const D: usize>(&mut self, step: usize, streams: &Streams<D>) -> Result<Form<D>> {
        let Streams { x1, x2 } = streams;
        let (dims, dtype, device) = (x1.dims(), x1.dtype(), x1.device());
        let [one, other] = [x1, x2].map(|x| host::read(x.clone()));
        let same = one.as_bytes() == other.as_bytes();
        let mut bytes = Vec::with_capacity(if same { 1 } else { 2 } * one.as_bytes().len());
        bytes.extend_from_slice(one.as_bytes());
        if !same {
            bytes.extend_from_slice(other.as_bytes());
        }
        let kind = match dtype.size() {
            4 => Dtype::F32,
            2 => Dtype::F16,
            _ => Dtype::Bytes,
        };
        let (key, payload) = (self.key(step), Payload::new(kind, bytes));
        let ticket = self.spill.waiting(|store| store.put(key, payload))?;
        self.held.push((step, ticket));
        Ok(Form { dims, dtype, device, same })
    }

    /// Waits until streams are written.
    pub fn wait(&self, step: usize) -> Result<()> {
        let ticket = self.held.iter().find(|(held, _)| *held == step).map(|(_, ticket)| ticket);
        self.spill.waiting(|_| ticket.map_or(Ok(()), Ticket::wait))
    }

    /// Begins to read streams.
    pub fn prefetch(&self, step: usize) -> Result<()> {
        // Where as much as allowed is on its way already, taking them waits a little.
        self.spill.waiting(|store| store.prefetch(self.key(step))).map(|_| ())
    }

    /// Streams, waited for and removed.
    pub fn take<const D: usize>(&mut self, step: usize, form: &Form<D>) -> Result<Streams<D>> {
        let key = self.key(step);
        let payload = self.spill.waiting(|store| store.get(key))?;
        self.spill.waiting(|store| store.remove(key))?;
        self.held.retain(|(held, _)| *held != step);
        let Form { dims, dtype, ref device, same } = *form;
        let tensor = |bytes: &[u8]| -> Tensor<D> {
            Tensor::from_data(TensorData::from_bytes_vec(bytes.to_vec(), dims, dtype), (device, dtype))
        };
        let bytes = payload.bytes();
        let (one, other) = bytes.split_at(if same { bytes.len() } else { bytes.len() / 2 });
        let x1 = tensor(one);
        let x2 = if same { x1.clone() } else { tensor(other) };
        Ok(Streams::new(x1, x2))
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let Ok(store) = self.spill.store() else { return };
        for (step, _) in std::mem::take(&mut self.held) {
            // A call that tells of another failure has removed it all the same.
            let _ = store.remove(self.key(step));
        }
    }
}
