//! Batches of a run: they depend on the seed and on the step alone, and are made ahead of the steps that need them.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use reprop::{MixedLabels, Side};
use reprop_data::{Ahead, Mixed, SampleShape, choose_mixture, mix, order};

use crate::failure::Failure;
use crate::images::Batch;

use super::run::Training;
use super::settings::Settings;

/// Pixels and labels of a batch, and the labels of what its samples were mixed with.
pub struct Made {
    pixels: Vec<f32>,
    labels: Vec<i32>,
    mixed: Option<(Vec<i32>, f32)>,
}

type Making = reprop_data::Result<Made>;

impl Training {
    /// The batches of these steps, made ahead of them. Files are read and decoded on all threads, images in memory on one.
    pub fn batches(&self, steps: Range<usize>) -> Ahead<Making> {
        let loaders = if self.common.settings.data == "imagenet" { self.common.threads } else { 1 };
        Ahead::new(steps, loaders, self.maker())
    }

    /// The batch of a step, for the first stage of a pipeline.
    pub fn batch(&self, step: usize) -> Result<Batch, Failure> {
        Ok(self.on_device(self.maker()(step)?).0)
    }

    /// A batch on the device, and the labels of what its samples were mixed with.
    pub fn on_device(&self, Made { pixels, labels, mixed }: Made) -> (Batch, Side) {
        let SampleShape { channels, side, .. } = self.data.train.shape();
        let batch = Batch::new(pixels, labels, channels, side, &self.common.device);
        let Some((others, weight)) = mixed else { return (batch, Side::new()) };
        let count = others.len();
        let others = Tensor::from_data(TensorData::new(others, [count]), &self.common.device.clone().inner());
        (batch, Side::new().with(MixedLabels { others, weight: f64::from(weight) }))
    }

    /// The labels of what the samples of a step's batch are mixed with, for the last stage of a pipeline, which does not see
    /// the batch.
    pub fn mixed_labels(&self, step: usize) -> Side {
        let Settings { batch, seed, ref recipe, .. } = self.common.settings;
        let mixtures = recipe.mixtures();
        let Some(mixture) = choose_mixture(&mixtures, seed, step as u64) else { return Side::new() };
        let images = &*self.data.train;
        let per_epoch = images.len().div_ceil(batch);
        let order = order(images.len(), seed, (step / per_epoch) as u64);
        let indices = order.into_iter().skip(step % per_epoch * batch).take(batch);
        let labels: Vec<i32> = indices.map(|index| images.label(index) as i32).collect();
        // Partners and weight do not depend on what is in the pictures.
        let SampleShape { channels, side, .. } = images.shape();
        let mut blank = vec![0.0; labels.len() * channels * side * side];
        let Mixed { partners, weight } = mix(mixture, &mut blank, labels.len(), side, seed, step as u64);
        let others: Vec<i32> = partners.into_iter().map(|partner| labels[partner]).collect();
        let others =
            Tensor::from_data(TensorData::new(others, [labels.len()]), &self.common.device.clone().inner());
        Side::new().with(MixedLabels { others, weight: f64::from(weight) })
    }

    fn maker(&self) -> impl Fn(usize) -> Making + Send + Sync + 'static {
        let Settings { batch, seed, ref recipe, .. } = self.common.settings;
        let per_epoch = self.data.train.len().div_ceil(batch);
        let data = Arc::clone(&self.data);
        let augmentation = recipe.augmentation(&data.mean, &data.deviation);
        let mixtures = recipe.mixtures();
        move |step| {
            let images = &*data.train;
            let epoch = (step / per_epoch) as u64;
            let order = order(images.len(), seed, epoch);
            let indices: Vec<usize> = order.into_iter().skip(step % per_epoch * batch).take(batch).collect();
            let labels: Vec<i32> = indices.iter().map(|&index| images.label(index) as i32).collect();
            let mut pixels = Vec::new();
            for index in indices {
                pixels.extend(images.training(index, &augmentation, seed, epoch)?);
            }
            let mixed = choose_mixture(&mixtures, seed, step as u64).map(|mixture| {
                let side = images.shape().side;
                let Mixed { partners, weight } =
                    mix(mixture, &mut pixels, labels.len(), side, seed, step as u64);
                (partners.into_iter().map(|partner| labels[partner]).collect(), weight)
            });
            Ok(Made { pixels, labels, mixed })
        }
    }

    /// Images of the test set as they are judged.
    pub fn test_batch(&self, indices: &[usize]) -> Result<Batch, Failure> {
        let test = &*self.data.test;
        let augmentation = self.common.settings.recipe.augmentation(&self.data.mean, &self.data.deviation);
        let mut pixels = Vec::new();
        for &index in indices {
            pixels.extend(test.evaluation(index, &augmentation)?);
        }
        let labels = indices.iter().map(|&index| test.label(index) as i32).collect();
        let SampleShape { channels, side, .. } = test.shape();
        Ok(Batch::new(pixels, labels, channels, side, &self.common.device))
    }
}
