//! Character models: the same bits under every plan, and the right gradients.

use burn::tensor::Device;
use reprop::chain::{Async, Checkpointed};
use reprop::{Kernels, gradient_digest, named_gradients, named_parameters};
use reprop_models::{CellKind, CharRnn, CharRnnConfig, CharStep, Sequences};
use reprop_schedule::{Costs, DiskRevolve, Mixed, Periodic, Revolve};
use reprop_store::{DiskConfig, MemoryStore, Store};

const SYMBOLS: usize = 7;

fn network(cell: CellKind, depth: usize) -> CharRnn {
    let config = CharRnnConfig { cell, symbols: SYMBOLS, embedding: 6, width: 10, depth };
    config.init(5, &Device::flex().autodiff())
}

fn text(length: usize) -> Vec<u32> {
    (0..length as u64)
        .map(|i| ((i * i + i / 3).wrapping_mul(0x9e37_79b9) >> 20) as u32 % SYMBOLS as u32)
        .collect()
}

fn sequences(steps: usize, batch: usize) -> Sequences {
    Sequences::cut(&text(batch * (steps + 1)), steps, batch, 0).unwrap()
}

fn bits(network: &CharRnn, step: &CharStep) -> (String, u64, u64) {
    (gradient_digest(network, &step.gradients), step.loss.to_bits(), step.accuracy.to_bits())
}

