//! The loss's scale in runs whose precision needs one.

use std::path::Path;

use burn::module::Module;
use burn::optim::GradientsParams;
use reprop::{LossScale, Pass, Precision};

use super::record;
use crate::failure::Failure;

/// The scale, where there is one.
pub struct Scaled(Option<LossScale>);

impl Scaled {
    /// Fresh, or that of the record in `run`.
    pub fn begin(run: &Path, precision: Precision) -> Result<Self, Failure> {
        let recorded = if record::exists(run) { record::load_scale(run)? } else { None };
        Ok(Self(recorded.or(LossScale::of(precision))))
    }

    /// The scale of the next step, for a record.
    pub fn scale(&self) -> Option<LossScale> {
        self.0
    }

    /// `pass` with the scale on its loss.
    pub fn on(&self, pass: Pass) -> Pass {
        match &self.0 {
            Some(scale) => pass.loss_weight(scale.factor()),
            None => pass,
        }
    }

    /// Gradients without the scale, or nothing if the step must be left out.
    pub fn off<M: Module>(&mut self, network: &M, gradients: GradientsParams) -> Option<GradientsParams> {
        match &mut self.0 {
            Some(scale) => scale.unscale(network, gradients),
            None => Some(gradients),
        }
    }
}
