//! States on their way out of a device.
//!
//! A device copies a tensor into a mapped or pinned buffer of the host when it comes to it, behind the work that is queued
//! before. Who waits for the bytes at once waits for all that work. So a copy is only asked for here, and its bytes are
//! taken up later, when they are there or when nothing can be done without them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use burn::tensor::{TensorData, read_sync};

/// The bytes of a state, some of which a device may still be copying out. In main memory they are there at once.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use reprop::chain::{Departure, State};
///
/// let state = (Tensor::<1>::from_floats([1.5, -2.0], &Device::flex()), 7u32);
/// let mut departure = Departure::new();
/// state.depart(&mut departure);
/// assert!(departure.is_there());
/// let mut bytes = vec![];
/// state.write(&mut bytes);
/// assert_eq!(departure.into_bytes(), bytes);
/// ```
#[derive(Default)]
pub struct Departure {
    /// In order; the last bytes go on growing.
    parts: Vec<Part>,
}

type Copying = Pin<Box<dyn Future<Output = TensorData> + Send>>;

enum Part {
    Bytes(Vec<u8>),
    Copying(Copying),
}

impl Departure {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where bytes that are there are appended.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        if !matches!(self.parts.last(), Some(Part::Bytes(_))) {
            self.parts.push(Part::Bytes(vec![]));
        }
        let Some(Part::Bytes(bytes)) = self.parts.last_mut() else {
            unreachable!("they were just put there")
        };
        bytes
    }

    /// Asks for a copy, whose bytes come next.
    pub fn copy(&mut self, copy: impl Future<Output = TensorData> + Send + 'static) {
        let mut copy: Copying = Box::pin(copy);
        match poll(&mut copy) {
            Some(data) => self.bytes().extend_from_slice(data.as_bytes()),
            None => self.parts.push(Part::Copying(copy)),
        }
    }

    /// Whether all bytes are there.
    pub fn is_there(&mut self) -> bool {
        self.parts.iter_mut().all(|part| {
            if let Part::Copying(copy) = part
                && let Some(data) = poll(copy)
            {
                *part = Part::Bytes(data.as_bytes().to_vec());
            }
            matches!(part, Part::Bytes(_))
        })
    }

    /// All bytes, waited for.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut parts = self.parts.into_iter();
        let mut bytes = match parts.next() {
            Some(Part::Bytes(bytes)) => bytes,
            Some(Part::Copying(copy)) => read_sync(copy).as_bytes().to_vec(),
            None => return vec![],
        };
        for part in parts {
            match part {
                Part::Bytes(more) => bytes.extend_from_slice(&more),
                Part::Copying(copy) => bytes.extend_from_slice(read_sync(copy).as_bytes()),
            }
        }
        bytes
    }
}

/// What is ready. Nobody is woken: whoever wants it looks again.
fn poll(copy: &mut Copying) -> Option<TensorData> {
    match copy.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(data) => Some(data),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    /// A copy that is there once `done` is set.
    fn copy(value: f32, done: &Arc<AtomicBool>) -> impl Future<Output = TensorData> + Send + 'static {
        let done = Arc::clone(done);
        future::poll_fn(move |context| {
            if done.load(Ordering::Relaxed) {
                return Poll::Ready(TensorData::new(vec![value], [1]));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn bytes_keep_their_order_whichever_copy_is_there_first() {
        let done = [false, true].map(|done| Arc::new(AtomicBool::new(done)));
        let mut departure = Departure::new();
        departure.bytes().push(1);
        departure.copy(copy(2.5, &done[0]));
        departure.bytes().push(3);
        departure.copy(copy(4.5, &done[1]));
        assert!(!departure.is_there());
        done[0].store(true, Ordering::Relaxed);
        assert!(departure.is_there());
        let expected = [&[1][..], &2.5f32.to_ne_bytes(), &[3], &4.5f32.to_ne_bytes()].concat();
        assert_eq!(departure.into_bytes(), expected);
        assert!(Departure::new().is_there());
        assert!(Departure::new().into_bytes().is_empty());
    }

    #[test]
    fn who_needs_the_bytes_waits_for_them() {
        let done = Arc::new(AtomicBool::new(false));
        let mut departure = Departure::new();
        departure.copy(copy(2.5, &done));
        departure.bytes().push(3);
        assert!(!departure.is_there());
        let (send, receive) = mpsc::channel();
        let waiting = thread::spawn(move || send.send(departure.into_bytes()).expect("a receiver"));
        done.store(true, Ordering::Relaxed);
        assert_eq!(receive.recv().expect("bytes"), [&2.5f32.to_ne_bytes()[..], &[3]].concat());
        waiting.join().expect("no panic");
    }
}
