//! Random words without a generator: word `i` of a key is a hash of both.

/// What a key's words are for; two uses of one seed are then unrelated.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    /// Which samples a test split takes.
    Split,
    /// The order of an epoch.
    Order,
    /// The shift of an image.
    Shift,
    /// Crops, flips and erasing of an image.
    Augmentation,
    /// The weight of a mixture of images.
    Mixture,
    /// What is asked for in a sequence.
    Mask,
}

/// A source of words that depend on nothing but their number and this key.
#[derive(Clone, Copy)]
pub(crate) struct Key(u64);

impl Key {
    /// The key of `words` for one use.
    pub(crate) fn new(which: Use, words: &[u64]) -> Self {
        Self(words.iter().fold(mix(which as u64), |state, &word| mix(state ^ word)))
    }

    /// Word `index`.
    pub(crate) fn word(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// A number in `[0, 1)` from word `index`.
    pub(crate) fn unit(self, index: u64) -> f64 {
        (self.word(index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `bound` from word `index`: the high half of a product (Lemire, *Fast random integer generation
    /// in an interval*, 2019). Without his rejection step some numbers are likelier by `bound / 2^64`: too little to
    /// ever be seen.
    pub(crate) fn below(self, bound: usize, index: u64) -> usize {
        ((u128::from(self.word(index)) * bound as u128) >> 64) as usize
    }

    /// `0..count` in the order of this key (Fisher & Yates, as in Knuth's algorithm P).
    pub(crate) fn shuffle(self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last + 1, last as u64));
        }
        order
    }
}

/// `2^64` over the golden ratio, made odd: the step of `SplitMix64`.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// `SplitMix64` (Steele, Lea & Flood, *Fast splittable pseudorandom number generators*, 2014): its step and finaliser.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(GOLDEN);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of `SplitMix64` with seed 0, as other implementations print them.
    #[test]
    fn words_of_key_zero_are_those_of_splitmix64() {
        let words = [0, 1, 2].map(|index| Key(0).word(index));
        assert_eq!(words, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    /// Each of n cells is a binomial of mean m; chi-squared has mean n - 1 and deviation `sqrt(2 (n - 1))`. Six
    /// deviations are allowed.
    #[test]
    fn a_shuffle_puts_each_number_anywhere_alike() {
        let (count, shuffles) = (8, 20_000u64);
        let mut cells = [0u32; 64];
        for seed in 0..shuffles {
            for (place, number) in Key::new(Use::Order, &[seed]).shuffle(count).into_iter().enumerate() {
                cells[place * count + number] += 1;
            }
        }
        let expected = shuffles as f64 / count as f64;
        let chi: f64 = cells.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi < 63.0 + 6.0 * 126f64.sqrt(), "chi-squared {chi}");
    }

    #[test]
    fn uses_of_one_seed_differ() {
        let [split, order, shift] =
            [Use::Split, Use::Order, Use::Shift].map(|which| Key::new(which, &[7]).word(0));
        assert!(split != order && order != shift && shift != split);
    }
}
