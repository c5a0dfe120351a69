//! Plans keep their promises on a small network of each family: every candidate gives the gradients of storing, needs the
//! bytes that were told, and fits its budget. No time is measured here: costs are made up, so that every kind of plan is
//! taken.

use std::sync::LazyLock;

use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{
    CostBook, Costs, Error, Gradients, Input, Inputs, Kernels, Meter, Mode, Network, Pass, Plan, Refusal,
    Spill, Strategy, Target, Tried, cost_key, gradient_digest,
};
use reprop_models::{RevMvitConfig, RevResNetConfig, RevSwinConfig, RevVitConfig, Vit};
use reprop_store::DiskConfig;
use tempfile::TempDir;

/// The law's own.
const PREDICTION: f64 = 0.05;
const BATCH: usize = 3;

fn images(channels: usize, side: usize) -> (Tensor<4>, Tensor<1, Int>) {
    let shape = [BATCH, channels, side, side];
    let word = |index: u64| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let elements = shape.iter().product::<usize>() as u64;
    let values: Vec<f32> = (0..elements).map(|i| word(i) as f32 / (1 << 23) as f32 - 1.0).collect();
    let labels: Vec<i64> = (0..BATCH as i64).map(|index| (2 * index + 1) % 5).collect();
    let device = Device::flex();
    (
        Tensor::from_data(TensorData::new(values, shape), &device),
        Tensor::from_data(TensorData::new(labels, [BATCH]), &device),
    )
}

/// Something that holds for any network.
trait Law {
    fn check<const D: usize, N: Network<D>>(
        &self,
        what: &str,
        network: &N,
        data: &(Input<D, N>, Target<D, N>),
    );
}

/// Checks it on networks of all families, at odd and even depths, with drop-path where there is such a thing, on two
/// threads.
fn in_all_families(law: &(impl Law + Sync)) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    let device = Device::flex().autodiff();
    pool.install(|| {
        for depth in [3, 6] {
            let config = RevVitConfig { depth, classes: 5, ..RevVitConfig::digits() };
            let network = config.with_dropout(0.1).with_drop_path(0.3).init(3, &device);
            law.check(&format!("RevViT {depth}"), &network, &images(1, 8));
        }
        for depths in [vec![1, 2, 3], vec![2, 3]] {
            let config = RevSwinConfig::new(32, 12, depths.clone(), 2).with_patch(2).with_classes(5);
            let network = config.with_drop_path(0.3).init(3, &device);
            law.check(&format!("RevSwin {depths:?}"), &network, &images(3, 32));
        }
        for depths in [vec![2, 1, 1], vec![1, 2]] {
            let config = RevMvitConfig::new(32, 8, depths.clone()).with_classes(5);
            let network = config.with_drop_path(0.3).init(3, &device);
            law.check(&format!("RevMViT {depths:?}"), &network, &images(3, 32));
        }
        for (blocks, bottleneck) in [(vec![2, 1, 3, 2], false), (vec![3, 2], true)] {
            let config = RevResNetConfig::new(blocks.clone(), bottleneck).with_width(8).with_image(16);
            let network = config.with_classes(5).init(3, &device);
            law.check(&format!("RevResNet {blocks:?}"), &network, &images(3, 16));
        }
    });
}

/// With a disk, so that modes that spill are candidates too.
fn pass() -> Pass {
    static DISK: LazyLock<(TempDir, Spill)> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let spill = Spill::new(DiskConfig::new(folder.path().join("streams")));
        (folder, spill)
    });
    Pass::training(7).spill(&DISK.1)
}

/// Costs with this part of a recovery hidden by overlap.
fn costs<const D: usize, N: Network<D>>(network: &N, hidden: f64) -> Costs {
    let costs = Costs::predicted(network, BATCH, &pass()).expect("a network that tells its bytes");
    Costs { hidden: Some(hidden), ..costs }
}

fn planned<const D: usize, N: Network<D>>(network: &N, budget: u64, hidden: f64) -> Plan {
    network.plan(BATCH, &pass(), budget, &costs(network, hidden)).expect("a plan")
}

/// The bytes that storing everything needs, and those that the leanest of reprop and pareprop need.
fn ends<const D: usize, N: Network<D>>(network: &N) -> (u64, u64, u64) {
    let peak = |strategy| {
        let prediction = network.predicted(BATCH, &pass(), strategy).expect("no budget");
        prediction.expect("a network that tells its bytes").activation_peak
    };
    (peak(Strategy::Stored), peak(Strategy::Reprop), peak(Strategy::PaReprop))
}

