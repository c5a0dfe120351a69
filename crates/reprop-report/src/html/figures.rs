//! Which charts a set of results has.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::chart::{Axis, Chart, Kind, Point, Series};
use crate::{Peers, Results, Run, human};

/// The order of strategies in legends and tables.
const ORDER: [&str; 4] = ["stored", "reprop", "pareprop", "auto"];
/// More charts than these in one section help nobody.
const MOST: usize = 24;

const BATCH: Axis = Axis { label: "batch", kind: Kind::Doubling, tick: whole, cell: whole };
const DEPTH: Axis = Axis { label: "depth", kind: Kind::Linear, tick: whole, cell: whole };
const SPEED: Axis = Axis { label: "samples a second", kind: Kind::Linear, tick: short, cell: precise };
const BYTES: Axis = Axis { label: "activations, MiB", kind: Kind::Linear, tick: short, cell: mebibytes };
const TIME: Axis = Axis { label: "one step, ms", kind: Kind::Linear, tick: short, cell: precise };

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// As few digits as tell ticks apart.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn precise(value: f64) -> String {
    format!("{value:.2}")
}

fn mebibytes(value: f64) -> String {
    format!("{value:.1} MiB")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Networks in the order in which they were run.
pub fn models(results: &Results) -> Vec<String> {
    let mut models: Vec<String> = Vec::new();
    for run in &results.runs {
        if !models.contains(&run.model) {
            models.push(run.model.clone());
        }
    }
    models
}

/// Strategies that were run.
pub fn strategies(results: &Results) -> Vec<String> {
    let there = |name: &&str| results.runs.iter().any(|run| run.strategy == **name);
    ORDER.into_iter().filter(there).map(str::to_owned).collect()
}

/// Everything but what a chart lays out, in the order of the runs.
fn groups<'r, K: Ord + Clone>(
    runs: impl Iterator<Item = &'r Run>,
    key: impl Fn(&Run) -> K,
) -> Vec<Vec<&'r Run>> {
    let mut order: Vec<K> = Vec::new();
    let mut groups: BTreeMap<K, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let key = key(run);
        if !groups.contains_key(&key) {
            order.push(key.clone());
        }
        groups.entry(key).or_default().push(run);
    }
    order.into_iter().filter_map(|key| groups.remove(&key)).collect()
}

