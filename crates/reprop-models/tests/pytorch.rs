//! RevViT against PyTorch: loss, logits and every parameter's gradient, from values that `oracle/rev_vit.py` wrote.
//!
//! PyTorch computed them in float64 with stored activations; here they come in `f32`, with float streams and on the
//! default grid, under each strategy. One network has a stem for each stream, so that no mistake between the streams can
//! cancel.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::layers::{Classifier, Initial, Patches, PatchesConfig};
use reprop::{
    Arithmetic, Context, Gradients, Head, HiddenKeys, Kernels, Network, Pass, Piece, Side, Stem, Strategy,
    Streams, named_gradients,
};
use reprop_models::{RevVit, RevVitBlock, RevVitConfig};
use safetensors::{Dtype, SafeTensors};

/// Largest difference allowed with float streams, relative to the tensor's largest value.
///
/// A rounding of `f32` is `2^-24 = 6e-8`. PyTorch's own `f32` differs from its `f64` by up to `7e-7` on these networks
/// (the script prints it): a dozen roundings in a row, through up to four blocks and back. Reversal with float streams
/// adds about one rounding a block. Four times that leaves room for another processor's order of sums, and none for a
/// mistake: an epsilon of `1e-5` instead of `1e-6` would differ by `1.2e-5` or more, GELU's `tanh` form by `4e-4`.
const ROUNDING: f64 = 3e-6;

/// The same with streams on the default grid.
///
/// A rounding is then half of `2^-14`, `3e-5`, on streams of magnitude one, twice a block; `5e-5` was measured. It says
/// that the grid does no harm; that the gradients are right is said by [`ROUNDING`].
const GRID: f64 = 2e-4;

const STRATEGIES: [Strategy; 3] = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop];

// The settings of each network are those of its case in the script.

#[test]
fn a_network_of_three_blocks_equals_pytorch() {
    let config = RevVitConfig::new(8, 2, 16, 3, 2, 32).with_classes(5);
    let values = Values::read(include_bytes!("../../../oracle/values/rev_vit.safetensors"));
    equals_pytorch(config.init(0, &Device::flex().autodiff()), values);
}

#[test]
fn a_network_of_one_block_equals_pytorch() {
    let config = RevVitConfig::new(6, 3, 8, 1, 1, 24).with_channels(1).with_classes(3);
    let values = Values::read(include_bytes!("../../../oracle/values/rev_vit_one_block.safetensors"));
    equals_pytorch(config.init(0, &Device::flex().autodiff()), values);
}

#[test]
fn a_network_with_unequal_streams_hidden_keys_and_smoothed_labels_equals_pytorch() {
    let config =
        RevVitConfig::new(8, 4, 12, 4, 3, 20).with_channels(2).with_classes(7).with_label_smoothing(0.1);
    let values = Values::read(include_bytes!("../../../oracle/values/rev_vit_two_stems.safetensors"));
    equals_pytorch(TwoStemVit::new(&config, &Device::flex().autodiff()), values);
}

fn equals_pytorch<N>(network: N, mut values: Values)
where
    N: Network<3>,
    N::Stem: Stem<3, Input = Tensor<4>>,
    N::Head: Head<3, Target = Tensor<1, Int>, Output = Tensor<2>>,
{
    let network = network.map(&mut Load { path: Vec::new(), values: &mut values });
    let device = Device::flex();
    let images = Tensor::from_data(values.data("images", Dtype::F32, f32::from_le_bytes), &device);
    let labels = Tensor::from_data(values.data("labels", Dtype::I64, i64::from_le_bytes), &device);
    let side = if values.tensors.contains_key("hidden_keys") {
        let hidden = values.data("hidden_keys", Dtype::BOOL, |[byte]: [u8; 1]| byte == 1);
        Side::new().with(HiddenKeys(Tensor::from_data(hidden, &device)))
    } else {
        Side::new()
    };
    let expected = values.expected();
    assert_eq!(values.tensors.len(), 0, "values that nothing was compared with: {:?}", values.tensors.keys());

    let arithmetics = [(Arithmetic::Float, ROUNDING), (Arithmetic::default(), GRID)];
    let cases = arithmetics.into_iter().flat_map(|arithmetic| {
        STRATEGIES.into_iter().flat_map(move |strategy| {
            [Kernels::Auto, Kernels::Burn].map(|kernels| (arithmetic, strategy, kernels))
        })
    });
    for ((arithmetic, tolerance), strategy, kernels) in cases {
        let pass = Pass::training(0).arithmetic(arithmetic).kernels(kernels).side(side.clone());
        let step = network.step(images.clone(), labels.clone(), pass, strategy).unwrap();
        let mut found = BTreeMap::from([
            ("loss".to_owned(), TensorData::from([step.loss])),
            ("logits".to_owned(), step.output.into_data()),
        ]);
        for (name, gradient) in named_gradients(&network, &step.gradients) {
            found.insert(format!("gradients.{name}"), gradient);
        }
        assert!(found.keys().eq(expected.keys()), "{:?} against {:?}", found.keys(), expected.keys());

        let (worst, name) = found
            .iter()
            .map(|(name, found)| (difference(found, &expected[name], name), name))
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .unwrap();
        println!(
            "{arithmetic:?}, {strategy}, {kernels}: {} tensors, {name} differs most, by {worst:.1e}",
            found.len()
        );
        assert!(
            worst < tolerance,
            "{arithmetic:?}, {strategy}, {kernels}: {name} differs by {worst:e} of its largest value"
        );
    }
}

