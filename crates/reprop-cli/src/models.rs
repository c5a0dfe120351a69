//! `reprop models`: every network with its size.

use burn::module::Module as _;
use burn::tensor::Device;
use reprop::{Network, Pass, Strategy, parameter_count};
use reprop_models::{CharRnnConfig, LanguageModel, Model};
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
struct Sizes {
    name: &'static str,
    multiplications: u64,
}

impl Sizes {
    fn of<const D: usize, N: Network<D>>(&self, network: &N) -> Result<Row, Failure> {
        let bytes = |strategy| -> Result<u64, Failure> {
            let prediction = network.predicted(1, &Pass::training(0), strategy)?;
            Ok(prediction.map_or(0, |prediction| prediction.activation_peak))
        };
        Ok(Row {
            name: self.name,
            parameters: parameter_count(network),
            gmac: self.multiplications as f64 / 1e9,
            depth: network.pieces().len(),
            stored_activation_bytes_per_sample: bytes(Strategy::Stored)?,
            reversible_activation_bytes_per_sample: bytes(Strategy::Reprop)?,
        })
    }
}

impl Task for Sizes {
    type Output = Result<Row, Failure>;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> Self::Output {
        self.of(&network)
    }
}

fn image_row(name: &'static str, options: &ModelsOptions) -> Result<Row, Failure> {
    let model = options.changes.apply(name, options.depth)?;
    let sizes = Sizes { name, multiplications: model.multiplications() };
    with_network(&model, 0, &Device::flex(), sizes)
}

fn text_row(name: &'static str, options: &ModelsOptions) -> Result<Row, Failure> {
    let model = LanguageModel::by_name(name).ok_or_else(|| Failure::new(format!("no model {name}")))?;
    let model = model.change(&options.changes.changes(options.depth));
    model.check().map_err(|sentence| Failure::usage(format!("{name}: {sentence}")))?;
    let sizes = Sizes { name, multiplications: model.multiplications() };
    let LanguageModel::RevRoberta(config) = model;
    sizes.of(&config.init(0, &Device::flex()))
}

/// Steps of a chain that its bytes are told for.
const CHAIN_STEPS: u64 = 1000;
/// Slots of the plan that they are compared with.
const CHAIN_SLOTS: u64 = 10;

/// Networks of the embedded text: a sample is a sequence of 1,000 symbols, stored against Revolve with 10 slots; GMAC are
/// those of one symbol.
fn chains() -> impl Iterator<Item = Row> {
    let symbols = reprop_data::sotu().symbols.len();
    CharRnnConfig::NAMES.into_iter().filter_map(move |name| {
        let config = CharRnnConfig::by_name(name, symbols)?;
        Some(Row {
            name,
            parameters: config.init(0, &Device::flex()).num_params(),
            gmac: config.multiplications() as f64 / 1e9,
            depth: config.depth,
            stored_activation_bytes_per_sample: CHAIN_STEPS * config.tape_bytes(),
            reversible_activation_bytes_per_sample: CHAIN_SLOTS * config.state_bytes() + config.tape_bytes(),
        })
    })
}

/// Prints the list.
pub fn run(global: &Global, options: &ModelsOptions) -> Result<(), Failure> {
    let images = Model::names().map(|name| image_row(name, options));
    let texts = LanguageModel::names().map(|name| text_row(name, options));
    let rows = images.chain(texts).chain(chains().map(Ok)).collect::<Result<Vec<_>, Failure>>()?;
    match global.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => print(&rows),
    }
    Ok(())
}

fn print(rows: &[Row]) {
    println!(
        "{:<17} {:>14} {:>8} {:>6} {:>14} {:>14} {:>6}",
        "model", "parameters", "GMAC", "depth", "stored/sample", "reprop/sample", "ratio"
    );
    for row in rows {
        let [stored, reversible] =
            [row.stored_activation_bytes_per_sample, row.reversible_activation_bytes_per_sample];
        println!(
            "{:<17} {:>14} {:>8.3} {:>6} {:>14} {:>14} {:>5.1}x",
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