/// One series for each strategy (and budget), its points from left to right.
fn series(
    runs: &[&Run],
    point: impl Fn(&Run) -> Point,
    foretold: impl Fn(&Run) -> Option<(f64, f64)>,
) -> Vec<Series> {
    let rank = |run: &&&Run| ORDER.iter().position(|name| *name == run.strategy).unwrap_or(ORDER.len());
    let mut sorted: Vec<&&Run> = runs.iter().collect();
    sorted.sort_by_key(|run| (rank(run), run.budget));
    groups(sorted.into_iter().copied(), Run::way)
        .into_iter()
        .map(|runs| {
            let mut points: Vec<Point> = runs.iter().map(|run| point(run)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let mut foretold: Vec<(f64, f64)> = runs.iter().filter_map(|run| foretold(run)).collect();
            foretold.sort_by(|a, b| a.0.total_cmp(&b.0));
            let joined = foretold.is_empty();
            Series { name: runs[0].way(), style: runs[0].strategy.clone(), points, foretold, joined }
        })
        .collect()
}

/// Images and threads, where they tell charts apart.
fn particulars(results: &Results, run: &Run) -> String {
    let differ = |of: fn(&Run) -> Option<usize>| results.runs.iter().any(|other| of(other) != of(run));
    let mut text = String::new();
    if let (Some(side), true) = (run.image, differ(|run| run.image)) {
        let _ = write!(text, ", {side}x{side} pixels");
    }
    if differ(|run| Some(run.threads)) {
        let _ = write!(text, ", {} threads", run.threads);
    }
    text
}

/// Runs without a budget: one strategy under many budgets is a curve of its own, in the ladder.
fn unbound(results: &Results) -> impl Iterator<Item = &Run> {
    results.runs.iter().filter(|run| run.budget.is_none())
}

fn names(series: &[Series]) -> String {
    series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Throughput against the batch.
pub fn throughput(results: &Results) -> Vec<Chart> {
    let chart = |runs: Vec<&Run>| {
        let run = runs[0];
        let point = |run: &Run| {
            let spread = run.spread();
            let speed = |seconds: f64| run.batch as f64 / seconds;
            let spread = Some((speed(spread.high), speed(spread.low)));
            Point { x: run.batch as f64, y: run.samples_per_second, spread }
        };
        let series = series(&runs, point, |_| None);
        Chart {
            title: format!("{}, depth {}{}", run.model, run.depth, particulars(results, run)),
            description: format!("Samples a second by batch under {}.", names(&series)),
            x: BATCH,
            y: SPEED,
            series,
            frontier: Vec::new(),
            labelled: false,
        }
    };
    let key = |run: &Run| (run.model.clone(), run.image, run.depth, run.threads);
    groups(unbound(results), key).into_iter().map(chart).take(MOST).collect()
}

/// Memory against the depth and against the batch, where there is more than one.
pub fn memory(results: &Results) -> Vec<Chart> {
    let chart = |runs: Vec<&Run>, x: Axis, across: fn(&Run) -> f64, title: String| {
        let here = across(runs[0]);
        runs.iter().any(|run| (across(run) - here).abs() > 0.0).then(|| {
            let point = |run: &Run| Point { x: across(run), y: mib(run.activation_peak_bytes), spread: None };
            let foretold = |run: &Run| Some((across(run), mib(run.predicted_activation_bytes?)));
            let series = series(&runs, point, foretold);
            Chart {
                description: format!("Peak activation memory by {} under {}.", x.label, names(&series)),
                title,
                x,
                y: BYTES,
                series,
                frontier: Vec::new(),
                labelled: false,
            }
        })
    };
    let by_depth = groups(unbound(results), |run| (run.model.clone(), run.image, run.batch, run.threads));
    let by_batch = groups(unbound(results), |run| (run.model.clone(), run.image, run.depth, run.threads));
    let depths = by_depth.into_iter().filter_map(|runs| {
        let title = format!("{}, batch {}{}", runs[0].model, runs[0].batch, particulars(results, runs[0]));
        chart(runs, DEPTH, |run| run.depth as f64, title)
    });
    let batches = by_batch.into_iter().filter_map(|runs| {
        let title = format!("{}, depth {}{}", runs[0].model, runs[0].depth, particulars(results, runs[0]));
        chart(runs, BATCH, |run| run.batch as f64, title)
    });
    depths.chain(batches).take(MOST).collect()
}

/// Time against memory: one chart for each network at its largest batch, and at each that a peer speaks of.
pub fn ladder(results: &Results, peers: Option<&Peers>) -> Vec<Chart> {
    let key = |run: &Run| (run.model.clone(), run.image, run.depth, run.threads, run.batch);
    let largest = |run: &Run| {
        let alike = results.runs.iter().filter(|other| {
            (&other.model, other.image, other.depth, other.threads)
                == (&run.model, run.image, run.depth, run.threads)
        });
        alike.map(|other| other.batch).max()
    };
    let mut charts = Vec::new();
    for runs in groups(results.runs.iter(), key) {
        let run = runs[0];
        let point = |run: &Run| {
            let spread = run.spread();
            let spread = Some((1e3 * spread.low, 1e3 * spread.high));
            Point { x: mib(run.activation_peak_bytes), y: 1e3 * run.median_seconds, spread }
        };
        let ours = series(&runs, point, |_| None);
        let theirs = peers.map(|peers| peer_series(peers, run)).unwrap_or_default();
        if ours.len() < 2 || (theirs.is_empty() && largest(run) != Some(run.batch)) {
            continue;
        }
        let frontier =
            frontier(ours.iter().flat_map(|series| &series.points).map(|point| (point.x, point.y)));
        let series: Vec<Series> = ours.into_iter().chain(theirs).collect();
        charts.push(Chart {
            title: format!(
                "{}, depth {}, batch {}{}",
                run.model,
                run.depth,
                run.batch,
                particulars(results, run)
            ),
            description: format!("Milliseconds of one step by activation memory: {}.", names(&series)),
            x: BYTES,
            y: TIME,
            series,
            frontier,
            labelled: false,
        });
    }
    charts.truncate(MOST);
    charts
}

/// A peer's points for the same network, batch and threads.
fn peer_series(peers: &Peers, run: &Run) -> Vec<Series> {
    if peers.threads != run.threads {
        return Vec::new();
    }
    let series = |unit: crate::PeerUnit| {
        let (bytes, depth, image) = unit.memory?;
        let (model, strategy, batch) = unit.step()?;
        let alike = (model, batch, depth) == (run.model.as_str(), run.batch, run.depth);
        (alike && run.image.is_none_or(|side| side == image)).then(|| Series {
            name: format!("{} {strategy}, {}", peers.peer, human(bytes)),
            style: "peer".to_owned(),
            points: vec![Point {
                x: mib(bytes),
                y: unit.peer.median,
                spread: Some((unit.peer.low, unit.peer.high)),
            }],
            foretold: Vec::new(),
            joined: false,
        })
    };
    peers.units().into_iter().filter_map(series).collect()
}

/// Points that no other is both left of and below, from left to right.
fn frontier(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut best = f64::INFINITY;
    points.retain(|(_, time)| {
        let better = *time < best;
        best = best.min(*time);
        better
    });
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run;

    #[test]
    fn the_frontier_leaves_out_what_is_beaten_at_both() {
        let points = [(3.0, 1.0), (1.0, 4.0), (2.0, 5.0), (2.0, 3.0)];
        assert_eq!(frontier(points.into_iter()), [(1.0, 4.0), (2.0, 3.0), (3.0, 1.0)]);
    }

    #[test]
    fn peers_points_go_to_the_charts_of_the_same_network_only() {
        let text = r#"{"threads": 2, "pairs_ours_peer_ms": {"rev-vit-s stored 4": [[1.0, 2.0]]},
            "peer_memory": {"rev-vit-s stored 4": {"bytes": 1048576, "depth": 12, "image": 224}}}"#;
        let peers = Peers::parse(text).expect("peers");
        let alike = Run { image: Some(224), ..run("stored", 4, &[0.1]) };
        assert_eq!(peer_series(&peers, &alike).len(), 1);
        for other in [
            Run { image: Some(32), ..alike.clone() },
            Run { depth: 24, ..alike.clone() },
            Run { batch: 2, ..alike.clone() },
            Run { threads: 1, ..alike.clone() },
            Run { model: "rev-vit-b".to_owned(), ..alike },
        ] {
            assert!(peer_series(&peers, &other).is_empty(), "{}", other.name());
        }
    }
}