/// The largest difference of two tensors, relative to the largest expected value. `NaN` counts as infinite.
fn difference(found: &TensorData, (shape, expected): &(Vec<usize>, Vec<f64>), name: &str) -> f64 {
    assert_eq!(found.shape().as_slice(), shape, "{name}");
    let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    assert!(largest > 0.0, "{name}: all expected values are zero");
    let found = found.try_to_vec::<f32>().unwrap();
    let differences =
        found.iter().zip(expected).map(|(&found, expected)| (f64::from(found) - expected).abs());
    differences.fold(0.0, |worst: f64, d| if d.is_nan() { f64::INFINITY } else { worst.max(d) }) / largest
}

/// The tensors of one case that wait to be used.
struct Values {
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl Values {
    fn read(file: &[u8]) -> Self {
        let tensors = SafeTensors::deserialize(file).unwrap();
        let tensors = tensors.iter().map(|(name, view)| {
            (name.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        });
        Self { tensors: tensors.collect() }
    }

    /// Takes a tensor out: each is used once.
    fn take<T, const N: usize>(
        &mut self,
        name: &str,
        dtype: Dtype,
        number: impl Fn([u8; N]) -> T,
    ) -> (Vec<usize>, Vec<T>) {
        let (found, shape, bytes) =
            self.tensors.remove(name).unwrap_or_else(|| panic!("PyTorch gave no {name}"));
        assert_eq!(found, dtype, "{name}");
        (shape, bytes.as_chunks::<N>().0.iter().map(|&bytes| number(bytes)).collect())
    }

    fn data<T: burn::tensor::Element, const N: usize>(
        &mut self,
        name: &str,
        dtype: Dtype,
        number: impl Fn([u8; N]) -> T,
    ) -> TensorData {
        let (shape, numbers) = self.take(name, dtype, number);
        TensorData::new(numbers, shape)
    }

    /// Takes out all that PyTorch computed.
    fn expected(&mut self) -> BTreeMap<String, (Vec<usize>, Vec<f64>)> {
        let computed =
            |name: &&String| *name == "loss" || *name == "logits" || name.starts_with("gradients.");
        let names: Vec<String> = self.tensors.keys().filter(computed).cloned().collect();
        let take = |name: String| {
            let tensor = self.take(&name, Dtype::F64, f64::from_le_bytes);
            (name, tensor)
        };
        names.into_iter().map(take).collect()
    }
}

/// Puts PyTorch's parameters in the places of the same names.
struct Load<'v> {
    path: Vec<String>,
    values: &'v mut Values,
}

impl ModuleMapper for Load<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = format!("parameters.{}", self.path.join("."));
        let data = self.values.data(&name, Dtype::F32, f32::from_le_bytes);
        param.map(|value| {
            assert_eq!(data.shape(), &value.shape(), "{name}");
            Tensor::from_data(data, &value.device()).require_grad()
        })
    }
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

#[derive(Module, Debug)]
struct TwoStems {
    first: Patches,
    second: Patches,
}

impl Stem<3> for TwoStems {
    type Input = Tensor<4>;
    type Saved = (Tensor<2>, Tensor<2>);

    fn forward_saving(&self, images: Tensor<4>, context: &Context<'_>) -> (Streams<3>, Self::Saved) {
        let (first, saved_first) = self.first.forward_saving(images.clone(), context);
        let (second, saved_second) = self.second.forward_saving(images, context);
        (Streams::new(first.x1, second.x2), (saved_first, saved_second))
    }

    fn vjp(&self, saved: Self::Saved, dx: Streams<3>, context: &Context<'_>, gradients: &mut Gradients) {
        let none = dx.x1.zeros_like();
        self.first.vjp(saved.0, Streams::new(dx.x1, none.clone()), context, gradients);
        self.second.vjp(saved.1, Streams::new(none, dx.x2), context, gradients);
    }
}