/// Digest and measured peak of a step.
fn run<const D: usize, N: Network<D>>(
    network: &N,
    data: &(Input<D, N>, Target<D, N>),
    strategy: Strategy,
) -> (String, u64) {
    let step = network.step(data.0.clone(), data.1.clone(), pass(), strategy).expect("a step");
    (gradient_digest(network, &step.gradients), step.memory.activation_peak)
}

fn assert_close(predicted: u64, measured: u64, what: &str) {
    let ratio = predicted as f64 / measured as f64;
    assert!((ratio - 1.0).abs() <= PREDICTION, "{what}: {predicted} predicted, {measured} measured");
}

struct EveryCandidate;

impl Law for EveryCandidate {
    fn check<const D: usize, N: Network<D>>(
        &self,
        what: &str,
        network: &N,
        data: &(Input<D, N>, Target<D, N>),
    ) {
        let stored = run(network, data, Strategy::Stored);
        let plan = planned(network, u64::MAX, 0.0);
        for candidate in &plan.candidates {
            let what = format!("{what}: {}", plan.name(candidate));
            let (digest, peak) = run(network, data, Strategy::Planned(candidate.mode));
            assert_eq!(digest, stored.0, "{what}");
            let predicted = candidate.prediction.activation_peak;
            // The law allows 5 %; the walk on bytes goes the engine's way step by step. Of two halves side by side either may
            // be ahead, and the walk counts the worst.
            if candidate.mode.overlap {
                assert!(peak <= predicted, "{what}: {peak} measured, {predicted} predicted");
                assert_close(predicted, peak, &what);
            } else {
                assert_eq!(predicted, peak, "{what}");
            }
        }
    }
}

#[test]
fn every_candidate_gives_stored_gradients_and_needs_the_bytes_that_were_told() {
    in_all_families(&EveryCandidate);
}

fn plain(depth: usize) -> Vit {
    let config = RevVitConfig { depth, classes: 5, ..RevVitConfig::digits() };
    Vit::new(&config, 3, &Device::flex().autodiff())
}

#[test]
fn networks_that_are_not_reversible_are_stored_or_recomputed_from_what_fits() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    pool.install(|| {
        // The longer one has streams on their way to disk and back while others are.
        for depth in [1, 2, 6] {
            EveryCandidate.check(&format!("plain ViT {depth}"), &plain(depth), &images(1, 8));
        }
        // Two transitions, attention and perceptron.
        let network = plain(1);
        let plan = planned(&network, ends(&network).0 - 1, 0.0);
        let names: Vec<String> = plan.candidates.iter().map(|candidate| plan.name(candidate)).collect();
        let recomputed = "stored, transitions recomputed";
        assert_eq!(
            names,
            [
                "stored",
                recomputed,
                &format!("{recomputed} beside gradients"),
                "last 1 transition kept, rest recomputed",
                "last 1 transition kept, rest recomputed beside gradients",
                "transitions recomputed from disk",
                "transitions recomputed from 1 snapshot",
                "transitions recomputed from the network's input",
            ]
        );
        assert_eq!(plan.name(plan.chosen()), "last 1 transition kept, rest recomputed");
        Budgets.check("plain ViT 5", &plain(5), &images(1, 8));
        let (network, pass) = (plain(1), pass());
        let costs = network.measure(images(1, 8).0, images(1, 8).1, &pass, ends(&network).0 - 1);
        assert!(costs.expect("costs").tried.len() > 3);
    });
}

#[test]
fn fewer_snapshots_need_less_memory_and_more_time_and_a_disk_needs_neither() {
    let network = plain(20);
    let pieces = network.pieces().len();
    let plan = planned(&network, u64::MAX, 0.0);
    let found = |inputs| {
        let found = plan.candidates.iter().find(|candidate| candidate.mode.inputs == inputs);
        *found.expect("a candidate")
    };
    let few: Vec<_> = plan
        .candidates
        .iter()
        .filter(|candidate| matches!(candidate.mode.inputs, Inputs::Few { .. }))
        .collect();
    assert!(few.len() > 10, "{}", few.len());
    for pair in few.windows(2) {
        let peaks = pair.iter().map(|candidate| candidate.prediction.activation_peak);
        assert!(peaks.is_sorted_by(|a, b| a > b) && pair[0].time <= pair[1].time, "{pair:?}");
    }
    let recomputed = plan.candidates[1];
    let disk = found(Inputs::Spilled);
    assert!((disk.time - recomputed.time).abs() < 1e-9);
    // Two streams in memory and the store's own two.
    assert!(disk.prediction.activation_peak < recomputed.prediction.activation_peak / 2);
    // Revolve's own count: five slots, of which the network's input takes one, for the pieces and the stem. Gradients take two
    // forwards, what they need one, and the last piece goes forward once more, to the head. The stem has no price.
    let advances = reprop_schedule::advances(pieces + 1, 5) as f64;
    let forwards = pieces as f64 * (found(Inputs::Few { snapshots: 4 }).time - 3.0) - 1.0;
    let stems = (advances - forwards).round();
    assert!((1.0..=6.0).contains(&stems), "{stems} stems, {forwards} of {advances} advances");
}

