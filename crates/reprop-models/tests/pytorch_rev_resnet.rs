//! RevResNet against PyTorch: loss, logits, every parameter's gradient, in training and in evaluation, and running
//! statistics, from values that `oracle/rev_resnet.py` wrote in float64 with stored activations.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use reprop::{Arithmetic, Kernels, Network, Pass, Strategy, named_gradients, named_parameters};
use reprop_models::{RevResNet, RevResNetConfig};
use safetensors::{Dtype, SafeTensors};

/// Largest difference allowed with float streams, relative to the tensor's largest value.
///
/// PyTorch's own `f32` differs from its `f64` by up to `2e-6` on these networks (the script prints it).
const ROUNDING: f64 = 1e-5;

/// The same on fused kernels. Winograd's transforms, of numbers up to 8, leave up to `3.1e-5` in the scale of a norm over the
/// few pixels of small odd images, whose gradient is what is left of sums that cancel; in basic blocks `5e-6` to `1.1e-5`, by the
/// order in which sums over pixels are cut.
const WINOGRAD: f64 = 6e-5;

/// The same for large images, where sums over thousands of pixels cancel: PyTorch's `f32` differs by `1e-5` there, Burn's
/// operations by `3.7e-5` and fused kernels by `4.2e-5`, all of them in the scale of the stem's norm.
const ROUNDING_OF_MANY: f64 = 6e-5;

/// The same with streams on the default grid, whose roundings of `3e-5` a norm over few pixels enlarges tenfold. It says that
/// the grid does no harm; that the gradients are right is said by [`ROUNDING`].
const GRID: f64 = 1e-3;

/// Gradients much smaller than the largest are compared by this part of it: some are zero but for rounding, as a norm
/// takes out what its input gained.
const FLOOR: f64 = 1e-2;

const STRATEGIES: [Strategy; 3] = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop];

// The settings of each network are those of its case in the script.

#[test]
fn a_network_of_basic_blocks_equals_pytorch() {
    let config = RevResNetConfig::new(vec![3, 2], false).with_width(3).with_image(6).with_channels(2);
    let file = include_bytes!("../../../oracle/values/rev_resnet.safetensors");
    equals_pytorch(&config.with_classes(4), file, [WINOGRAD, ROUNDING], Some(GRID));
}

#[test]
fn a_network_of_bottlenecks_equals_pytorch() {
    let config = RevResNetConfig::new(vec![2, 3], true).with_width(2).with_image(5).with_label_smoothing(0.1);
    let file = include_bytes!("../../../oracle/values/rev_resnet_bottleneck.safetensors");
    equals_pytorch(&config.with_classes(5), file, [WINOGRAD, ROUNDING], Some(GRID));
}

/// With float streams alone: its thousands of pixels come closer to the `ReLU`'s kink than the grid's roundings.
#[test]
fn a_network_of_large_images_equals_pytorch() {
    let config = RevResNetConfig::new(vec![1, 1], false).with_width(1).with_image(66).with_channels(1);
    let file = include_bytes!("../../../oracle/values/rev_resnet_large_image.safetensors");
    equals_pytorch(&config.with_classes(3), file, [ROUNDING_OF_MANY; 2], None);
}

type Expected = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

