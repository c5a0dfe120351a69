//! Reads of tensors by the host.
//!
//! A device works behind the host's back until the host asks for a value: then it waits. So every read of this crate goes
//! through here and is counted. A training step reads its labels, the extremes of the streams and the loss, all before its
//! backward pass begins; the backward pass itself reads nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::kind::Basic;
use burn::tensor::{Tensor, TensorData};

static READS: AtomicU64 = AtomicU64::new(0);

/// How often the library has read a tensor's values in this process, and waited for their device.
///
/// ```
/// let before = reprop::host_reads();
/// assert_eq!(reprop::host_reads(), before);
/// ```
pub fn host_reads() -> u64 {
    READS.load(Ordering::Relaxed)
}

/// The values of `x`, waited for.
pub(crate) fn read<const D: usize, K: Basic>(x: Tensor<D, K>) -> TensorData {
    READS.fetch_add(1, Ordering::Relaxed);
    x.into_data()
}