/// A step of a plain network whose streams go to `config`.
fn spilled(config: DiskConfig, between: impl FnOnce()) -> Result<String, Error> {
    let network = plain(5);
    let (images, labels) = images(1, 8);
    let mode = Mode { recompute_transitions: true, inputs: Inputs::Spilled, ..Mode::default() };
    let pass = Pass::training(7).spill(&Spill::new(config));
    let mut gradients = Gradients::new(&Meter::new());
    let tape = network.record(images, labels, pass, Strategy::Planned(mode))?;
    between();
    tape.backward(&mut gradients)?;
    Ok(gradient_digest(&network, &gradients.into_params()))
}

#[test]
fn a_disk_that_fails_is_an_error_and_not_a_gradient() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("streams");
    let network = plain(5);
    let stored = run(&network, &images(1, 8), Strategy::Stored).0;
    assert_eq!(spilled(DiskConfig::new(&place), || ()), Ok(stored));
    // Gone with the last pass that used it.
    assert!(!place.exists());

    let damage = || {
        for file in std::fs::read_dir(&place).expect("files").map(|file| file.expect("a file").path()) {
            let bytes = std::fs::read(&file).expect("readable");
            std::fs::write(&file, bytes.iter().map(|byte| !byte).collect::<Vec<_>>()).expect("writable");
        }
    };
    let error = spilled(DiskConfig::new(&place), damage).expect_err("damaged");
    assert!(matches!(&error, Error::Spill { reason } if reason.contains("step")), "{error}");

    let error = spilled(DiskConfig::new(&place).budget(1 << 12), || ()).expect_err("full");
    assert!(matches!(&error, Error::Spill { .. }), "{error}");

    let file = folder.path().join("file");
    std::fs::write(&file, b"here").expect("writable");
    let error = spilled(DiskConfig::new(file.join("streams")), || ()).expect_err("no folder");
    assert!(matches!(&error, Error::Spill { .. }), "{error}");

    let mode = Mode { inputs: Inputs::Spilled, ..Mode::default() };
    let (images, labels) = images(1, 8);
    let without = network.step(images, labels, Pass::training(7), Strategy::Planned(mode));
    assert_eq!(without.err(), Some(Error::NoSpill));
}

#[test]
fn a_budget_below_what_all_inputs_need_is_met_by_auto() {
    let network = plain(5);
    let data = images(1, 8);
    let least = match network.plan(BATCH, &Pass::training(7), 1, &costs(&network, 0.0)) {
        Err(Error::BudgetTooSmall { least, .. }) => least,
        other => panic!("{other:?}"),
    };
    let kept = Mode { recompute_transitions: true, ..Mode::default() };
    let predicted = network.predicted(BATCH, &pass(), Strategy::Planned(kept)).expect("no budget");
    let all = predicted.expect("told").activation_peak;
    assert!(least < all, "{least} of {all}");
    let stored = run(&network, &data, Strategy::Stored).0;
    for budget in [least, usize::midpoint(least as usize, all as usize) as u64, all - 1] {
        let (digest, peak) = run(&network, &data, Strategy::Auto { budget });
        assert_eq!(digest, stored);
        assert!(peak <= budget, "{peak} of {budget}");
    }
}

struct Budgets;

impl Law for Budgets {
    fn check<const D: usize, N: Network<D>>(
        &self,
        what: &str,
        network: &N,
        data: &(Input<D, N>, Target<D, N>),
    ) {
        let (stored, ..) = ends(network);
        let all = planned(network, u64::MAX, 0.0);
        let peaks = all.candidates.iter().map(|candidate| candidate.prediction.activation_peak);
        let least = peaks.min().expect("there are candidates");
        // Overlap that hides much, nothing, and that loses.
        for hidden in [0.9, 0.0, -0.3] {
            let mut last = f64::INFINITY;
            for part in 0..=6 {
                let budget = least + (stored - least) * part / 6;
                let plan = planned(network, budget, hidden);
                let chosen = plan.chosen();
                let what = format!("{what}, hidden {hidden}, part {part}: {}", plan.name(chosen));
                let (_, peak) = run(network, data, plan.strategy());
                assert!(peak <= budget, "{what}: {peak} of {budget} bytes");
                assert_close(chosen.prediction.activation_peak, peak, &what);
                assert!(chosen.time <= last, "{what}: {} after {last}", chosen.time);
                assert!(chosen.refused.is_none(), "{what}");
                last = chosen.time;
            }
            let top = planned(network, stored, hidden);
            assert_eq!(top.strategy(), Strategy::Stored, "{what}");
            assert!(top.candidates[1..].iter().all(|candidate| candidate.refused.is_some()), "{what}");
        }
    }
}

