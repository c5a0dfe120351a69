//! What a pipeline prints when it ends.

use reprop_pipeline::Summary;

use crate::bytes::human;
use crate::failure::Failure;
use crate::options::Format;

use super::super::common::Common;
use super::super::report::Outcome;

/// Prints a table of the stages for people, and the last line for scripts.
pub fn print(outcome: &Outcome, stages: &[Summary], common: &Common) -> Result<(), Failure> {
    if common.format == Format::Text {
        println!("{}\n", outcome.headline("batches"));
        println!(
            "{:<6} {:>12} {:>15} {:>15} {:>15} {:>9}",
            "stage", "parameters", "kept inputs", "old parameters", "activations", "waited"
        );
        for stage in stages {
            println!(
                "{:<6} {:>12} {:>15} {:>15} {:>15} {:>7.1} s",
                stage.stage,
                human(stage.parameter_bytes),
                human(stage.input_bytes),
                human(stage.version_bytes),
                human(stage.activation_peak),
                stage.waited_micros as f64 * 1e-6
            );
        }
        println!();
    }
    let folder = common.folder.display();
    eprintln!("records, metrics and weights.safetensors are in {folder}");
    if outcome.interrupted {
        eprintln!("interrupted; go on with `reprop train --resume {folder}`");
    }
    println!("{}", serde_json::to_string(outcome)?);
    Ok(())
}
