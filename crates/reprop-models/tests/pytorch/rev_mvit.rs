//! `RevMViT`: values of `oracle/rev_mvit.py`.

use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::Classifier;
use reprop::{Network, Piece};
use reprop_models::{RevMvit, RevMvitConfig, RevMvitStage};

use crate::common::{Tolerance, TwoStems, Values, equals_pytorch, images};

/// PyTorch's own `f32` differs from its `f64` by up to `2.8e-6` on these networks (the script prints it): four blocks and
/// two transitions with a norm for each pool. Four times that leaves room for another order of sums, and none for a
/// mistake.
const TOLERANCE: Tolerance = Tolerance { rounding: 1e-5, grid: 1e-3 };

// The settings of each network are those of its case in the script.

#[test]
fn three_stages_with_odd_sides_equal_pytorch() {
    let config = RevMvitConfig::new(28, 6, vec![1, 2, 1]).with_ratio(2).with_classes(5);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_mvit.safetensors"));
    equals_pytorch(TwoStemMvit::new(&config), values, &TOLERANCE, images);
}

#[test]
fn one_stage_with_smoothed_labels_equals_pytorch() {
    let config = RevMvitConfig::new(12, 8, vec![3])
        .with_heads(2)
        .with_patch(2)
        .with_kernel(3)
        .with_stride(2)
        .with_ratio(3)
        .with_channels(1)
        .with_classes(4)
        .with_label_smoothing(0.1);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_mvit_one_stage.safetensors"));
    equals_pytorch(TwoStemMvit::new(&config), values, &TOLERANCE, images);
}

/// A `RevMViT` whose streams begin with a stem each.
#[derive(Module, Debug)]
struct TwoStemMvit {
    stem: TwoStems,
    stages: Vec<RevMvitStage>,
    head: Classifier,
}

impl TwoStemMvit {
    fn new(config: &RevMvitConfig) -> Self {
        let make = |seed| config.init(seed, &Device::flex().autodiff());
        let second = make(1).stem;
        let RevMvit { stem: first, stages, head } = make(0);
        Self { stem: TwoStems { first, second }, stages, head }
    }
}

impl Network<3> for TwoStemMvit {
    type Stem = TwoStems;
    type Head = Classifier;

    fn stem(&self) -> &TwoStems {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        self.stages.iter().flat_map(RevMvitStage::pieces).collect()
    }

    fn head(&self) -> &Classifier {
        &self.head
    }
}
