//! Images for the stages of a pipeline.

use burn::tensor::{Int, Tensor};
use reprop::Side;
use reprop_pipeline::Score;

use crate::failure::Failure;
use crate::images::{Batch, ImageNetwork, hits};

use super::super::common::Common;
use super::super::run::Training;
use super::staged::{Run, Staged};

impl Run for Training {
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
        Ok(serde_json::to_string(&self.common.settings)?)
    }

    fn samples(&self) -> usize {
        self.data.train.len()
    }

    fn costs(&self) -> Result<Option<Vec<f64>>, Failure> {
        Ok(self.common.settings.model()?.costs())
    }
}

fn of_memory(made: Result<Batch, Failure>) -> (Tensor<4>, Tensor<1, Int>) {
    let Batch { images, labels } = made.expect("a pipeline is given images in memory alone");
    (images, labels)
}

impl<const D: usize, N: ImageNetwork<D>> Staged<D, N> for Training {
    fn batch(&self, batch: u64) -> (Tensor<4>, Tensor<1, Int>) {
        of_memory(Self::batch(self, batch as usize))
    }

    /// Only the head looks at mixed labels.
    fn side(&self, batch: u64, last: bool) -> Side {
        if last { self.mixed_labels(batch as usize) } else { Side::new() }
    }

    fn test_batch(&self, position: u64) -> Option<(Tensor<4>, Tensor<1, Int>)> {
        let size = self.common.settings.batch;
        let indices: Vec<usize> =
            (0..self.data.test.len()).skip(position as usize * size).take(size).collect();
        (!indices.is_empty()).then(|| of_memory(Self::test_batch(self, &indices)))
    }

    fn test_side(&self, _: u64) -> Side {
        Side::new()
    }

    fn score(&self, output: Tensor<2>, target: Tensor<1, Int>) -> Score {
        let seen = target.dims()[0] as u64;
        Score { right: hits(output, target) as u64, seen }
    }
}
