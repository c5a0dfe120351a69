//! Chains under several plans, as `bench/chains` writes them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Error;
use crate::chart::{Axis, Chart, Kind, Point, Series};
use crate::picture::picture;
use crate::table::piped;

/// A file of `bench/chains/run.sh`.
#[derive(Clone, Debug, Deserialize)]
pub struct Chains {
    constant: Constant,
    compared: Compared,
    /// None if pyrevolve was not there.
    pyrevolve: Option<Peers>,
}

/// One chain at several lengths.
#[derive(Clone, Debug, Deserialize)]
struct Constant {
    rows: Vec<Length>,
}

#[derive(Clone, Debug, Deserialize)]
struct Length {
    plan: String,
    steps: u64,
    microseconds_per_step: f64,
    peak_mib: f64,
    evaluations_per_step: f64,
}

/// Several chains, each under every plan.
#[derive(Clone, Debug, Deserialize)]
struct Compared {
    rows: Vec<Plans>,
}

#[derive(Clone, Debug, Deserialize)]
struct Plans {
    problem: String,
    seconds: BTreeMap<String, f64>,
    peak_mib: BTreeMap<String, f64>,
    async_in_stored: f64,
    async_in_revolve: f64,
    predicted_in_measured: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Peers {
    rows: Vec<Peer>,
}

#[derive(Clone, Debug, Deserialize)]
struct Peer {
    problem: String,
    seconds: BTreeMap<String, f64>,
    times_as_fast_as_memory: f64,
    times_as_fast_as_disk: f64,
}

impl Chains {
    /// Measurements from a file's text.
    ///
    /// ```
    /// use reprop_report::Chains;
    ///
    /// let row = r#"{"plan": "async", "steps": 1000, "microseconds_per_step": 8.0, "peak_mib": 4.0, "evaluations_per_step": 3.0}"#;
    /// let text = format!(r#"{{"constant": {{"rows": [{row}]}}, "compared": {{"rows": []}}, "pyrevolve": null}}"#);
    /// assert!(Chains::parse(&text)?.lengths().contains("| async | 1000 | 3.00 | 8.0 | 4.0 MiB |"));
    /// # Ok::<(), reprop_report::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text is something else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let chains: Self = serde_json::from_str(text).map_err(Error::NotChains)?;
        if chains.constant.rows.is_empty() {
            return Err(Error::Empty);
        }
        Ok(chains)
    }

    /// What a step takes at each length, as a table for documents.
    pub fn lengths(&self) -> String {
        let row = |length: &Length| {
            let Length { plan, steps, microseconds_per_step, peak_mib, evaluations_per_step } = length;
            [
                plan.clone(),
                steps.to_string(),
                format!("{evaluations_per_step:.2}"),
                format!("{microseconds_per_step:.1}"),
                format!("{peak_mib:.1} MiB"),
            ]
        };
        let rows: Vec<_> = self.constant.rows.iter().map(row).collect();
        piped(&["plan", "steps", "evaluations a step", "µs a step", "peak memory"], &rows)
    }

    /// The plans side by side, as a table for documents.
    pub fn plans(&self) -> String {
        let row = |row: &Plans| {
            let of = |plan: &str| row.seconds.get(plan).map_or(f64::NAN, |seconds| 1e3 * seconds);
            let peak = |plan: &str| row.peak_mib.get(plan).map_or(f64::NAN, |mib| *mib);
            [
                row.problem.clone(),
                format!("{:.1}", of("stored")),
                format!("{:.1}", of("revolve")),
                format!("{:.1}", of("async")),
                format!("{:.2}", row.async_in_stored),
                format!("{:.2}", row.async_in_revolve),
                format!("{:.2}", row.predicted_in_measured),
                format!("{:.0} of {:.0} MiB", peak("async"), peak("stored")),
            ]
        };
        let rows: Vec<_> = self.compared.rows.iter().map(row).collect();
        let heads = [
            "chain",
            "stored ms",
            "revolve ms",
            "async ms",
            "in stored's",
            "in revolve's",
            "simulator's, in measured",
            "peak memory",
        ];
        piped(&heads, &rows)
    }