#[test]
fn plans_fit_their_budgets_and_are_faster_the_more_there_is() {
    in_all_families(&Budgets);
}

struct Bottom;

impl Law for Bottom {
    fn check<const D: usize, N: Network<D>>(&self, what: &str, network: &N, _: &(Input<D, N>, Target<D, N>)) {
        let (_, reprop, pareprop) = ends(network);
        let budget = reprop.max(pareprop);
        let time = |plan: &Plan, overlap| {
            let bare = Mode { overlap, ..Mode::default() };
            let found = plan.candidates.iter().find(|candidate| candidate.mode == bare);
            found.expect("nothing kept is a candidate").time
        };
        for hidden in [0.9, 0.0, -0.3] {
            let plan = planned(network, budget, hidden);
            let better = time(&plan, false).min(time(&plan, true));
            assert!(plan.chosen().time <= better, "{what}, hidden {hidden}: {:?}", plan.chosen());
        }
        // Bytes below the least are an error that names it, and that least is enough.
        let error = network.plan(BATCH, &pass(), 1000, &costs(network, 0.0)).expect_err("too few bytes");
        let Error::BudgetTooSmall { budget: 1000, least } = error else { panic!("{what}: {error}") };
        assert!(least <= reprop, "{what}: {least} of {reprop}");
        let plan = planned(network, least, 0.0);
        assert_eq!(plan.chosen().prediction.activation_peak, least, "{what}");
        let over = network.plan(BATCH, &pass(), least - 1, &costs(network, 0.0));
        assert_eq!(over, Err(Error::BudgetTooSmall { budget: least - 1, least }), "{what}");
    }
}

#[test]
fn the_least_budget_gets_the_better_of_reprop_and_pareprop_and_less_is_an_error() {
    in_all_families(&Bottom);
}

struct Largest;

impl Law for Largest {
    fn check<const D: usize, N: Network<D>>(&self, what: &str, network: &N, _: &(Input<D, N>, Target<D, N>)) {
        let budget = 3 * ends(network).1;
        let fits = |batch| {
            let costs = Costs::predicted(network, batch, &pass()).expect("told");
            network.plan(batch, &pass(), budget, &costs).is_ok()
        };
        let batch = network.largest_batch(&pass(), budget).expect("one sample fits");
        assert!(batch >= BATCH && fits(batch) && !fits(batch + 1), "{what}: {batch}");
        let error = network.largest_batch(&pass(), 1).expect_err("nothing fits in a byte");
        assert!(matches!(error, Error::BudgetTooSmall { budget: 1, least: 2.. }), "{what}: {error}");
    }
}

#[test]
fn the_largest_batch_fits_and_one_more_does_not() {
    in_all_families(&Largest);
}

struct Measured;

impl Law for Measured {
    fn check<const D: usize, N: Network<D>>(
        &self,
        what: &str,
        network: &N,
        data: &(Input<D, N>, Target<D, N>),
    ) {
        let (stored, reprop, pareprop) = ends(network);
        for budget in [stored.max(pareprop), reprop] {
            let bare = |mode: Mode| mode.blocks_kept == 0 && mode.overlap && mode.inputs == Inputs::Kept;
            let plan = planned(network, budget, 0.0);
            let overlaps = plan
                .candidates
                .iter()
                .any(|candidate| bare(candidate.mode) && candidate.prediction.activation_peak <= budget);
            let costs = network.measure(data.0.clone(), data.1.clone(), &pass(), budget).expect("costs");
            assert!(costs.measured && costs.pieces.len() == network.pieces().len(), "{what}");
            assert_eq!(costs.hidden.is_some(), overlaps, "{what}");
            let positive = |piece: &reprop::PlaceCosts| piece.forward > 0.0 && piece.grads > 0.0;
            assert!(costs.pieces.iter().all(positive), "{what}: {costs:?}");
            let plan = network.plan(BATCH, &pass(), budget, &costs).expect("a plan");
            assert!(plan.measured && run(network, data, plan.strategy()).1 <= budget, "{what}");
            let chosen = plan.chosen();
            let tried = costs.tried.iter().find(|tried| tried.mode == chosen.mode);
            assert_eq!(tried.map(|tried| tried.seconds), Some(chosen.time), "{what}");
        }
        let error = network.measure(data.0.clone(), data.1.clone(), &pass(), 1).expect_err("too few");
        assert!(matches!(error, Error::BudgetTooSmall { budget: 1, .. }), "{what}: {error}");
    }
}

