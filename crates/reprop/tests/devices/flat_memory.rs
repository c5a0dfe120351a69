//! Memory by our meter on the device: flat in depth, as predicted, and nothing left.

use reprop::{Holder, Meter, Network, Strategy};
use reprop_models::RevVitConfig;

use crate::common::{labels, noise, trainable, training};

/// The law's own.
const PREDICTION: f64 = 0.05;

#[test]
fn memory_is_flat_in_depth_and_as_predicted() {
    let peak = |depth, strategy| {
        let config = RevVitConfig { depth, ..RevVitConfig::digits() }.with_dropout(0.1).with_drop_path(0.1);
        let network = config.init(3, &trainable());
        let meter = Meter::new();
        let pass = || training(1).meter(meter.clone());
        let step = network.step(noise(4, [3, 1, 8, 8]), labels(3, 10), pass(), strategy).expect("a step");
        let measured = step.memory.activation_peak as f64;
        drop(step);
        assert_eq!(Holder::ALL.map(|holder| meter.report().live(holder)), [0; 7], "{strategy}");
        let predicted = network.predicted(3, &pass(), strategy).expect("a plan").expect("a prediction");
        let ratio = predicted.activation_peak as f64 / measured;
        assert!((ratio - 1.0).abs() <= PREDICTION, "depth {depth}, {strategy}: {ratio} of what was measured");
        measured
    };
    for strategy in [Strategy::Reprop, Strategy::PaReprop] {
        let growth = peak(24, strategy) / peak(6, strategy);
        assert!(growth <= 1.02, "{strategy}: {growth}");
    }
    let saving = peak(24, Strategy::Stored) / peak(24, Strategy::Reprop);
    assert!(saving >= 8.0, "stored takes {saving} times as much");
}
