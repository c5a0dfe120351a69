//! RevSwin: values of `oracle/rev_swin.py`.

use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{Classifier, Patches};
use reprop::{Network, Piece};
use reprop_models::{RevSwin, RevSwinConfig, RevSwinStage};

use crate::common::{Tolerance, TwoStems, Values, equals_pytorch, images};

/// PyTorch's own `f32` differs from its `f64` by up to `2.4e-6` on these networks (the script prints it): six blocks and
/// two transitions with a norm each. Four times that leaves room for another order of sums, and none for a mistake.
/// On the grid `2.1e-4` was measured: widths are small, and every norm divides by what little is left of a rounded token.
const TOLERANCE: Tolerance = Tolerance { rounding: 1e-5, grid: 6e-4 };

// The settings of each network are those of its case in the script.

#[test]
fn three_stages_with_shifted_windows_equal_pytorch() {
    let config = RevSwinConfig::new(24, 8, vec![3, 2, 1], 2)
        .with_patch(2)
        .with_window(3)
        .with_ratio(2)
        .with_classes(5);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_swin.safetensors"));
    equals_pytorch(TwoStemSwin::new(&config), values, &TOLERANCE, images);
}

#[test]
fn stages_whose_windows_shrink_and_smoothed_labels_equal_pytorch() {
    let config = RevSwinConfig::new(16, 6, vec![2, 2], 1)
        .with_patch(2)
        .with_ratio(3)
        .with_channels(1)
        .with_classes(4)
        .with_label_smoothing(0.1);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_swin_two_stages.safetensors"));
    equals_pytorch(TwoStemSwin::new(&config), values, &TOLERANCE, images);
}

/// A RevSwin whose streams begin with a stem each.
#[derive(Module, Debug)]
struct TwoStemSwin {
    stem: TwoStems,
    stages: Vec<RevSwinStage>,
    head: Classifier,
}

impl TwoStemSwin {
    fn new(config: &RevSwinConfig) -> Self {
        let make = |seed| config.init(seed, &Device::flex().autodiff());
        let second: Patches = make(1).stem;
        let RevSwin { stem: first, stages, head } = make(0);
        Self { stem: TwoStems { first, second }, stages, head }
    }
}

impl Network<3> for TwoStemSwin {
    type Stem = TwoStems;
    type Head = Classifier;

    fn stem(&self) -> &TwoStems {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        self.stages.iter().flat_map(RevSwinStage::pieces).collect()
    }

    fn head(&self) -> &Classifier {
        &self.head
    }
}
