//! Text for the stages of a pipeline.

use burn::tensor::{Int, Tensor, TensorData};
use reprop::Side;
use reprop_data::NOT_ASKED;
use reprop_models::RevRoberta;
use reprop_pipeline::Score;

use crate::failure::Failure;
use crate::images::hits;

use super::super::common::Common;
use super::super::text::{Batch, TextRun};
use super::staged::{Run, Staged};

impl Run for TextRun {
    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn prepare(&self) -> Result<(), Failure> {
        Self::prepare(self)
    }

    fn definition(&self) -> Result<String, Failure> {
        Ok(format!("{} {}", serde_json::to_string(&self.settings())?, self.bpe.to_json()?))
    }

    fn samples(&self) -> usize {
        self.split.train.len()
    }

    fn costs(&self) -> Result<Option<Vec<f64>>, Failure> {
        Ok(Some(self.model()?.costs().into_iter().map(|cost| cost as f64).collect()))
    }
}

impl Staged<3, RevRoberta> for TextRun {
    fn batch(&self, batch: u64) -> (Tensor<2, Int>, Tensor<2, Int>) {
        let Batch { tokens, targets, .. } = self.training_batch(batch as usize);
        (tokens, targets)
    }

    /// Attention anywhere must not look at padding.
    fn side(&self, batch: u64, _: bool) -> Side {
        Side::new().with(self.training_padding(batch as usize))
    }

    fn test_batch(&self, position: u64) -> Option<(Tensor<2, Int>, Tensor<2, Int>)> {
        let Batch { tokens, targets, .. } = self.testing_batch(position as usize)?;
        Some((tokens, targets))
    }

    fn test_side(&self, position: u64) -> Side {
        self.testing_padding(position as usize).map_or_else(Side::new, |padding| Side::new().with(padding))
    }

    fn score(&self, output: Tensor<2>, target: Tensor<2, Int>) -> Score {
        let target: Vec<i64> = target.into_data().iter().collect();
        let places = (0..).zip(&target).filter(|&(_, &token)| token != NOT_ASKED);
        let (places, asked): (Vec<i64>, Vec<i64>) = places.unzip();
        let (count, device) = (asked.len(), output.device());
        let numbers = |numbers| Tensor::<1, Int>::from_data(TensorData::new(numbers, [count]), &device);
        // A step has scores of the tokens asked for alone, a test of all.
        let scores = if output.dims()[0] == count { output } else { output.select(0, numbers(places)) };
        Score { right: hits(scores, numbers(asked)) as u64, seen: count as u64 }
    }
}
