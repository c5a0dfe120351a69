//! Plans of networks that are not reversible: blocks recomputed from inputs in memory, in snapshots, or on disk.

use burn::tensor::Device;
use reprop::{Error, Gradients, Inputs, Meter, Mode, Network, Pass, Spill, Strategy, gradient_digest};
use reprop_models::{RevVitConfig, Vit};
use reprop_store::DiskConfig;

use super::{BATCH, Budgets, EveryCandidate, Law, costs, ends, images, pass, planned, run};

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
