//! `reprop verify`: every strategy's gradients against stored ones, bit for bit, and against finite differences. Where saved tensors
//! are kept in 16 bits, against those stored in four bytes, within what the format allows.

mod differences;
mod nearness;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use burn::optim::GradientsParams;
use burn::tensor::TensorData;
use reprop::{
    Arithmetic, Meter, Pass, Precision, Storage, Strategy, gradient_digest, named_gradients,
    named_parameters, parameter_count,
};
use serde::Serialize;

use crate::device;
use crate::failure::Failure;
use crate::options::{Format, Global, Numbers, VerifyOptions};
use crate::safetensors_file;
use crate::sample::{Noise, Sample, Scored, Trial, with_model};
use nearness::Farthest;

#[derive(Serialize)]
struct Verdict {
    model: String,
    parameters: usize,
    loss: f32,
    gradient_digest: String,
    strategies: Vec<StrategyVerdict>,
    /// What saved tensors are kept in, and what that allows, if it is not f32.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<Rounded>,
    /// The worst relative difference to a central difference, over all parameters.
    worst_difference: f64,
    worst_parameter: String,
    passed: bool,
}

#[derive(Serialize)]
struct StrategyVerdict {
    strategy: String,
    gradient_digest: String,
    /// Parameters whose gradients differ from stored ones in any bit.
    differing: Vec<String>,
    /// Of all parameters' gradients, the one farthest from that stored in f32, if saved tensors are rounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    farthest: Option<Farthest>,
}

impl StrategyVerdict {
    /// Whether gradients are what they should be.
    fn passes(&self) -> bool {
        match &self.farthest {
            Some(farthest) => farthest.error <= farthest.at_most,
            None => self.differing.is_empty(),
        }
    }
}

#[derive(Serialize)]
struct Rounded {
    format: String,
    at_most: f64,
}

/// Verifies, prints the verdict, and fails if there is any difference.
pub fn run(global: &Global, options: &VerifyOptions) -> Result<(), Failure> {
    let device = device::by_name(&global.device)?;
    let model = options.changes.apply_any(&options.model, options.depth)?;
    let verification = Verification {
        name: options.model.clone(),
        batch: options.batch,
        numbers: options.numbers,
        has_kinks: nearness::has_kinks(&model),
        seed: global.seed,
        dump: options.dump.as_deref(),
    };
    let verdict = with_model(&model, global.seed, &device, verification)?;
    match global.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&verdict)?),
        Format::Text => print(&verdict),
    }
    if verdict.passed {
        return Ok(());
    }
    let differing = verdict.strategies.iter().filter(|strategy| !strategy.passes());
    let differing: usize = differing.map(|strategy| strategy.differing.len()).sum();
    Err(Failure::new(format!(
        "{differing} gradients differ from stored ones; the worst difference to finite differences is {:.2e} in {}",
        verdict.worst_difference, verdict.worst_parameter
    )))
}

struct Verification<'o> {
    name: String,
    batch: usize,
    numbers: Numbers,
    has_kinks: bool,
    seed: u64,
    dump: Option<&'o Path>,
}

impl Verification<'_> {
    fn pass(&self) -> Pass {
        self.numbers.on(Pass::training(self.seed)).meter(Meter::new())
    }

    /// The pass whose gradients are right.
    fn exact(&self) -> Pass {
        self.pass().saved_in(Storage::F32)
    }

    fn dump<const D: usize, N: Scored<D>>(
        folder: &Path,
        network: &N,
        sample: &Sample<D, N>,
        logits: TensorData,
        loss: f32,
        gradients: &GradientsParams,
    ) -> Result<(), Failure> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let named = |name: &str, data| (name.to_owned(), data);
        let file = |name: &str| folder.join(format!("{name}.safetensors"));
        safetensors_file::write(&file("weights"), &named_parameters(network))?;
        safetensors_file::write(&file("gradients"), &named_gradients(network, gradients))?;
        safetensors_file::write(&file("batch"), &sample.named)?;
        let loss = TensorData::new(vec![loss], [1]);
        safetensors_file::write(&file("outputs"), &[named("logits", logits), named("loss", loss)])
    }
}

impl Trial for Verification<'_> {
    type Output = Result<Verdict, Failure>;

    fn run<const D: usize, N: Scored<D>>(self, network: N, noise: Noise<D, N>) -> Self::Output {
        let sample = &noise(self.batch);
        let step = |pass: Pass, strategy: Strategy| {
            network.step(sample.input.clone(), sample.target.clone(), pass, strategy)
        };
        let stored = step(self.exact(), Strategy::Stored)?;
        let expected = named_gradients(&network, &stored.gradients);
        let format = self.numbers.saved;
        let saved = (format != Storage::F32).then(|| Rounded {
            format: format.to_string(),
            at_most: nearness::at_most(format, self.has_kinks),
        });
        let rounded = saved.as_ref().map(|_| Strategy::Stored);
        let strategies = rounded
            .into_iter()
            .chain([Strategy::Reprop, Strategy::PaReprop])
            .map(|strategy| {
                let found = step(self.pass(), strategy)?.gradients;
                let named = named_gradients(&network, &found);
                let differing = named.iter().zip(&expected).filter(|(found, expected)| found != expected);
                let differing = differing.map(|(found, _)| found.0.clone()).collect();
                Ok(StrategyVerdict {
                    strategy: strategy.to_string(),
                    gradient_digest: gradient_digest(&network, &found),
                    differing,
                    farthest: saved.as_ref().map(|saved| Farthest::of(&named, &expected, saved.at_most)),
                })
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        if let Some(folder) = self.dump {
            let logits = stored.output.clone().into_data();
            Self::dump(folder, &network, sample, logits, stored.loss, &stored.gradients)?;
        }

        // Rounding to the grid makes the loss a staircase, so differences are taken in floating point.
        let float = || self.exact().arithmetic(Arithmetic::Float).precision(Precision::F32);
        let gradients = step(float(), Strategy::Stored)?.gradients;
        let (worst_parameter, worst_difference) = differences::worst(&network, sample, &gradients, float)?;
        let equal = strategies.iter().all(StrategyVerdict::passes);
        Ok(Verdict {
            model: self.name,
            parameters: parameter_count(&network),
            loss: stored.loss,
            gradient_digest: gradient_digest(&network, &stored.gradients),
            passed: (equal || self.numbers.float_streams) && worst_difference <= differences::TOLERANCE,
            strategies,
            saved,
            worst_difference,
            worst_parameter,
        })
    }
}

fn print(verdict: &Verdict) {
    println!("{}: {} parameters, loss {}", verdict.model, verdict.parameters, verdict.loss);
    println!("stored    {}", verdict.gradient_digest);
    if let Some(Rounded { format, at_most }) = &verdict.saved {
        println!(
            "saved tensors in {format}: gradients within {at_most} of those stored in f32, by their norms"
        );
    }
    for StrategyVerdict { strategy, gradient_digest, differing, farthest } in &verdict.strategies {
        let verdict = match (differing.as_slice(), farthest) {
            ([], _) => "equal bit for bit".to_owned(),
            (_, Some(Farthest { error, parameter, .. })) => format!("at most {error:.1e}, in {parameter}"),
            (names, None) => format!("{} gradients differ, first {}", names.len(), names[0]),
        };
        println!("{strategy:<9} {gradient_digest}  {verdict}");
    }
    println!(
        "finite differences: worst {:.2e} in {} (at most {})",
        verdict.worst_difference,
        verdict.worst_parameter,
        differences::TOLERANCE
    );
    println!("{}", if verdict.passed { "verified" } else { "NOT verified" });
}
