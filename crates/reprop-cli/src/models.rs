//! `reprop models`: every network with its size.

use burn::tensor::Device;
use reprop::{Pass, Strategy, parameter_count};
use reprop_models::Model;
use serde::Serialize;

use crate::bytes::human;
use crate::failure::Failure;
use crate::images::{ImageNetwork, Task, with_network};
use crate::options::{Format, Global, ModelsOptions};

#[derive(Serialize)]
struct Row {
    name: &'static str,
    parameters: usize,
    gmac: f64,
    depth: usize,
    stored_activation_bytes_per_sample: u64,
    reversible_activation_bytes_per_sample: u64,
}

/// Sizes of a network, told without making its parameters.
struct Sizes;

impl Task for Sizes {
    type Output = Result<(usize, usize, u64, u64), Failure>;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> Self::Output {
        let bytes = |strategy| -> Result<u64, Failure> {
            let prediction = network.predicted(1, &Pass::training(0), strategy)?;
            Ok(prediction.map_or(0, |prediction| prediction.activation_peak))
        };
        Ok((
            parameter_count(&network),
            network.pieces().len(),
            bytes(Strategy::Stored)?,
            bytes(Strategy::Reprop)?,
        ))
    }
}

/// Prints the list.
pub fn run(global: &Global, options: &ModelsOptions) -> Result<(), Failure> {
    let rows = Model::names()
        .map(|name| {
            let model = options.changes.apply(name, options.depth)?;
            let (parameters, depth, stored, reversible) = with_network(&model, 0, &Device::flex(), Sizes)?;
            Ok(Row {
                name,
                parameters,
                gmac: model.multiplications() as f64 / 1e9,
                depth,
                stored_activation_bytes_per_sample: stored,
                reversible_activation_bytes_per_sample: reversible,
            })
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    match global.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => print(&rows),
    }
    Ok(())
}

fn print(rows: &[Row]) {
    println!(
        "{:<15} {:>14} {:>8} {:>6} {:>14} {:>14} {:>6}",
        "model", "parameters", "GMAC", "depth", "stored/sample", "reprop/sample", "ratio"
    );
    for row in rows {
        let [stored, reversible] =
            [row.stored_activation_bytes_per_sample, row.reversible_activation_bytes_per_sample];
        println!(
            "{:<15} {:>14} {:>8.3} {:>6} {:>14} {:>14} {:>5.1}x",
            row.name,
            row.parameters,
            row.gmac,
            row.depth,
            human(stored),
            human(reversible),
            stored as f64 / reversible as f64
        );
    }
}
