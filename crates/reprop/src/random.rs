//! Randomness that can be replayed: a mask depends on its key and on nothing else.
//!
//! A block that is run a second time, on another thread, after anything else drew random numbers, must see the
//! masks of its first run. So no generator with a state is used: the bits of element `i` are a keyed permutation
//! of the number `i`. The permutation is a Philox network (Salmon et al., *Parallel random numbers: as easy as
//! 1, 2, 3*, 2011) on two halves of 16 bits, so that every product stays below `2^31` and the same integer
//! arithmetic runs on any device without overflow.

use burn::tensor::{Device, Int, Tensor, TensorData};
use rayon::prelude::*;

/// Rounds of the permutation. Philox passes its authors' statistical tests from seven on; ten is their default.
const ROUNDS: usize = 10;
/// Odd, so that multiplication permutes 16-bit numbers, and below `2^15`, so that products stay below `2^31`.
const MULTIPLIER: u32 = 0x6a2d;
/// Bits of a uniform number; `f32` holds that many exactly.
const UNIFORM_BITS: u32 = 24;
/// Elements that one task fills: fixed, though the bits would not depend on it.
const CHUNK: usize = 1 << 14;

/// The key of one random tensor: which run, which step, which forward, which block, which place inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The run's seed.
    pub seed: u64,
    /// The optimizer step.
    pub step: u64,
    /// Which of several forwards of one step.
    pub call: u64,
    /// The block's place in the network.
    pub block: u64,
    /// The place inside the block.
    pub site: u64,
}

impl Key {
    /// The permutation of this key.
    pub(crate) fn permutation(&self) -> Permutation {
        let mut state = 0;
        for word in [self.seed, self.step, self.call, self.block, self.site] {
            state = mix(state ^ word);
        }
        Permutation(std::array::from_fn(|round| (mix(state.wrapping_add(round as u64)) & 0xffff) as u32))
    }

    /// A mask of `shape` that is 0 with probability `rate` and `1 / (1 - rate)` otherwise.
    ///
    /// On the CPU it is filled in one pass; on other devices it is computed there from integer operations. Both
    /// give the same bits.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use reprop::Key;
    ///
    /// let key = Key { seed: 7, step: 0, call: 0, block: 3, site: 1 };
    /// let mask = key.keep_mask([2, 5], 0.5, &Device::flex());
    /// let again = key.keep_mask([2, 5], 0.5, &Device::flex());
    /// assert_eq!(mask.to_data(), again.to_data());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not in `[0, 1)`, or if the shape has `2^32` elements or more.
    pub fn keep_mask<const D: usize>(&self, shape: [usize; D], rate: f64, device: &Device) -> Tensor<D> {
        assert!((0.0..1.0).contains(&rate), "the rate of a mask must be in [0, 1), found {rate}");
        let elements: usize = shape.iter().product();
        assert!(u32::try_from(elements).is_ok(), "a mask has at most 2^32 - 1 elements, found {elements}");
        let threshold = (rate * f64::from(1u32 << UNIFORM_BITS)).ceil() as u32;
        let scale = (1.0 / (1.0 - rate)) as f32;
        if *device == Device::flex() {
            self.fill_mask(shape, elements, threshold, scale, device)
        } else {
            self.compute_mask(elements, threshold, scale, device).reshape(shape)
        }
    }

    /// The mask in one pass over memory, for the CPU.
    fn fill_mask<const D: usize>(
        &self,
        shape: [usize; D],
        elements: usize,
        threshold: u32,
        scale: f32,
        device: &Device,
    ) -> Tensor<D> {
        let permutation = self.permutation();
        let mut values = vec![0.0; elements];
        values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
            for (offset, value) in values.iter_mut().enumerate() {
                let bits = permutation.bits((chunk * CHUNK + offset) as u32);
                *value = if bits < threshold { 0.0 } else { scale };
            }
        });
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// The mask from integer operations, for devices whose memory the host cannot write.
    fn compute_mask(&self, elements: usize, threshold: u32, scale: f32, device: &Device) -> Tensor<1> {
        let index = Tensor::<1, Int>::arange(0..elements as i64, device);
        let mut left = index.clone().bitwise_right_shift_scalar(16);
        let mut right = index.bitwise_and_scalar(0xffff);
        for key in self.permutation().0 {
            let product = left.mul_scalar(MULTIPLIER);
            left = product.clone().bitwise_right_shift_scalar(16).bitwise_xor(right).bitwise_xor_scalar(key);
            right = product.bitwise_and_scalar(0xffff);
        }
        let bits = left.bitwise_left_shift_scalar(8).bitwise_or(right.bitwise_right_shift_scalar(8));
        bits.greater_equal_scalar(threshold).float().mul_scalar(scale)
    }
}

