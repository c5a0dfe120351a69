//! Which threads the kernels run on.

/// Makes the calling thread one of the workers of rayon's global pool, beside others that are started; true if so.
///
/// A kernel that is called from outside the pool wakes a worker and sleeps until its work is done, twice as many wake-ups
/// as from inside: tens of microseconds for each parallel part, of which a training step has dozens. Call it once, in the
/// thread that trains, before anything else uses the pool. `threads` is their number with this one; if not given,
/// `RAYON_NUM_THREADS` or the number of cores.
///
/// False, and the pool is left to start by itself, if it has started already; also where it has but one thread, since
/// other threads of the program may need the pool while this one waits for them.
pub fn join_pool(threads: Option<usize>) -> bool {
    let from_environment = || std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok().filter(|&n| n > 0);
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = threads.or_else(from_environment).unwrap_or_else(cores);
    threads > 1
        && rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build_global().is_ok()
}
