//! Memory that a training step borrows and gives back.
//!
//! A fresh buffer costs a page fault for every 4 KiB at its first use, more than many kernels take to fill it. A workspace
//! keeps every buffer it ever made: from the second step on, a step of the same shapes finds all its memory warm.
//! Buffers carry their workspace with them and return to it when dropped, from any thread.
//!
//! Free buffers lie on a few shelves. A thread puts back on its own and looks there first, so that threads seldom wait for
//! each other; what its own does not have, another may.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memory::{LINE, Memory};
use crate::simd::Isa;
use crate::sixteen::{self, Format};

/// Whether a tensor of so many floats is better written past the caches: nothing of it would be left there when it is read,
/// and what is there would be lost.
pub(crate) fn beyond_caches(len: usize) -> bool {
    len >= 1 << 20
}

/// A pool of buffers and the instruction set to compute on; cheap to clone, shared between threads.
#[derive(Clone, Debug)]
pub struct Workspace {
    shared: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    isa: Isa,
    shelves: [Mutex<Shelf>; SHELVES],
    counts: Counts,
}

/// More than there are threads on most machines would only lengthen the search for what a thread's own shelf lacks.
const SHELVES: usize = 8;

/// Free buffers by their lines.
type Shelf = BTreeMap<usize, Vec<Memory>>;

/// [`Usage`] while threads change it.
#[derive(Debug, Default)]
struct Counts {
    owned: AtomicUsize,
    lent: AtomicUsize,
    peak: AtomicUsize,
    made: AtomicUsize,
}

/// What a workspace has made and lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all buffers it ever made and still owns, lent or not.
    pub owned: usize,
    /// Bytes lent now.
    pub lent: usize,
    /// The most bytes that were lent at once.
    pub peak: usize,
    /// Buffers that had to be made because none of the size was free.
    pub made: usize,
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new(Isa::detect())
    }
}

impl Workspace {
    /// An empty workspace for kernels on `isa`.
    pub fn new(isa: Isa) -> Self {
        let shelves = std::array::from_fn(|_| Mutex::default());
        Self { shared: Arc::new(Pool { isa, shelves, counts: Counts::default() }) }
    }

    /// The instruction set of the kernels that use it.
    pub fn isa(&self) -> Isa {
        self.shared.isa
    }

    /// Lends a buffer of `len` floats, aligned to a cache line. What it holds is unspecified (in debug builds: NaN).
    pub fn take(&self, len: usize) -> Buffer {
        let lines = size_class(len.div_ceil(LINE));
        let (counts, bytes) = (&self.shared.counts, lines * LINE * size_of::<f32>());
        let lent = counts.lent.fetch_add(bytes, Ordering::Relaxed) + bytes;
        counts.peak.fetch_max(lent, Ordering::Relaxed);
        let memory = self.found(lines).unwrap_or_else(|| {
            counts.made.fetch_add(1, Ordering::Relaxed);
            counts.owned.fetch_add(bytes, Ordering::Relaxed);
            Memory::zeros(lines * LINE)
        });
        let mut buffer = Buffer { memory, len, narrowed: None, home: self.clone() };
        if cfg!(debug_assertions) {
            buffer.fill(f32::NAN);
        }
        buffer
    }

    /// Bytes that a buffer of `len` floats takes.
    pub fn bytes(len: usize) -> usize {
        size_class(len.div_ceil(LINE)) * LINE * size_of::<f32>()
    }

    /// Lends a buffer of zeros.
    pub fn take_zeroed(&self, len: usize) -> Buffer {
        let mut buffer = self.take(len);
        buffer.fill(0.0);
        buffer
    }

    /// Makes sure that buffers of these lengths can be lent at once, and touches their memory.
    pub fn reserve(&self, lens: &[usize]) {
        let buffers: Vec<Buffer> = lens.iter().map(|&len| self.take_zeroed(len)).collect();
        drop(buffers);
    }

    /// What it has made and lent.
    pub fn usage(&self) -> Usage {
        let Counts { owned, lent, peak, made } = &self.shared.counts;
        let [owned, lent, peak, made] = [owned, lent, peak, made].map(|count| count.load(Ordering::Relaxed));
        Usage { owned, lent, peak, made }
    }

    /// Gives all memory that is not lent back to the system.
    pub fn shrink(&self) {
        for shelf in 0..SHELVES {
            let free = std::mem::take(&mut *self.shelf(shelf));
            let freed: usize = free.values().flatten().map(|memory| size_of_val(&memory[..])).sum();
            self.shared.counts.owned.fetch_sub(freed, Ordering::Relaxed);
        }
    }

    /// Free memory of so many lines, from this thread's shelf if there is some.
    fn found(&self, lines: usize) -> Option<Memory> {
        let own = own_shelf();
        (0..SHELVES).find_map(|i| self.shelf((own + i) % SHELVES).get_mut(&lines).and_then(Vec::pop))
    }

    // A panic while the lock is held leaves lists whole, so a poisoned lock is still good.
    fn shelf(&self, index: usize) -> MutexGuard<'_, Shelf> {
        self.shared.shelves[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn own_shelf() -> usize {
    rayon::current_thread_index().map_or(0, |thread| thread % SHELVES)
}

/// Rounds up to one of four sizes in each doubling, so that buffers of nearly equal length replace each other.
fn size_class(lines: usize) -> usize {
    let step = (lines.next_power_of_two() / 8).max(1);
    lines.max(1).next_multiple_of(step)
}

/// Memory lent by a [`Workspace`]; returns when dropped.
#[derive(Debug)]
pub struct Buffer {
    memory: Memory,
    /// Floats that can be seen.
    len: usize,
    /// Where they lie in 16 bits: their format, and how many they are. None can be seen then.
    narrowed: Option<(Format, usize)>,
    home: Workspace,
}

impl Buffer {
    /// A copy of `source`.
    pub fn copy_of(ws: &Workspace, source: &[f32]) -> Self {
        let mut buffer = ws.take(source.len());
        buffer.copy_from_slice(source);
        buffer
    }

    /// Bytes that it has of its workspace.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.memory[..])
    }

    /// Moves its floats to memory of half the size, in `format`. Until they are [wide](Self::widen) again it looks empty.
    pub fn narrow(&mut self, format: Format) {
        if self.narrowed.is_some() {
            return;
        }
        let mut less = self.home.take(self.len.div_ceil(2));
        sixteen::narrow(format, self, &mut less.memory.sixteens_mut()[..self.len], &self.home);
        (less.len, less.narrowed) = (0, Some((format, self.len)));
        *self = less;
    }

    /// Undoes [`Self::narrow`], but for what was rounded.
    pub fn widen(&mut self) {
        let Some((format, len)) = self.narrowed else { return };
        let mut more = self.home.take(len);
        sixteen::widen(format, &self.memory.sixteens()[..len], &mut more, &self.home);
        *self = more;
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, Memory::zeros(0));
        self.home.shared.counts.lent.fetch_sub(size_of_val(&memory[..]), Ordering::Relaxed);
        self.home.shelf(own_shelf()).entry(memory.len() / LINE).or_default().push(memory);
    }
}