#[test]
fn costs_are_measured_of_every_part_within_the_budget() {
    in_all_families(&Measured);
}

fn small() -> reprop_models::RevVit {
    RevVitConfig { depth: 2, ..RevVitConfig::digits() }.init(3, &Device::flex().autodiff())
}

#[test]
fn costs_of_another_network_are_refused() {
    let other = RevVitConfig { depth: 3, ..RevVitConfig::digits() }.init(3, &Device::flex().autodiff());
    let refused = small().plan(BATCH, &pass(), u64::MAX, &costs(&other, 0.0));
    assert_eq!(refused, Err(Error::CostsOfAnother { expected: 2, found: 3 }));
}

#[test]
fn refusals_say_what_is_missing() {
    let network = small();
    let (stored, ..) = ends(&network);
    let plan = planned(&network, stored - 1, 0.0);
    assert_eq!(plan.candidates[0].refused, Some(Refusal::OverBudget { lacks: 1 }));
    assert_eq!(plan.name(&plan.candidates[0]), "stored");
}

#[test]
fn a_book_gives_back_what_was_put_in_and_a_damaged_one_is_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep/costs.json");
    // Fractions that need all digits.
    let costs = Costs { rest: 0.1 + 0.2, hidden: Some(1.0 / 3.0), ..costs(&small(), 0.0) };
    let mut book = CostBook::open(&path);
    book.put("one", costs.clone()).expect("written");
    book.put("two", Costs { rest: 7.0, ..costs.clone() }).expect("written");
    assert_eq!(CostBook::open(&path).get("one"), Some(&costs));
    assert_eq!(CostBook::open(&path).get("two").map(|costs| costs.rest), Some(7.0));
    assert_eq!(CostBook::open(&path).get("three"), None);

    let whole = std::fs::read(&path).expect("it is there");
    for damaged in [&whole[..whole.len() / 2], b"", b"[]]", b"{\"entries\": 3}", &[0xff, 0xfe]] {
        std::fs::write(&path, damaged).expect("written");
        let mut book = CostBook::open(&path);
        assert_eq!(book.get("one"), None);
        book.put("one", costs.clone()).expect("written");
        assert_eq!(CostBook::open(&path).get("one"), Some(&costs));
    }
}

#[test]
fn keys_differ_where_costs_do() {
    let network = small();
    let key = |batch, pass: &Pass| cost_key(&network, batch, pass).expect("a key");
    let plain = key(BATCH, &pass());
    assert_eq!(plain, key(BATCH, &pass().step(3)));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(7).build().expect("a pool");
    let deeper = RevVitConfig { depth: 3, ..RevVitConfig::digits() }.init(3, &Device::flex().autodiff());
    let others = [
        key(BATCH + 1, &pass()),
        key(BATCH, &pass().kernels(Kernels::Burn)),
        key(BATCH, &pass().recompute_transitions()),
        key(BATCH, &Pass::evaluation()),
        pool.install(|| key(BATCH, &pass())),
        cost_key(&deeper, BATCH, &pass()).expect("a key"),
    ];
    for other in others {
        assert_ne!(plain, other);
    }
}

#[test]
fn what_is_not_clearly_faster_than_what_was_run_is_refused_as_such() {
    let network = small();
    let (stored, ..) = ends(&network);
    let mut costs = costs(&network, 0.0);
    let plan = |costs: &Costs| network.plan(BATCH, &pass(), stored - 1, costs).expect("a plan");
    let promising = *plan(&costs).chosen();
    let bare = Mode::default();
    assert_ne!(promising.mode, bare);
    costs.tried = vec![Tried { mode: bare, seconds: 1.05 * promising.time }];
    let doubtful = plan(&costs);
    assert_eq!(doubtful.chosen().mode, bare);
    let refused = doubtful.candidates.iter().find(|candidate| candidate.mode == promising.mode);
    assert_eq!(refused.and_then(|candidate| candidate.refused), Some(Refusal::Doubtful));
    costs.tried[0].seconds = 1.2 * promising.time;
    assert_eq!(plan(&costs).chosen().mode, promising.mode);
}
