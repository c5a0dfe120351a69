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
    run(count, rayon::current_num_threads(), task);
}

/// The same for tasks of unequal size, the largest first: no thread has tasks of its own, each takes the next one that is left, so that
/// the smallest fill up what the others leave.
pub(crate) fn for_each_in_order(count: usize, task: impl Fn(usize) + Sync) {
    run(count, 1, task);
}

/// Runs tasks that lie in so many lists, each thread's own first.
fn run(count: usize, lists: usize, task: impl Fn(usize) + Sync) {
    let threads = rayon::current_num_threads().min(count);
    if threads <= 1 {
        return (0..count).for_each(|i| {
            task(i);
            fence();
        });
    }
    let phase = Phase::new(count, lists.min(count));
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
    /// The next task of each list.
    next: Vec<AtomicUsize>,
    done: AtomicUsize,
}

impl Phase {
    fn new(count: usize, lists: usize) -> Self {
        let next = (0..lists).map(|list| AtomicUsize::new(list * count / lists)).collect();
        Self { count, next, done: AtomicUsize::new(0) }
    }

    /// Does what is left to do, and waits for what others do.
    fn work(&self, task: impl Fn(usize)) {
        let lists = self.next.len();
        let own = rayon::current_thread_index().unwrap_or(0);
        for list in (own..own + lists).map(|list| list % lists) {
            let end = (list + 1) * self.count / lists;
            loop {
                let i = self.next[list].fetch_add(1, Ordering::Relaxed);
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
    fn every_task_runs_once_a_call() {
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            for count in [0, 1, 2, 3, 7, 8, 9, 100] {
                let runs: Vec<_> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                let run = |i: usize| {
                    runs[i].fetch_add(1, Ordering::Relaxed);
                };
                pool.install(|| {
                    for_each(count, run);
                    for_each_in_order(count, run);
                });
                assert!(
                    runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 2),
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
