//! Where the tokens of windows are.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::layers::heads::HIDDEN;

/// Square windows of a square image.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Tokens along a side of the image.
    pub side: usize,
    /// Tokens along a side of a window.
    pub window: usize,
    /// Tokens by which the image is rolled before it is cut.
    pub shift: usize,
}

impl Windows {
    /// Windows along a side.
    fn across(self) -> usize {
        self.side / self.window
    }

    /// `[batch, side * side, d] -> [batch * windows, window * window, d]`
    pub fn gather(self, x: Tensor<3>) -> Tensor<3> {
        let Self { side, window, shift } = self;
        let [batch, _, width] = x.dims();
        let shift = -(shift as isize);
        let image: Tensor<4> = x.reshape([batch, side, side, width]).roll(&[shift, shift], &[1, 2]);
        let cut: Tensor<6> = image.reshape([batch, self.across(), window, self.across(), window, width]);
        cut.swap_dims(2, 3).reshape([batch * self.across().pow(2), window * window, width])
    }

    /// The inverse of [`Self::gather`].
    pub fn scatter(self, windows: Tensor<3>) -> Tensor<3> {
        let Self { side, window, shift } = self;
        let [count, _, width] = windows.dims();
        let batch = count / self.across().pow(2);
        let cut: Tensor<6> = windows.reshape([batch, self.across(), self.across(), window, window, width]);
        let image: Tensor<4> = cut.swap_dims(2, 3).reshape([batch, side, side, width]);
        image.roll(&[shift, shift], &[1, 2]).reshape([batch, side * side, width])
    }

    /// The number of the relative position of each query and key of a window, `[tokens * tokens]`.
    pub fn relative(self, device: &Device) -> Tensor<1, Int> {
        let side = self.window;
        let tokens = side * side;
        let pair = |pair: usize| {
            let (i, j) = (pair / tokens, pair % tokens);
            let (y, x) = (i / side + side - 1 - j / side, i % side + side - 1 - j % side);
            (y * (2 * side - 1) + x) as i64
        };
        let numbers: Vec<i64> = (0..tokens * tokens).map(pair).collect();
        Tensor::from_data(TensorData::new(numbers, [tokens * tokens]), device)
    }

    /// What is added to the scores of each window, `[windows, tokens, tokens]`: tokens that only the roll made neighbours
    /// do not see each other.
    pub fn hidden(self, device: &Device) -> Option<Tensor<3>> {
        let Self { side, window, shift } = self;
        if shift == 0 {
            return None;
        }
        let (tokens, count) = (window * window, self.across().pow(2));
        // A rolled row or column came from before the wrap, or from after it.
        let wrapped = |n: usize| n >= side - shift;
        let region = |at: usize, token: usize| {
            let (y, x) =
                (at / self.across() * window + token / window, at % self.across() * window + token % window);
            (wrapped(y), wrapped(x))
        };
        let score = |index: usize| {
            let (at, i, j) = (index / (tokens * tokens), index / tokens % tokens, index % tokens);
            if region(at, i) == region(at, j) { 0.0 } else { HIDDEN }
        };
        let scores: Vec<f32> = (0..count * tokens * tokens).map(score).collect();
        Some(Tensor::from_data(TensorData::new(scores, [count, tokens, tokens]), device))
    }
}
