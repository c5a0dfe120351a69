//! Expect: `report.html`, which any browser opens from disk, and one line for each run on the terminal.
//!
//! The report of an archived run, with no network to build:
//! `cargo run --release -p reprop-report --example report -- bench/runs/ladder.json report.html bench/runs/steps-2-threads.json`.

use std::{env, fs};

use reprop_report::{Format, Peers, Results};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let from = arguments.next().unwrap_or_else(|| "bench/runs/ladder.json".to_owned());
    let to = arguments.next().unwrap_or_else(|| "report.html".to_owned());
    let results = Results::parse(&fs::read_to_string(from)?)?;
    let peers = match arguments.next() {
        Some(path) => Some(Peers::parse(&fs::read_to_string(path)?)?),
        None => None,
    };
    fs::write(&to, Format::Html.render(&results, peers.as_ref()))?;
    print!("{}", Format::Text.render(&results, None));
    Ok(())
}
