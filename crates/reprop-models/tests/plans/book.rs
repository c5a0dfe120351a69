//! What plans stand on: costs, the book they are kept in, and refusals.

use burn::tensor::Device;
use reprop::{CostBook, Costs, Error, Kernels, Network, Pass, Refusal, Tried, cost_key};
use reprop_models::RevVitConfig;

use super::{BATCH, costs, ends, pass, planned};

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
    let network = RevVitConfig { depth: 4, ..RevVitConfig::digits() }.init(3, &Device::flex().autodiff());
    let (stored, ..) = ends(&network);
    let mut costs = costs(&network, 0.0);
    let plan = |costs: &Costs| network.plan(BATCH, &pass(), stored - 1, costs).expect("a plan");
    let promising = *plan(&costs).chosen();
    let all = plan(&costs);
    let bare = all.candidates.iter().find(|candidate| all.name(candidate) == "reprop");
    let bare = bare.expect("a candidate").mode;
    assert_ne!(promising.mode, bare);
    costs.tried = vec![Tried { mode: bare, seconds: 1.05 * promising.time }];
    let doubtful = plan(&costs);
    assert_eq!(doubtful.chosen().mode, bare);
    let refused = doubtful.candidates.iter().find(|candidate| candidate.mode == promising.mode);
    assert_eq!(refused.and_then(|candidate| candidate.refused), Some(Refusal::Doubtful));
    costs.tried[0].seconds = 1.2 * promising.time;
    assert_eq!(plan(&costs).chosen().mode, promising.mode);
}
