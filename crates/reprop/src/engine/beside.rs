//! The two halves of a backward pass, side by side.
//!
//! On the CPU `rayon::join` gives each half a core, and lets the half that ends first take up the other's inner loops.
//!
//! On other devices a thread is a stream: `CubeCL` keeps for every OS thread a queue of work and a pool of memory of its own,
//! and lets a stream wait on the device, not on the host, for what another one made. Rayon's workers would then be as many
//! streams as there are cores, each with a pool that grows to the size of a block. So gradients stay on the thread of the
//! caller, where the forward pass ran, and recovery has one thread of its own for the whole life of the process: two streams
//! and two pools, whoever calls.
//!
//! Devices behind wgpu have one queue of hardware for all streams, so that nothing overlaps between two of them, and a
//! tensor that crosses over is handed in and waited for. There the second thread works on the caller's stream: kernels come
//! from two threads into one queue, and what one half frees the other takes.

use std::sync::LazyLock;

use burn::tensor::{Device, StreamId};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::devices::has_streams;

/// How the two halves run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// One after the other.
    InTurn,
    /// In the pool of the CPU's threads.
    Shared,
    /// On two threads that fill one queue of a device.
    OneQueue,
    /// On two threads and so on two streams of a device.
    TwoStreams,
}

/// The thread on which blocks of devices are recovered; none if the system gives no thread.
static RECOVERY: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let name = |_| "reprop-recovery".to_owned();
    ThreadPoolBuilder::new().num_threads(1).thread_name(name).build().ok()
});

impl Beside {
    /// For tensors on `device`.
    pub fn on(overlap: bool, device: Option<Device>) -> Self {
        match device {
            _ if !overlap => Self::InTurn,
            Some(device) if device != Device::flex() => {
                if has_streams(&device) {
                    Self::TwoStreams
                } else {
                    Self::OneQueue
                }
            }
            _ => Self::Shared,
        }
    }

    /// Whether recovery runs while gradients are computed.
    pub fn overlaps(self) -> bool {
        self != Self::InTurn
    }

    /// Both results.
    pub fn run<A: Send, B: Send>(
        self,
        grads: impl FnOnce() -> A + Send,
        recover: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match (self, &*RECOVERY) {
            (Self::Shared, _) => rayon::join(grads, recover),
            (Self::OneQueue, Some(thread)) => {
                let stream = StreamId::current();
                apart(thread, grads, || stream.executes(recover))
            }
            (Self::TwoStreams, Some(thread)) => apart(thread, grads, recover),
            (Self::InTurn, _) | (Self::OneQueue | Self::TwoStreams, None) => (grads(), recover()),
        }
    }
}

/// The first on this thread, the second on the other.
fn apart<A: Send, B: Send>(
    thread: &ThreadPool,
    grads: impl FnOnce() -> A + Send,
    recover: impl FnOnce() -> B + Send,
) -> (A, B) {
    let mut recovered = None;
    let grads = thread.in_place_scope(|scope| {
        scope.spawn(|_| recovered = Some(recover()));
        grads()
    });
    (grads, recovered.expect("the scope ends after what it spawned"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    /// Every caller keeps its own thread, and all recover on one other.
    #[test]
    fn on_a_device_each_half_has_a_thread_that_stays_the_same() {
        let ids = || Beside::TwoStreams.run(|| thread::current().id(), || thread::current().id());
        let runs: Vec<_> = (0..20).map(|_| ids()).collect();
        assert!(runs.iter().all(|&(grads, recover)| grads == thread::current().id() && recover != grads));
        let other: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(ids)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let recovering: BTreeSet<String> =
            runs.iter().chain(&other).map(|(_, recover)| format!("{recover:?}")).collect();
        assert_eq!(recovering.len(), 1, "{recovering:?}");
    }

    #[test]
    fn halves_inside_halves_do_not_wait_for_ever() {
        for apart in [Beside::OneQueue, Beside::TwoStreams] {
            let inner = || apart.run(|| 1, || 2);
            assert_eq!(apart.run(inner, inner), ((1, 2), (1, 2)));
            assert_eq!(rayon::join(inner, inner), ((1, 2), (1, 2)));
        }
    }

    /// Streams are numbers of threads, whatever the device.
    #[test]
    fn the_second_thread_works_on_the_callers_stream_or_on_its_own() {
        let ids = |beside: Beside| {
            let here = || (thread::current().id(), StreamId::current().value);
            beside.run(here, here)
        };
        let ((grads, caller), (recover, stream)) = ids(Beside::OneQueue);
        assert_eq!((grads, caller), (thread::current().id(), stream));
        let ((_, again), (thread, own)) = ids(Beside::TwoStreams);
        assert_eq!((again, thread), (caller, recover));
        assert!(recover != grads && own != caller, "a thread and a stream of its own");
    }

    #[test]
    fn the_device_decides_where_the_halves_run() {
        let cpu = || Some(Device::flex().autodiff());
        assert_eq!(Beside::on(false, cpu()), Beside::InTurn);
        assert_eq!(Beside::on(true, cpu()), Beside::Shared);
        assert_eq!(Beside::on(true, None), Beside::Shared);
    }
}
