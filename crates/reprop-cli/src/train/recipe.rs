//! The optimizer and its learning rate.

use burn::module::ParamGroup;
use burn::optim::ModuleOptimizer;
use reprop::optim::AdamWConfig;

/// Of weights; biases, norms and positions are not decayed.
const DECAY: f32 = 0.05;
/// The part of all steps in which the rate rises.
const WARM_UP: f64 = 0.05;

/// `AdamW`, which decays weights and nothing else.
pub fn optimizer() -> ModuleOptimizer {
    let config = AdamWConfig::new();
    let undecayed = ParamGroup::from_any_predicates(vec!["bias", "gamma", "beta", "positions"]);
    config.clone().with_weight_decay(DECAY).init().with_group(
        undecayed,
        config.with_weight_decay(0.0).build(),
        None,
    )
}

/// A linear rise to `peak`, then half a cosine down to zero.
pub fn learning_rate(peak: f64, step: usize, steps: usize) -> f64 {
    let warm_up = (WARM_UP * steps as f64).max(1.0);
    let done = step as f64 + 1.0;
    if done <= warm_up {
        return peak * done / warm_up;
    }
    let progress = (done - warm_up) / (steps as f64 - warm_up).max(1.0);
    peak * 0.5 * (1.0 + (std::f64::consts::PI * progress.min(1.0)).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_to_its_peak_and_falls_to_zero() {
        let rates: Vec<f64> = (0..1000).map(|step| learning_rate(1.0, step, 1000)).collect();
        assert!((rates[49] - 1.0).abs() < 1e-12);
        assert!(rates[..50].is_sorted() && rates[49..].is_sorted_by(|a, b| a >= b));
        assert!(rates[999].abs() < 1e-12);
        assert!(learning_rate(1.0, 0, 1) > 0.0);
    }
}