    /// The wave equation under pyrevolve and under reprop, as a table for documents.
    pub fn peers(&self) -> String {
        let row = |peer: &Peer| {
            let of =
                |way: &str| format!("{:.1}", peer.seconds.get(way).map_or(f64::NAN, |seconds| 1e3 * seconds));
            [
                peer.problem.clone(),
                of("pyrevolve memory"),
                of("pyrevolve disk"),
                of("reprop revolve"),
                of("reprop async"),
                format!("{:.1}", peer.times_as_fast_as_memory),
                format!("{:.1}", peer.times_as_fast_as_disk),
            ]
        };
        let rows: Vec<_> = self.pyrevolve.iter().flat_map(|peers| &peers.rows).map(row).collect();
        let heads = [
            "chain",
            "pyrevolve memory ms",
            "pyrevolve disk ms",
            "revolve ms",
            "async ms",
            "times memory's speed",
            "times disk's speed",
        ];
        piped(&heads, &rows)
    }

    /// Time a step against the length, as an SVG file.
    pub fn svg(&self) -> String {
        let series = |(plan, style): (&str, &str)| Series {
            name: plan.to_owned(),
            style: style.to_owned(),
            points: (self.constant.rows.iter().filter(|row| row.plan == plan))
                .map(|row| Point { x: row.steps as f64, y: row.microseconds_per_step, spread: None })
                .collect(),
            foretold: vec![],
            joined: true,
        };
        let number = |value: f64| format!("{value:.0}");
        let chart = Chart {
            title: "Microseconds a step against the length of a chain".to_owned(),
            description:
                "With the same slots in memory, a step under async takes the same time at any length; \
                          under revolve it takes longer in a longer chain."
                    .to_owned(),
            x: Axis {
                label: "steps",
                kind: Kind::Doubling,
                tick: |value| format!("{:.0}k", value / 1e3),
                cell: number,
            },
            y: Axis { label: "µs a step", kind: Kind::Linear, tick: number, cell: number },
            series: [("async", "reprop"), ("revolve", "pareprop")].map(series).into(),
            frontier: vec![],
            labelled: true,
        };
        picture(&chart, "chains")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_picture_hold_what_was_measured() {
        let text = r#"{
            "constant": {"rows": [
                {"plan": "async", "steps": 1000, "microseconds_per_step": 8.0, "peak_mib": 4.0, "evaluations_per_step": 3.0},
                {"plan": "async", "steps": 10000, "microseconds_per_step": 8.1, "peak_mib": 4.0, "evaluations_per_step": 3.0},
                {"plan": "revolve", "steps": 1000, "microseconds_per_step": 12.0, "peak_mib": 3.0, "evaluations_per_step": 4.6}
            ]},
            "compared": {"rows": [{
                "problem": "wave", "seconds": {"stored": 0.1, "revolve": 0.2, "async": 0.15},
                "peak_mib": {"stored": 100.0, "revolve": 9.0, "async": 10.0},
                "async_in_stored": 1.5, "async_in_revolve": 0.75, "predicted_in_measured": 0.98
            }]},
            "pyrevolve": {"rows": [{
                "problem": "wave", "seconds": {"pyrevolve memory": 1.0, "pyrevolve disk": 2.0, "reprop async": 0.5},
                "times_as_fast_as_memory": 2.0, "times_as_fast_as_disk": 4.0
            }]}
        }"#;
        let chains = Chains::parse(text).expect("chains");
        assert!(
            chains.plans().contains("| wave | 100.0 | 200.0 | 150.0 | 1.50 | 0.75 | 0.98 | 10 of 100 MiB |")
        );
        assert!(chains.peers().contains("| 500.0 | 2.0 | 4.0 |"));
        let svg = chains.svg();
        assert!(
            svg.starts_with("<svg xmlns=")
                && svg.contains("async: 10000, 8")
                && svg.contains("revolve: 1000, 12")
        );
        assert!(Chains::parse("{}").is_err());
    }
}
