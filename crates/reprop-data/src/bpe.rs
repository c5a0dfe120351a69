//! Byte-level pair encoding, as `RoBERTa`'s: tokens are runs of bytes that occur often together.

use std::path::Path;

use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, TokenizerBuilder};

use crate::{Error, Result};

/// Tokens that stand for no text, in `RoBERTa`'s order: their numbers come first.
const SPECIAL: [&str; 5] = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"];
/// A pair that occurs less often becomes no token.
const LEAST_OFTEN: u64 = 2;

/// Numbers of the tokens that masked language models need beside those of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a sequence.
    pub begin: u32,
    /// Fills a sequence that is too short.
    pub padding: u32,
    /// Ends a sequence.
    pub end: u32,
    /// Stands for a token that is asked for.
    pub mask: u32,
}

/// A vocabulary of byte-level pair encoding.
///
/// ```
/// use reprop_data::Bpe;
///
/// let text = "a rose is a rose is a rose";
/// let bpe = Bpe::train(text, 264)?;
/// assert!(bpe.encode(text)?.len() < text.len());
/// assert_eq!(bpe.len(), 264);
/// # Ok::<(), reprop_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bpe {
    tokenizer: tokenizers::Tokenizer,
    special: SpecialTokens,
}

impl Bpe {
    /// A vocabulary of at most `size` tokens for this text: the special ones, the 256 bytes, and what is often together.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] if `size` has no room for every byte.
    pub fn train(text: &str, size: usize) -> Result<Self> {
        let least = SPECIAL.len() + 256;
        if size < least {
            return Err(Error::Tokens(format!(
                "a vocabulary of {size} tokens has no room for the {least} bytes and special tokens"
            )));
        }
        let byte_level = ByteLevel::new(false, true, true);
        let mut tokenizer = TokenizerBuilder::new()
            .with_model(BPE::default())
            .with_normalizer(None::<tokenizers::NormalizerWrapper>)
            .with_pre_tokenizer(Some(byte_level))
            .with_post_processor(None::<ByteLevel>)
            .with_decoder(Some(byte_level))
            .build()
            .map_err(refused)?;
        let mut trainer = BpeTrainerBuilder::new()
            .show_progress(false)
            .vocab_size(size)
            .min_frequency(LEAST_OFTEN)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .special_tokens(SPECIAL.map(|token| AddedToken::from(token, true)).to_vec())
            .build();
        tokenizer.train(&mut trainer, text.lines()).map_err(refused)?;
        Self::new(tokenizer.into())
    }

    /// The vocabulary of a `tokenizer.json`, such as `RoBERTa`'s.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] if the file cannot be read, or lacks one of the special tokens.
    pub fn load(path: &Path) -> Result<Self> {
        let tokenizer = tokenizers::Tokenizer::from_file(path);
        Self::new(tokenizer.map_err(|error| Error::Tokens(format!("{}: {error}", path.display())))?)
    }

    /// Writes the vocabulary as `tokenizer.json` has it.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let saved = self.tokenizer.save(path, false);
        saved.map_err(|error| Error::Tokens(format!("{}: {error}", path.display())))
    }

    /// The text of its `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] if it cannot be written as text.
    pub fn to_json(&self) -> Result<String> {
        self.tokenizer.to_string(false).map_err(|error| Error::Tokens(error.to_string()))
    }

    fn new(tokenizer: tokenizers::Tokenizer) -> Result<Self> {
        let number = |name: &str| {
            let found = tokenizer.token_to_id(name);
            found.ok_or_else(|| Error::Tokens(format!("the vocabulary has no token {name}")))
        };
        let special = SpecialTokens {
            begin: number("<s>")?,
            padding: number("<pad>")?,
            end: number("</s>")?,
            mask: number("<mask>")?,
        };
        Ok(Self { tokenizer, special })
    }

    /// Number of tokens.
    #[expect(clippy::len_without_is_empty, reason = "no vocabulary is empty: it has special tokens")]
    pub fn len(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// Numbers of the special tokens.
    pub fn special(&self) -> SpecialTokens {
        self.special
    }

    /// The tokens of a text, without any that begin or end it.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] if the vocabulary does not cover the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, false).map_err(refused)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of tokens.
    ///
    /// # Errors
    ///
    /// [`Error::Tokens`] if a number is not a token's.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        self.tokenizer.decode(tokens, true).map_err(refused)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` takes it")]
fn refused(error: tokenizers::Error) -> Error {
    Error::Tokens(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "The state of the union is strong. The state of the state is strong, too: naïve, 7 %.\n";

    #[test]
    fn every_text_comes_back_from_its_tokens() {
        let bpe = Bpe::train(TEXT, 275).unwrap();
        for text in [TEXT, "other words \u{1f600}\n\n  and  spaces", ""] {
            assert_eq!(bpe.decode(&bpe.encode(text).unwrap()).unwrap(), text);
        }
        assert_eq!(bpe.len(), 275);
        let special = SpecialTokens { begin: 0, padding: 1, end: 2, mask: 4 };
        assert_eq!(bpe.special(), special);
    }

    #[test]
    fn a_vocabulary_is_the_same_each_time_and_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let bpe = Bpe::train(TEXT, 275).unwrap();
        bpe.save(&path).unwrap();
        let tokens = bpe.encode(TEXT).unwrap();
        assert_eq!(Bpe::train(TEXT, 275).unwrap().encode(TEXT).unwrap(), tokens);
        assert_eq!(Bpe::load(&path).unwrap().encode(TEXT).unwrap(), tokens);
    }

    #[test]
    fn what_makes_no_vocabulary_is_refused_with_its_numbers() {
        let refused = Bpe::train(TEXT, 100).unwrap_err().to_string();
        assert!(refused.contains("100") && refused.contains("261"), "{refused}");
        let refused = Bpe::load(Path::new("there/is/no/such/file")).unwrap_err().to_string();
        assert!(refused.contains("there/is/no/such/file"), "{refused}");
    }
}
