//! The loss of classifiers.
//!
//! ```text
//! loss = -mean over samples of sum_c t_c log p_c,   t = (1 - s) onehot + s / classes
//! dlogits = (p - t) / batch
//! ```

use burn::tensor::{Int, Tensor, activation::log_softmax};

use crate::{Error, Result};

/// An error unless there is one label for each of `batch` samples, and each is a class.
pub fn check_labels(labels: &Tensor<1, Int>, batch: usize, classes: usize) -> Result<()> {
    let [found] = labels.dims();
    if found != batch {
        return Err(Error::Shape {
            what: "labels",
            expected: format!("[{batch}]"),
            found: format!("[{found}]"),
        });
    }
    // A label out of range would be compared with no class, and its sample silently left out of the loss.
    let labels = labels.to_data();
    let strange = labels.iter::<i64>().find(|label| !(0..classes as i64).contains(label));
    strange.map_or(Ok(()), |label| Err(Error::Label { label, classes }))
}

/// The loss, and `p - t`.
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>, smoothing: f64) -> (Tensor<1>, Tensor<2>) {
    let [batch, classes] = logits.dims();
    let all = Tensor::<1, Int>::arange(0..classes as i64, &logits.device());
    let target = labels
        .reshape([batch, 1])
        .expand([batch, classes])
        .equal(all.unsqueeze::<2>().expand([batch, classes]))
        .float()
        .mul_scalar(1.0 - smoothing)
        .add_scalar(smoothing / classes as f64);
    let log_probabilities = log_softmax(logits, 1);
    // Along one axis after the other: Flex's sum over everything depends on the number of threads from 2^22 elements.
    let total = (log_probabilities.clone() * target.clone()).sum_dim(1).sum_dim(0);
    let loss = total.reshape([1]).mul_scalar(-1.0 / batch as f64);
    (loss, log_probabilities.exp() - target)
}