/// With the tolerances of fused kernels and of Burn's, and that of both on the grid.
fn equals_pytorch(config: &RevResNetConfig, file: &[u8], rounding: [f64; 2], grid: Option<f64>) {
    let file = SafeTensors::deserialize(file).unwrap();
    let network = config.init(0, &Device::flex().autodiff());
    let network = network.map(&mut Load { path: Vec::new(), values: &file });
    let device = Device::flex();
    let images = Tensor::<4>::from_data(floats(&file, "images"), &device);
    let labels: Vec<i64> = numbers(&file, "labels", Dtype::I64, i64::from_le_bytes).1;
    let labels = Tensor::from_data(TensorData::new(labels, [images.dims()[0]]), &device);
    let expected: Expected = file
        .names()
        .into_iter()
        .filter(|name| !name.starts_with("parameters.") && !["images", "labels"].contains(name))
        .map(|name| (name.to_owned(), numbers(&file, name, Dtype::F64, f64::from_le_bytes)))
        .collect();

    let on_grid = grid.map(|tolerance| (Arithmetic::default(), [tolerance; 2]));
    for (arithmetic, [fused, burn]) in [(Arithmetic::Float, rounding)].into_iter().chain(on_grid) {
        for (strategy, kernels) in
            STRATEGIES.into_iter().flat_map(|s| [Kernels::Auto, Kernels::Burn].map(|k| (s, k)))
        {
            let mut found = BTreeMap::new();
            for (prefix, pass) in [("", Pass::training(0)), ("evaluation.", Pass::evaluation())] {
                let pass = pass.arithmetic(arithmetic).kernels(kernels);
                let step = network.step(images.clone(), labels.clone(), pass, strategy).unwrap();
                found.insert(format!("{prefix}loss"), TensorData::from([step.loss]));
                found.insert(format!("{prefix}logits"), step.output.into_data());
                for (name, gradient) in named_gradients(&network, &step.gradients) {
                    found.insert(format!("{prefix}gradients.{name}"), gradient);
                }
                if prefix.is_empty() {
                    found.extend(statistics(&step.statistics.apply(network.clone())));
                }
            }
            assert!(found.keys().eq(expected.keys()), "{:?} against {:?}", found.keys(), expected.keys());
            let (worst, name) = worst(&found, &expected);
            let tolerance = if kernels == Kernels::Auto { fused } else { burn };
            println!("{arithmetic:?}, {strategy}, {kernels}: {name} differs most, by {worst:.1e}");
            assert!(worst < tolerance, "{arithmetic:?}, {strategy}, {kernels}: {name} differs by {worst:e}");
        }
    }
}

fn statistics(network: &RevResNet) -> impl Iterator<Item = (String, TensorData)> {
    let running = named_parameters(network).into_iter().filter(|(name, _)| name.contains(".running_"));
    running.map(|(name, data)| (format!("statistics.{name}"), data))
}

/// The largest difference, relative to the largest expected value of its tensor, and where it is.
fn worst<'f>(found: &'f BTreeMap<String, TensorData>, expected: &Expected) -> (f64, &'f str) {
    let largest = |values: &[f64]| values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let gradients = expected.iter().filter(|(name, _)| name.contains("gradients."));
    let floor = FLOOR * gradients.map(|(_, (_, values))| largest(values)).fold(0.0, f64::max);
    assert!(floor > 0.0, "all expected gradients are zero");
    let differences = found.iter().map(|(name, found)| {
        let (shape, expected) = &expected[name];
        assert_eq!(found.shape().as_slice(), shape, "{name}");
        let differences = found.iter::<f32>().zip(expected).map(|(f, e)| (f64::from(f) - e).abs());
        let worst =
            differences.fold(0.0, |worst: f64, d| if d.is_nan() { f64::INFINITY } else { worst.max(d) });
        (worst / largest(expected).max(floor), name.as_str())
    });
    differences.max_by(|(a, _), (b, _)| a.total_cmp(b)).expect("something to compare")
}

fn numbers<T, const N: usize>(
    file: &SafeTensors<'_>,
    name: &str,
    dtype: Dtype,
    number: impl Fn([u8; N]) -> T,
) -> (Vec<usize>, Vec<T>) {
    let view = file.tensor(name).unwrap_or_else(|_| panic!("PyTorch gave no {name}"));
    assert_eq!(view.dtype(), dtype, "{name}");
    (view.shape().to_vec(), view.data().as_chunks::<N>().0.iter().map(|&bytes| number(bytes)).collect())
}

fn floats(file: &SafeTensors<'_>, name: &str) -> TensorData {
    let (shape, values) = numbers(file, name, Dtype::F32, f32::from_le_bytes);
    TensorData::new(values, shape)
}

/// Puts PyTorch's parameters in the places of the same names.
struct Load<'v> {
    path: Vec<String>,
    values: &'v SafeTensors<'v>,
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
        let data = floats(self.values, &name);
        param.map(|value| {
            assert_eq!(data.shape(), &value.shape(), "{name}");
            let trained = value.is_require_grad();
            Tensor::from_data(data, &value.device()).set_require_grad(trained)
        })
    }
}