#[test]
fn an_lstm_over_2000_steps_has_the_same_bits_under_every_plan() {
    let (steps, network) = (2000, network(CellKind::Lstm, 1));
    let sequences = sequences(steps, 3);
    let run = |how: Checkpointed<'_>| bits(&network, &network.step(&sequences, Kernels::Auto, how).unwrap());
    let stored = run(Checkpointed::stored(steps).unwrap());
    for slots in [3, 10, 40] {
        assert_eq!(
            run(Checkpointed::schedule(Revolve::new(steps, slots).unwrap())),
            stored,
            "revolve {slots}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let store = DiskConfig::new(folder.path().join("snapshots")).create().unwrap();
    let costs = Costs::new(1.0, 3.0).unwrap().disk(5.0, 5.0).unwrap();
    let disk = DiskRevolve::new(steps, 10, &costs).unwrap();
    assert_eq!(run(Checkpointed::schedule(disk).store(&store)), stored, "disk-revolve");
    let periodic = Periodic::new(steps, 4, &costs).unwrap();
    assert_eq!(run(Checkpointed::schedule(periodic).store(&store)), stored, "periodic");
    for slots in [2, 10] {
        let plan = Async::new(slots).steps(steps);
        assert_eq!(run(Checkpointed::planner(plan).store(&store)), stored, "async {slots}");
    }
    store.finish().unwrap();
}

#[test]
fn cells_of_both_kinds_and_any_depth_have_the_same_bits_under_every_plan() {
    let steps = 120;
    let sequences = sequences(steps, 2);
    for cell in [CellKind::Lstm, CellKind::Gru] {
        for (depth, kernels) in [(1, Kernels::Auto), (3, Kernels::Auto), (2, Kernels::Burn)] {
            let network = network(cell, depth);
            let run =
                |how: Checkpointed<'_>| bits(&network, &network.step(&sequences, kernels, how).unwrap());
            let stored = run(Checkpointed::stored(steps).unwrap());
            assert_eq!(run(Checkpointed::schedule(Revolve::new(steps, 4).unwrap())), stored);
            assert_eq!(run(Checkpointed::schedule(Mixed::new(steps, 6).unwrap())), stored);
            let store = MemoryStore::unbounded();
            assert_eq!(run(Checkpointed::planner(Async::new(3).steps(steps)).store(&store)), stored);
        }
    }
}

/// Two ways to the same gradients: fused kernels with hand-written derivatives, and Burn's operations with autodiff. Sums of
/// some thousand products in `f32`, in different orders.
#[test]
fn fused_kernels_and_burn_agree() {
    const TOLERANCE: f64 = 1e-4;
    let steps = 25;
    let sequences = sequences(steps, 3);
    for (cell, depth) in [(CellKind::Lstm, 1), (CellKind::Lstm, 2), (CellKind::Gru, 1), (CellKind::Gru, 2)] {
        let network = network(cell, depth);
        let run = |kernels| network.step(&sequences, kernels, Checkpointed::stored(steps).unwrap()).unwrap();
        let (fused, burn) = (run(Kernels::Auto), run(Kernels::Burn));
        assert!((fused.loss - burn.loss).abs() < TOLERANCE, "{} {}", fused.loss, burn.loss);
        assert_eq!(fused.accuracy.to_bits(), burn.accuracy.to_bits());
        let (fused, burn) =
            (named_gradients(&network, &fused.gradients), named_gradients(&network, &burn.gradients));
        assert_eq!(fused.len(), named_parameters(&network).len());
        for ((name, fused), (other, burn)) in fused.iter().zip(&burn) {
            assert_eq!(name, other);
            let most = burn.iter::<f64>().fold(0.0, |most: f64, value| most.max(value.abs()));
            for (fused, burn) in fused.iter::<f64>().zip(burn.iter::<f64>()) {
                assert!((fused - burn).abs() <= TOLERANCE * most, "{name}: {fused} against {burn}");
            }
        }
    }
}

/// The network once more, naively and in `f64`: parameters by name.
fn loss_in_f64(
    cell: CellKind,
    parameters: &[(String, Vec<f64>)],
    sequences: &Sequences,
    width: usize,
) -> f64 {
    let get = |name: &str| &parameters.iter().find(|(own, _)| own == name).unwrap().1;
    let product = |x: &[f64], weight: &[f64], bias: Option<&Vec<f64>>| -> Vec<f64> {
        let columns = weight.len() / x.len();
        let column = |j: usize| (0..x.len()).map(|i| x[i] * weight[i * columns + j]).sum::<f64>();
        (0..columns).map(|j| column(j) + bias.map_or(0.0, |bias| bias[j])).collect()
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut loss = 0.0;
    for place in 0..sequences.batch() {
        let (mut h, mut c) = (vec![0.0; width], vec![0.0; width]);
        for step in 0..sequences.steps() {
            let symbol = sequences.inputs(step)[place] as usize;
            let size = get("embedding").len() / SYMBOLS;
            let x = &get("embedding")[symbol * size..(symbol + 1) * size];
            let a = product(x, get("cells.0.input"), Some(get("cells.0.bias")));
            let hidden_bias = (cell == CellKind::Gru).then(|| get("cells.0.hidden_bias"));
            let b = product(&h, get("cells.0.hidden"), hidden_bias);
            for j in 0..width {
                let gate = |g: usize| a[g * width + j] + b[g * width + j];
                if cell == CellKind::Lstm {
                    c[j] = sigmoid(gate(1)) * c[j] + sigmoid(gate(0)) * gate(2).tanh();
                } else {
                    let n = (a[2 * width + j] + sigmoid(gate(0)) * b[2 * width + j]).tanh();
                    c[j] = n + sigmoid(gate(1)) * (h[j] - n);
                }
            }
            for j in 0..width {
                let o =
                    sigmoid(a[3.min(cell.gates() - 1) * width + j] + b[3.min(cell.gates() - 1) * width + j]);
                h[j] = if cell == CellKind::Lstm { o * c[j].tanh() } else { c[j] };
            }
            let logits = product(&h, get("head_weight"), Some(get("head_bias")));
            let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
            loss += total.ln() - logits[sequences.targets(step)[place] as usize];
        }
    }
    loss / (sequences.steps() * sequences.batch()) as f64
}

/// Central differences of the naive network, exact to about `1e-9`; the gradients are sums in `f32`.
#[test]
fn gradients_are_those_of_finite_differences() {
    const TOLERANCE: f64 = 1e-5;
    let (steps, h) = (9, 1e-5);
    let sequences = sequences(steps, 2);
    for cell in [CellKind::Lstm, CellKind::Gru] {
        let network = network(cell, 1);
        let step = network.step(&sequences, Kernels::Auto, Checkpointed::stored(steps).unwrap()).unwrap();
        let mut parameters: Vec<(String, Vec<f64>)> = named_parameters(&network)
            .into_iter()
            .map(|(name, data)| (name, data.iter::<f64>().collect()))
            .collect();
        let at = |parameters: &[(String, Vec<f64>)]| loss_in_f64(cell, parameters, &sequences, 10);
        assert!((at(&parameters) - step.loss).abs() < TOLERANCE, "{} {}", at(&parameters), step.loss);
        let gradients = named_gradients(&network, &step.gradients);
        for place in 0..parameters.len() {
            let found: Vec<f64> = gradients[place].1.iter::<f64>().collect();
            // Every seventh element of each parameter.
            for index in (0..found.len()).step_by(7) {
                let before = parameters[place].1[index];
                let mut slope = 0.0;
                for sign in [1.0, -1.0] {
                    parameters[place].1[index] = before + sign * h;
                    slope += sign * at(&parameters) / (2.0 * h);
                }
                parameters[place].1[index] = before;
                let name = &parameters[place].0;
                assert!(
                    (slope - found[index]).abs() < TOLERANCE,
                    "{name} {index}: {} against {slope}",
                    found[index]
                );
            }
        }
    }
}

#[test]
fn a_few_steps_of_descent_lower_the_loss() {
    use burn::optim::AdamWConfig;
    let mut network = network(CellKind::Lstm, 1);
    let sequences = sequences(40, 4);
    let mut optimizer = AdamWConfig::new().init();
    let (before, _) = network.evaluate(&sequences);
    for _ in 0..60 {
        let how = Checkpointed::schedule(Revolve::new(40, 5).unwrap());
        let step = network.step(&sequences, Kernels::Auto, how).unwrap();
        network = optimizer.step(2e-2, network, step.gradients);
    }
    let (after, _) = network.evaluate(&sequences);
    assert!(after < 0.8 * before, "{before} -> {after}");
}
