//! A mutable slice that several tasks write, each its own part.

use std::marker::PhantomData;
use std::ops::Range;

use crate::gemm::micro::LINE;
use crate::simd::{Isa, dispatch};

/// A `&mut [T]`, of floats as a rule, cut up by tasks in ways that `chunks_mut` cannot say (columns, rectangles, heads).
#[derive(Debug)]
pub(crate) struct Shared<'a, T = f32> {
    ptr: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for a `&mut [T]`, which is `Send`; every use from several threads goes through the unsafe methods,
// whose callers promise that their parts do not overlap.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { ptr: slice.as_mut_ptr(), len: slice.len(), owner: PhantomData }
    }

    /// One part.
    ///
    /// # Safety
    /// No other part that overlaps it may be in use.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "part {range:?} of {} floats", self.len);
        // SAFETY: inside the slice, and ours alone by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(range.start), range.end - range.start) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of element `index`, or the end.
    pub(crate) fn at(&self, index: usize) -> *mut T {
        assert!(index <= self.len, "element {index} of {} floats", self.len);
        self.ptr.wrapping_add(index)
    }
}

impl Shared<'_> {
    /// Asks the caches for a part that is to be used soon, as far as there is one.
    pub(crate) fn fetch(&self, isa: Isa, range: Range<usize>) {
        let end = range.end.min(self.len);
        if range.start < end {
            fetch(isa, self.at(range.start), end - range.start);
        }
    }
}

dispatch! {
    /// A hint that changes no bit: nothing is read.
    fn fetch(s: Isa, from: *const f32, count: usize) {
        for i in (0..count).step_by(LINE) {
            s.prefetch(from.wrapping_add(i));
        }
        s.prefetch(from.wrapping_add(count - 1));
    }
}
