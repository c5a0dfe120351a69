//! Values that PyTorch computed, and the comparison with them.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::layers::Patches;
use reprop::{
    Arithmetic, Context, Gradients, Head, HiddenKeys, Input, Kernels, Network, Pass, Side, Stem, Strategy,
    Streams, Target, named_gradients,
};
use safetensors::{Dtype, SafeTensors};

/// Largest differences allowed, relative to the tensor's largest value.
pub struct Tolerance {
    /// With float streams: roundings of `f32`. This one says that the gradients are right.
    pub rounding: f64,
    /// With streams on the default grid: roundings of half of `2^-14`, `3e-5`, on streams of magnitude one, twice a block.
    /// This one says that the grid does no harm.
    pub grid: f64,
}

const STRATEGIES: [Strategy; 3] = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop];

/// What a case has beside parameters: input, target and side inputs.
pub type Batch<N> = (Input<3, N>, Target<3, N>, Side);

/// Images and labels, and hidden keys where there are any.
pub fn images(values: &mut Values) -> (Tensor<4>, Tensor<1, Int>, Side) {
    let device = Device::flex();
    let images = Tensor::from_data(values.data("images", Dtype::F32, f32::from_le_bytes), &device);
    let labels = Tensor::from_data(values.data("labels", Dtype::I64, i64::from_le_bytes), &device);
    (images, labels, values.side())
}

/// Asserts that the network with PyTorch's parameters gives PyTorch's loss, logits and gradients: with float streams
/// and on the default grid, under every strategy and on both kinds of kernels.
pub fn equals_pytorch<N>(
    network: N,
    mut values: Values,
    tolerance: &Tolerance,
    batch: impl FnOnce(&mut Values) -> Batch<N>,
) where
    N: Network<3>,
    N::Head: Head<3, Output = Tensor<2>>,
{
    let network = network.map(&mut Load { path: Vec::new(), values: &mut values });
    let (input, target, side) = batch(&mut values);
    let expected = values.expected();
    assert_eq!(values.tensors.len(), 0, "values that nothing was compared with: {:?}", values.tensors.keys());

    let arithmetics = [(Arithmetic::Float, tolerance.rounding), (Arithmetic::default(), tolerance.grid)];
    let cases = arithmetics.into_iter().flat_map(|arithmetic| {
        STRATEGIES.into_iter().flat_map(move |strategy| {
            [Kernels::Auto, Kernels::Burn].map(|kernels| (arithmetic, strategy, kernels))
        })
    });
    for ((arithmetic, tolerance), strategy, kernels) in cases {
        let pass = Pass::training(0).arithmetic(arithmetic).kernels(kernels).side(side.clone());
        let step = network.step(input.clone(), target.clone(), pass, strategy).unwrap();
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

/// Gradients that are zero by symmetry are compared with this: a shift of all keys alike changes no probability.
const FLOOR: f64 = 1e-2;

/// The largest difference of two tensors, relative to the largest expected value. `NaN` counts as infinite.
fn difference(found: &TensorData, (shape, expected): &(Vec<usize>, Vec<f64>), name: &str) -> f64 {
    assert_eq!(found.shape().as_slice(), shape, "{name}");
    let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    assert!(largest > 0.0, "{name}: all expected values are zero");
    let largest = largest.max(FLOOR);
    let found = found.try_to_vec::<f32>().unwrap();
    let differences =
        found.iter().zip(expected).map(|(&found, expected)| (f64::from(found) - expected).abs());
    differences.fold(0.0, |worst: f64, d| if d.is_nan() { f64::INFINITY } else { worst.max(d) }) / largest
}

/// The tensors of one case that wait to be used.
pub struct Values {
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl Values {
    pub fn read(file: &[u8]) -> Self {
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

    pub fn data<T: burn::tensor::Element, const N: usize>(
        &mut self,
        name: &str,
        dtype: Dtype,
        number: impl Fn([u8; N]) -> T,
    ) -> TensorData {
        let (shape, numbers) = self.take(name, dtype, number);
        TensorData::new(numbers, shape)
    }

    /// Takes out the keys that are hidden, if any are.
    pub fn side(&mut self) -> Side {
        if !self.tensors.contains_key("hidden_keys") {
            return Side::new();
        }
        let hidden = self.data("hidden_keys", Dtype::BOOL, |[byte]: [u8; 1]| byte == 1);
        Side::new().with(HiddenKeys(Tensor::from_data(hidden, &Device::flex())))
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

/// A stem for each stream: the streams are unequal from the start, and their gradients do not meet.
#[derive(Module, Debug)]
pub struct TwoStems {
    pub first: Patches,
    pub second: Patches,
}

impl Stem<3> for TwoStems {
    type Input = Tensor<4>;
    type Saved = (<Patches as Stem<3>>::Saved, <Patches as Stem<3>>::Saved);

    fn forward_saving(&self, images: Tensor<4>, context: &Context<'_>) -> (Streams<3>, Self::Saved) {
        let (first, saved_first) = self.first.forward_saving(images.clone(), context);
        let (second, saved_second) = self.second.forward_saving(images, context);
        (Streams::new(first.x1, second.x2), (saved_first, saved_second))
    }

    fn vjp(
        &self,
        (first, second): Self::Saved,
        dx: Streams<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let none = dx.x1.zeros_like();
        self.first.vjp(first, Streams::new(dx.x1, none.clone()), context, gradients);
        self.second.vjp(second, Streams::new(none, dx.x2), context, gradients);
    }
}
