//! The loss of classifiers.
//!
//! ```text
//! loss = -mean over samples of sum_c t_c log p_c,   t = (1 - s) h + s / classes
//! h = onehot, or of mixed samples w onehot + (1 - w) onehot of the other
//! dlogits = (p - t) / batch
//! ```

use burn::tensor::{Int, Tensor, activation::log_softmax};

use crate::{Error, MixedLabels, Result, host};

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
    let labels = host::read(labels.clone());
    let strange = labels.iter::<i64>().find(|label| !(0..classes as i64).contains(label));
    strange.map_or(Ok(()), |label| Err(Error::Label { label, classes }))
}

/// The loss, and `p - t`.
pub fn cross_entropy(
    logits: Tensor<2>,
    labels: Tensor<1, Int>,
    mixed: Option<&MixedLabels>,
    smoothing: f64,
) -> (Tensor<1>, Tensor<2>) {
    let [batch, classes] = logits.dims();
    let all = Tensor::<1, Int>::arange(0..classes as i64, &logits.device());
    let hard = |labels: Tensor<1, Int>| {
        let all = all.clone().unsqueeze::<2>().expand([batch, classes]);
        labels.reshape([batch, 1]).expand([batch, classes]).equal(all).float()
    };
    let own = hard(labels);
    let target = match mixed {
        Some(MixedLabels { others, weight }) => {
            own.mul_scalar(*weight) + hard(others.clone()).mul_scalar(1.0 - weight)
        }
        None => own,
    };
    let target = target.mul_scalar(1.0 - smoothing).add_scalar(smoothing / classes as f64);
    let log_probabilities = log_softmax(logits, 1);
    // Along one axis after the other: Flex's sum over everything depends on the number of threads from 2^22 elements.
    let total = (log_probabilities.clone() * target.clone()).sum_dim(1).sum_dim(0);
    let loss = total.reshape([1]).mul_scalar(-1.0 / batch as f64);
    (loss, log_probabilities.exp() - target)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// The loss is linear in the target: that of a mixture is the mixture of two losses, and so is its gradient.
    #[test]
    fn a_mixture_of_labels_has_the_mixture_of_losses() {
        let device = Device::flex();
        let logits = || Tensor::<2>::from_floats([[0.3, -1.0, 2.0], [1.5, 0.2, -0.7]], &device);
        let [own, others] = [[2, 0], [1, 0]].map(|labels| Tensor::<1, Int>::from_ints(labels, &device));
        let numbers = |(loss, surplus): (Tensor<1>, Tensor<2>)| -> Vec<f32> {
            loss.into_data().iter::<f32>().chain(surplus.into_data().iter::<f32>()).collect()
        };
        let [first, second] =
            [&own, &others].map(|labels| numbers(cross_entropy(logits(), labels.clone(), None, 0.1)));
        let mixed = MixedLabels { others, weight: 0.7 };
        let found = numbers(cross_entropy(logits(), own, Some(&mixed), 0.1));
        for ((found, first), second) in found.iter().zip(first).zip(second) {
            assert!((found - (0.7 * first + 0.3 * second)).abs() < 1e-6);
        }
    }
}