/// A keyed permutation of numbers: the 16-bit keys of its rounds.
pub(crate) struct Permutation([u32; ROUNDS]);

impl Permutation {
    /// Random bits of element `index`, uniform over 24 bits.
    fn bits(&self, index: u32) -> u32 {
        let (mut left, mut right) = (index >> 16, index & 0xffff);
        for key in self.0 {
            let product = left * MULTIPLIER;
            (left, right) = ((product >> 16) ^ right ^ key, product & 0xffff);
        }
        (left << 8) | (right >> 8)
    }

    /// A number in `[0, 1)`, a multiple of `2^-24`.
    pub(crate) fn uniform(&self, index: u32) -> f32 {
        self.bits(index) as f32 / (1u32 << UNIFORM_BITS) as f32
    }
}

/// The finaliser of `SplitMix64` (Steele, Lea & Flood, 2014): a bijection in which each input bit moves half of the
/// output's.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { seed: 1, step: 2, call: 3, block: 4, site: 5 };

    #[test]
    fn both_ways_to_make_a_mask_give_the_same_bits() {
        let device = Device::flex();
        for (elements, rate) in [(1, 0.1), (1000, 0.5), (70_000, 0.25)] {
            let threshold = (rate * f64::from(1u32 << UNIFORM_BITS)).ceil() as u32;
            let filled = KEY.fill_mask([elements], elements, threshold, 1.25, &device);
            let computed = KEY.compute_mask(elements, threshold, 1.25, &device);
            assert_eq!(filled.to_data(), computed.to_data());
        }
    }

    /// Chi-squared over 256 cells has mean 255 and deviation `sqrt(510) = 22.6`; six deviations are allowed.
    #[test]
    fn bits_are_uniform_in_their_high_and_low_bytes() {
        let permutation = KEY.permutation();
        let draws = 1 << 18;
        for shift in [0, 8, 16] {
            let mut cells = [0u32; 256];
            for index in 0..draws {
                cells[(permutation.bits(index) >> shift & 0xff) as usize] += 1;
            }
            let expected = f64::from(draws) / 256.0;
            let chi: f64 = cells.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
            assert!((chi - 255.0).abs() < 6.0 * 22.6, "shift {shift}: chi-squared {chi}");
        }
    }

    /// Correlation of n independent pairs has deviation `1/sqrt(n)`; five deviations are allowed.
    #[test]
    fn masks_of_neighbouring_elements_keys_and_blocks_are_uncorrelated() {
        let draws = 1u32 << 17;
        let uniform = |key: Key, index: u32| f64::from(key.permutation().uniform(index)) - 0.5;
        let neighbours = [
            |i: u32| (KEY, i + 1),
            |i: u32| (Key { step: KEY.step + 1, ..KEY }, i),
            |i: u32| (Key { call: KEY.call + 1, ..KEY }, i),
            |i: u32| (Key { block: KEY.block + 1, ..KEY }, i),
            |i: u32| (Key { site: KEY.site + 1, ..KEY }, i),
        ];
        for (which, neighbour) in neighbours.iter().enumerate() {
            let sum: f64 = (0..draws)
                .map(|i| {
                    let (key, j) = neighbour(i);
                    uniform(KEY, i) * uniform(key, j)
                })
                .sum();
            let correlation = 12.0 * sum / f64::from(draws);
            assert!(correlation.abs() < 5.0 / f64::from(draws).sqrt(), "pair {which}: {correlation}");
        }
    }

    #[test]
    fn a_mask_drops_its_rate_and_keeps_its_mean() {
        let mask = KEY.keep_mask([100_000], 0.3, &Device::flex());
        let mean = mask.mean().into_scalar::<f32>();
        // Deviation of the mean: sqrt(rate / (1 - rate) / n) = 0.0021.
        assert!((mean - 1.0).abs() < 5.0 * 0.0021, "{mean}");
    }
}
