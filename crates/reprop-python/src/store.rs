//! The store of snapshots, its waits without the interpreter lock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reprop_store::{BackgroundStore, Codec, DiskConfig, Dtype, Key, Payload, Store as _, Ticket};

use crate::error::{StoreError, store as failed};

/// Snapshots in a folder, written and read by threads of their own, checked on every read.
///
/// It belongs to the process that made it: after a fork the child has none of its threads, so every call there raises,
/// and nothing of it is touched when it is dropped.
#[pyclass(frozen, weakref, module = "reprop")]
pub struct Store {
    /// `None` once it is closed.
    inner: Mutex<Option<Arc<BackgroundStore>>>,
    tickets: Mutex<BTreeMap<u64, Ticket>>,
    process: u32,
}

impl Store {
    fn open(&self) -> PyResult<Arc<BackgroundStore>> {
        self.same_process()?;
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(|| StoreError::new_err("the store is closed"))
    }

    /// Asked before anything else: a lock may have been held by another thread at the moment of the fork.
    fn same_process(&self) -> PyResult<()> {
        let (made, here) = (self.process, process::id());
        if made == here {
            return Ok(());
        }
        Err(StoreError::new_err(format!(
            "this store belongs to process {made} and process {here} is a fork of it, without the store's threads: \
             make a store after the fork"
        )))
    }

    fn take(&self) -> Option<Arc<BackgroundStore>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (folder, *, codec="none", budget=None, queue=2, read_ahead=2))]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        codec: &str,
        budget: Option<u64>,
        queue: usize,
        read_ahead: usize,
    ) -> PyResult<Self> {
        let codec = match codec {
            "none" => Codec::None,
            "auto" => Codec::Auto,
            "lz4" => Codec::Lz4,
            "zstd" => Codec::ShuffleZstd,
            other => {
                let message = format!("unknown codec `{other}`: choose one of none, auto, lz4, zstd");
                return Err(StoreError::new_err(message));
            }
        };
        let config = DiskConfig::new(folder).codec(codec).queue(queue, u64::MAX).read_ahead(read_ahead);
        let config = config.budget(budget.unwrap_or(u64::MAX));
        let store = py.detach(|| config.create()).map_err(failed)?;
        Ok(Self {
            inner: Mutex::new(Some(Arc::new(store))),
            tickets: Mutex::default(),
            process: process::id(),
        })
    }

    /// Takes a copy of the buffers, one after the other, as the snapshot of `step`; it is written in the background.
    fn put(&self, py: Python<'_>, step: u64, buffers: Vec<PyBuffer<u8>>) -> PyResult<()> {
        let store = self.open()?;
        let mut bytes = vec![0; buffers.iter().map(|buffer| buffer.len_bytes()).sum()];
        let mut rest = bytes.as_mut_slice();
        for buffer in &buffers {
            let (part, others) = rest.split_at_mut(buffer.len_bytes());
            buffer.copy_to_slice(py, part)?;
            rest = others;
        }
        let payload = Payload::new(Dtype::Bytes, bytes);
        let ticket = py.detach(|| store.put(Key::new(0, step), payload)).map_err(failed)?;
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).insert(step, ticket);
        Ok(())
    }

    /// Waits until a snapshot is written.
    fn wait(&self, py: Python<'_>, step: u64) -> PyResult<()> {
        let _open = self.open()?;
        let ticket = self.tickets.lock().unwrap_or_else(PoisonError::into_inner).get(&step).cloned();
        ticket.map_or(Ok(()), |ticket| py.detach(|| ticket.wait())).map_err(failed)
    }

    /// Begins to read a snapshot that `get` will want; `False` if enough is being read already.
    fn prefetch(&self, py: Python<'_>, step: u64) -> PyResult<bool> {
        let store = self.open()?;
        py.detach(|| store.prefetch(Key::new(0, step))).map_err(failed)
    }

    /// Fills the buffers with the snapshot of `step`, which has to have their length; it stays in the store.
    fn get(&self, py: Python<'_>, step: u64, buffers: Vec<PyBuffer<u8>>) -> PyResult<()> {
        let store = self.open()?;
        let payload = py.detach(|| store.get(Key::new(0, step))).map_err(failed)?;
        let wanted: usize = buffers.iter().map(|buffer| buffer.len_bytes()).sum();
        if wanted != payload.len() {
            let message = format!("the snapshot of step {step} has {} bytes, not {wanted}", payload.len());
            return Err(StoreError::new_err(message));
        }
        let mut rest = payload.bytes();
        for buffer in &buffers {
            let (part, others) = rest.split_at(buffer.len_bytes());
            buffer.copy_from_slice(py, part)?;
            rest = others;
        }
        Ok(())
    }

    /// Forgets a snapshot.
    fn remove(&self, py: Python<'_>, step: u64) -> PyResult<()> {
        let store = self.open()?;
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).remove(&step);
        py.detach(|| store.remove(Key::new(0, step))).map_err(failed)
    }

    /// The steps whose snapshots are held.
    fn steps(&self) -> PyResult<Vec<u64>> {
        Ok(self.open()?.keys().into_iter().map(|key| key.step).collect())
    }

    /// What has happened so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.open()?.stats();
        let stats = PyDict::new(py);
        stats.set_item("writes", report.writes)?;
        stats.set_item("reads", report.reads)?;
        stats.set_item("raw_written", report.raw_written)?;
        stats.set_item("stored_written", report.stored_written)?;
        stats.set_item("raw_read", report.raw_read)?;
        stats.set_item("stall_put", report.stall_put.as_secs_f64())?;
        stats.set_item("stall_get", report.stall_get.as_secs_f64())?;
        stats.set_item("busy_write", report.busy_write.as_secs_f64())?;
        stats.set_item("busy_read", report.busy_read.as_secs_f64())?;
        stats.set_item("peak_held", report.peak_held)?;
        Ok(stats)
    }

    /// Ends the threads and removes the files. With `discard`, what waits to be written is dropped, and errors of the
    /// background with it.
    #[pyo3(signature = (discard=false))]
    fn close(&self, py: Python<'_>, discard: bool) -> PyResult<()> {
        self.same_process()?;
        let Some(store) = self.take() else { return Ok(()) };
        if discard {
            py.detach(|| drop(store));
            return Ok(());
        }
        py.detach(|| store.finish().map(drop)).map_err(failed)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.process != process::id() {
            // Its threads are not here to be joined, and its files are the parent's.
            std::mem::forget(self.take_forked());
        }
    }
}

impl Store {
    /// The store without its lock: `&mut self` means that nobody else has it.
    fn take_forked(&mut self) -> Option<Arc<BackgroundStore>> {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}
