//! Tasks of one phase, side by side on rayon's pool.
//!
//! A step of a small batch is a hundred phases of some hundred microseconds, and each ends with a thread that waits for another.
//! Rayon puts such a thread to sleep within some ten microseconds, and to wake it takes longer than that. Here it stays awake for
//! as long as a phase lasts, about, and lets others have its core if they ask for it.
//!
//! Each thread begins with tasks of its own, the same ones in every phase, so that it finds in its caches what it wrote in the phase
//! before; then it takes others'. Which thread does a task changes no bit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::simd::fence;

/// How long a thread that has nothing to do stays awake.
const AWAKE: Duration = Duration::from_micros(200);

/// Runs `task` for each number below `count`, in parallel, each its own unit of stealing. Whoever sees that a task has ended
/// sees what it stored, past the caches or not.
pub(crate) fn for_each(count: usize, task: impl Fn(usize) + Sync) {
    let threads = rayon::current_num_threads().min(count);
    if threads <= 1 {
        return (0..count).for_each(|i| {
            task(i);
            fence();
        });
    }
    let phase = Phase::new(count, threads);
    rayon::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| phase.work(&task));
        }
        phase.work(&task);
    });
}

/// How far the tasks of a phase are.
struct Phase {
    count: usize,
    /// The next task of each thread's own.
    next: Vec<AtomicUsize>,
    done: AtomicUsize,
}

impl Phase {
    fn new(count: usize, threads: usize) -> Self {
        let next = (0..threads).map(|thread| AtomicUsize::new(thread * count / threads)).collect();
        Self { count, next, done: AtomicUsize::new(0) }
    }

    /// Does what is left to do, and waits for what others do.
    fn work(&self, task: impl Fn(usize)) {
        let threads = self.next.len();
        let own = rayon::current_thread_index().unwrap_or(0);
        for thread in (own..own + threads).map(|thread| thread % threads) {
            let end = (thread + 1) * self.count / threads;
            loop {
                let i = self.next[thread].fetch_add(1, Ordering::Relaxed);
                if i >= end {
                    break;
                }
                task(i);
                fence();
                self.done.fetch_add(1, Ordering::Release);
            }
        }
        let since = Instant::now();
        while self.done.load(Ordering::Acquire) < self.count && since.elapsed() < AWAKE {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            for count in [0, 1, 2, 3, 7, 8, 9, 100] {
                let runs: Vec<_> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                pool.install(|| {
                    for_each(count, |i| {
                        runs[i].fetch_add(1, Ordering::Relaxed);
                    });
                });
                assert!(
                    runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1),
                    "{threads} threads, {count} tasks"
                );
            }
        }
    }

    #[test]
    fn tasks_inside_of_tasks_all_run() {
        let sum = AtomicUsize::new(0);
        for_each(5, |i| {
            for_each(7, |j| {
                sum.fetch_add(i * j, Ordering::Relaxed);
            });
        });
        assert_eq!(sum.into_inner(), 10 * 21);
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| for_each(9, |i| assert_ne!(i, 8, "the last task")));
        assert!(caught.is_err());
    }
}
