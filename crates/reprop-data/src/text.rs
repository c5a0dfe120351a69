//! Texts as symbols.

use std::path::Path;

use crate::{Error, Result};

/// A text, its bytes numbered in the order of their codes.
///
/// ```
/// use reprop_data::Text;
///
/// let text = Text::new(b"abracadabra")?;
/// assert_eq!(text.symbols, b"abcdr");
/// assert_eq!(text.tokens[..4], [0, 1, 4, 0]);
/// # Ok::<(), reprop_data::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The bytes that occur; a token is a place in this list.
    pub symbols: Vec<u8>,
    /// The text, one token a byte.
    pub tokens: Vec<u32>,
}

/// A text's beginning to learn from, and its end to be judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSplit<'t> {
    /// What a network learns from.
    pub train: &'t [u32],
    /// What it is judged by.
    pub test: &'t [u32],
}

/// One part in so many is for testing.
const TEST_SHARE: usize = 10;

impl Text {
    /// The text of these bytes.
    ///
    /// # Errors
    ///
    /// [`Error::ShortText`] for fewer than two bytes: there is no next one to tell.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.len() < 2 {
            return Err(Error::ShortText { bytes: bytes.len() });
        }
        let mut place = [None; 256];
        for &byte in bytes {
            place[usize::from(byte)] = Some(0);
        }
        let symbols: Vec<u8> = (0..=255).filter(|&byte| place[usize::from(byte)].is_some()).collect();
        for (token, &byte) in symbols.iter().enumerate() {
            place[usize::from(byte)] = Some(token as u32);
        }
        let tokens = bytes.iter().filter_map(|&byte| place[usize::from(byte)]).collect();
        Ok(Self { symbols, tokens })
    }

    /// The text of a file.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if the file cannot be read, [`Error::ShortText`] if there is next to nothing in it.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)
            .map_err(|error| Error::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
        Self::new(&bytes)
    }

    /// The first nine tenths to learn from, the rest to be judged by.
    pub fn split(&self) -> TextSplit<'_> {
        let test = (self.tokens.len() / TEST_SHARE).max(1);
        let (train, test) = self.tokens.split_at(self.tokens.len() - test);
        TextSplit { train, test }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stand_for_the_bytes_of_the_text() {
        let bytes = [7, 255, 0, 7, 13];
        let text = Text::new(&bytes).unwrap();
        let again: Vec<u8> = text.tokens.iter().map(|&token| text.symbols[token as usize]).collect();
        assert_eq!(again, bytes);
        assert_eq!(text.symbols, [0, 7, 13, 255]);
    }

    #[test]
    fn too_little_text_is_refused_with_its_size() {
        assert_eq!(Text::new(b"a"), Err(Error::ShortText { bytes: 1 }));
        let error = Text::read(Path::new("there/is/no/such/file")).unwrap_err();
        assert!(error.to_string().contains("there/is/no/such/file"), "{error}");
    }
}
