//! RevViT: values of `oracle/rev_vit.py`.

use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{Classifier, Initial, PatchesConfig};
use reprop::{Network, Piece};
use reprop_models::{RevVit, RevVitBlock, RevVitConfig};

use crate::common::{Tolerance, TwoStems, Values, equals_pytorch, images};

/// A rounding of `f32` is `2^-24 = 6e-8`. PyTorch's own `f32` differs from its `f64` by up to `7e-7` on these networks
/// (the script prints it): a dozen roundings in a row, through up to four blocks and back. Reversal with float streams
/// adds about one rounding a block. Four times that leaves room for another processor's order of sums, and none for a
/// mistake: an epsilon of `1e-5` instead of `1e-6` would differ by `1.2e-5` or more, GELU's `tanh` form by `4e-4`.
///
/// On the grid `5e-5` was measured.
const TOLERANCE: Tolerance = Tolerance { rounding: 3e-6, grid: 2e-4 };

// The settings of each network are those of its case in the script.

#[test]
fn a_network_of_three_blocks_equals_pytorch() {
    let config = RevVitConfig::new(8, 2, 16, 3, 2, 32).with_classes(5);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_vit.safetensors"));
    equals_pytorch(config.init(0, &Device::flex().autodiff()), values, &TOLERANCE, images);
}

#[test]
fn a_network_of_one_block_equals_pytorch() {
    let config = RevVitConfig::new(6, 3, 8, 1, 1, 24).with_channels(1).with_classes(3);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_vit_one_block.safetensors"));
    equals_pytorch(config.init(0, &Device::flex().autodiff()), values, &TOLERANCE, images);
}

#[test]
fn a_network_with_unequal_streams_hidden_keys_and_smoothed_labels_equals_pytorch() {
    let config =
        RevVitConfig::new(8, 4, 12, 4, 3, 20).with_channels(2).with_classes(7).with_label_smoothing(0.1);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_vit_two_stems.safetensors"));
    equals_pytorch(TwoStemVit::new(&config, &Device::flex().autodiff()), values, &TOLERANCE, images);
}

/// A RevViT whose streams begin with a stem each.
#[derive(Module, Debug)]
struct TwoStemVit {
    stem: TwoStems,
    blocks: Vec<RevVitBlock>,
    head: Classifier,
}

impl TwoStemVit {
    fn new(config: &RevVitConfig, device: &Device) -> Self {
        let RevVit { stem: first, blocks, head } = config.init(0, device);
        let second = PatchesConfig::new(config.image, config.patch, config.channels, config.width)
            .init(&mut Initial::new(1, device));
        Self { stem: TwoStems { first, second }, blocks, head }
    }
}

impl Network<3> for TwoStemVit {
    type Stem = TwoStems;
    type Head = Classifier;

    fn stem(&self) -> &TwoStems {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        self.blocks.iter().map(|block| Piece::Block(block)).collect()
    }

    fn head(&self) -> &Classifier {
        &self.head
    }
}
