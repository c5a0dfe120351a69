//! Networks for the images of a data set.

use crate::{Changes, ImageShape, Model};

impl Model {
    /// The changes by which this network takes the images of a data set. Images far smaller than those of the published
    /// sizes are cut into smaller patches: of 32 pixels, `ViT` makes 8x8 tokens and networks of stages begin with 16x16.
    ///
    /// ```
    /// use reprop_models::{ImageShape, Model};
    ///
    /// let cifar10 = ImageShape { channels: 3, side: 32, classes: 10 };
    /// let model = Model::by_name("rev-swin-t").unwrap();
    /// let model = model.clone().change(&model.fit(cifar10));
    /// assert_eq!(model.images(), cifar10);
    /// assert_eq!(model.check(), Ok(()));
    /// ```
    pub fn fit(&self, data: ImageShape) -> Changes {
        let ImageShape { channels, side, classes } = data;
        let patch = if side == self.images().side { None } else { self.patch(side) };
        Changes {
            image: Some(side),
            channels: Some(channels),
            classes: Some(classes),
            patch,
            ..Changes::default()
        }
    }

    /// Another patch than the published one, for small images.
    fn patch(&self, side: usize) -> Option<usize> {
        let patch = match side {
            0..=16 => 2,
            17..=64 => 4,
            _ => return None,
        };
        match self {
            Self::RevVit(_) | Self::Vit(_) => Some(patch),
            Self::RevSwin(_) | Self::RevMvit(_) => Some(patch / 2),
            Self::RevResNet(_) | Self::ResNet(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_can_take_the_images_of_every_data_set() {
        let shapes = [(1, 8, 10), (3, 32, 10), (3, 32, 1000), (3, 224, 1000)];
        for (name, (channels, side, classes)) in
            Model::names().flat_map(|name| shapes.map(|shape| (name, shape)))
        {
            let data = ImageShape { channels, side, classes };
            let model = Model::by_name(name).unwrap();
            let fitted = model.clone().change(&model.fit(data));
            assert_eq!(fitted.images(), data, "{name}");
            assert_eq!(fitted.check(), Ok(()), "{name} for {data:?}");
        }
    }

    #[test]
    fn images_of_the_published_size_change_no_patch() {
        let model = Model::by_name("rev-vit-digits").unwrap();
        assert_eq!(model.fit(ImageShape { channels: 1, side: 8, classes: 10 }).patch, None);
        assert_eq!(model.fit(ImageShape { channels: 3, side: 32, classes: 10 }).patch, Some(4));
    }
}
