//! Work done ahead in threads, handed out in order.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Results of numbers in a row, made ahead by worker threads and handed out in order: what a number gives depends on the
/// number alone, so nothing depends on which thread was faster.
///
/// Worker `w` of `n` makes every `n`-th result and waits when it is one ahead. Dropped early, the workers end with what
/// they are at.
///
/// ```
/// use reprop_data::Ahead;
///
/// let squares: Vec<usize> = Ahead::new(0..5, 2, |number| number * number).collect();
/// assert_eq!(squares, [0, 1, 4, 9, 16]);
/// ```
pub struct Ahead<T> {
    numbers: Range<usize>,
    workers: Vec<Receiver<T>>,
    turn: usize,
}

impl<T: Send + 'static> Ahead<T> {
    /// Makes `numbers` with `make` on `workers` threads, at least one.
    pub fn new(
        numbers: Range<usize>,
        workers: usize,
        make: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(make);
        let workers = workers.max(1);
        let start = |worker: usize| {
            let (sender, receiver) = sync_channel(1);
            let (make, mine) = (Arc::clone(&make), numbers.clone().skip(worker).step_by(workers));
            thread::spawn(move || {
                for number in mine {
                    if sender.send(make(number)).is_err() {
                        break;
                    }
                }
            });
            receiver
        };
        Self { workers: (0..workers).map(start).collect(), turn: 0, numbers }
    }
}

impl<T> Iterator for Ahead<T> {
    type Item = T;

    /// # Panics
    ///
    /// Panics if the worker whose turn it is has panicked.
    fn next(&mut self) -> Option<T> {
        self.numbers.next()?;
        let worker = self.turn % self.workers.len();
        self.turn += 1;
        Some(self.workers[worker].recv().expect("a worker thread panicked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_with_any_number_of_workers() {
        for workers in [0, 1, 2, 3, 7] {
            let found: Vec<usize> = Ahead::new(3..40, workers, |number| number).collect();
            assert_eq!(found, (3..40).collect::<Vec<_>>());
        }
        assert_eq!(Ahead::new(4..4, 2, |number| number).next(), None);
    }

    #[test]
    fn workers_end_when_nobody_listens() {
        let mut ahead = Ahead::new(0..usize::MAX, 2, |number| number);
        assert_eq!(ahead.next(), Some(0));
        drop(ahead);
    }
}
