//! Text for masked language models: sequences with tokens to be asked for, drawn anew in each epoch.
//!
//! Of the tokens asked for, eight in ten are replaced by a mask, one by another token, and one stays (Devlin et al.,
//! *BERT*, 2019); which ones depends on the seed, the epoch and the sequence alone (dynamic masking as in Liu et al.,
//! *`RoBERTa`*, 2019, with no generator).

use crate::random::{Key, Use};
use crate::{Bpe, Error, Result, SpecialTokens};

/// The part of a sequence that is asked for.
const ASKED: f64 = 0.15;
/// The target of a token that is not asked for.
pub const NOT_ASKED: i64 = -100;

/// A text cut into sequences, one after the other.
#[derive(Clone, Debug)]
pub struct MaskedText {
    tokens: Vec<u32>,
    length: usize,
    vocabulary: usize,
    special: SpecialTokens,
}

/// One sequence as a network sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedSequence {
    /// What it is given.
    pub tokens: Vec<i64>,
    /// What it is asked for, [`NOT_ASKED`] elsewhere.
    pub targets: Vec<i64>,
}

impl MaskedText {
    /// Sequences of `length` places, with a token that begins and one that ends each. The last may be padded.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] if no place is left for text, or there is less text than one sequence holds.
    pub fn new(tokens: Vec<u32>, length: usize, bpe: &Bpe) -> Result<Self> {
        if length < 3 {
            return Err(Error::Tokens(format!(
                "a sequence of {length} places has none for text beside the tokens that begin and end it"
            )));
        }
        if tokens.len() < length - 2 {
            let found = tokens.len();
            return Err(Error::Tokens(format!(
                "the text has {found} tokens, fewer than the {} of one sequence of {length} places",
                length - 2
            )));
        }
        Ok(Self { tokens, length, vocabulary: bpe.len(), special: bpe.special() })
    }

    /// Number of sequences.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one sequence")]
    pub fn len(&self) -> usize {
        self.tokens.len().div_ceil(self.length - 2)
    }

    /// Sequence `index` with the masks of an epoch.
    ///
    /// # Panics
    ///
    /// Panics if there is no such sequence.
    pub fn sequence(&self, index: usize, seed: u64, epoch: u64) -> MaskedSequence {
        let text = self.text(index);
        let SpecialTokens { begin, padding, end, mask } = self.special;
        let key = Key::new(Use::Mask, &[seed, epoch, index as u64]);
        let filled = text.len() + 2;
        let asked = ((ASKED * filled as f64).round() as usize).clamp(1, text.len());

        let mut tokens: Vec<i64> = vec![i64::from(padding); self.length];
        tokens[0] = i64::from(begin);
        tokens[filled - 1] = i64::from(end);
        tokens[1..filled - 1].iter_mut().zip(text).for_each(|(place, &token)| *place = i64::from(token));
        let mut targets = vec![NOT_ASKED; self.length];
        for (turn, place) in key.shuffle(text.len()).into_iter().take(asked).enumerate() {
            let place = place + 1;
            targets[place] = tokens[place];
            // Words that the shuffle did not use.
            let draw = |which: u64, bound| key.below(bound, (2 * turn as u64 + which) | (1 << 32));
            tokens[place] = match draw(0, 10) {
                0..8 => i64::from(mask),
                8 => draw(1, self.vocabulary) as i64,
                _ => tokens[place],
            };
        }
        MaskedSequence { tokens, targets }
    }

    /// Which places of sequence `index` are padding, in every epoch.
    ///
    /// # Panics
    ///
    /// Panics if there is no such sequence.
    pub fn padding(&self, index: usize) -> Vec<bool> {
        let filled = self.text(index).len() + 2;
        (0..self.length).map(|place| place >= filled).collect()
    }

    fn text(&self, index: usize) -> &[u32] {
        let room = self.length - 2;
        &self.tokens[index * room..((index + 1) * room).min(self.tokens.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tokens: usize, length: usize) -> MaskedText {
        let bpe = Bpe::train("some words", 261).unwrap();
        MaskedText::new((0..tokens).map(|token| (5 + token % 256) as u32).collect(), length, &bpe).unwrap()
    }

    #[test]
    fn eight_in_ten_are_masked_one_is_another_and_one_stays() {
        let text = text(98 * 200, 100);
        let (mut masked, mut other, mut same) = (0, 0, 0);
        for index in 0..text.len() {
            let MaskedSequence { tokens, targets } = text.sequence(index, 1, 2);
            assert_eq!(targets.iter().filter(|&&target| target != NOT_ASKED).count(), 15);
            assert!(text.padding(index).iter().all(|padding| !padding));
            for (place, (token, target)) in tokens.into_iter().zip(targets).enumerate() {
                let truth = match place {
                    0 => 0,
                    99 => 2,
                    place => (5 + (index * 98 + place - 1) % 256) as i64,
                };
                match target {
                    NOT_ASKED => assert_eq!(token, truth),
                    target => {
                        assert_eq!(target, truth);
                        if token == 4 {
                            masked += 1;
                        } else if token == truth {
                            same += 1;
                        } else {
                            other += 1;
                        }
                    }
                }
            }
        }
        // 3000 draws: deviations of at most 22; six are allowed.
        for (found, expected) in [(masked, 2400_i32), (other, 300), (same, 300)] {
            assert!((found - expected).abs() < 132, "{masked} {other} {same}");
        }
    }

    #[test]
    fn masks_depend_on_seed_epoch_and_sequence_alone() {
        let text = text(50, 12);
        let sequence = |index, seed, epoch| text.sequence(index, seed, epoch).targets;
        assert_eq!(sequence(1, 2, 3), sequence(1, 2, 3));
        assert_ne!(sequence(1, 2, 3), sequence(1, 2, 4));
        assert_ne!(sequence(1, 2, 3), sequence(1, 3, 3));
    }

    #[test]
    fn the_last_sequence_is_padded_and_nothing_is_asked_there() {
        let text = text(23, 12);
        assert_eq!(text.len(), 3);
        let MaskedSequence { tokens, targets } = text.sequence(2, 0, 0);
        assert_eq!(text.padding(2), [[false; 5].as_slice(), &[true; 7]].concat());
        assert_eq!((tokens[0], tokens[4], &tokens[5..]), (0, 2, [1; 7].as_slice()));
        assert_eq!(targets.iter().filter(|&&target| target != NOT_ASKED).count(), 1);
        assert!(targets[4..].iter().all(|&target| target == NOT_ASKED));
    }

    #[test]
    fn a_text_shorter_than_a_sequence_is_refused_with_its_numbers() {
        let bpe = Bpe::train("some words", 261).unwrap();
        let refused = MaskedText::new(vec![5; 7], 12, &bpe).unwrap_err().to_string();
        assert!(refused.contains('7') && refused.contains("10"), "{refused}");
        assert!(MaskedText::new(vec![5; 7], 2, &bpe).is_err());
    }
}
