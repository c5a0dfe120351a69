//! Sub-blocks with hand-written derivatives, written in Burn's operations: they run on any device, keep no graph, and
//! know their bytes beforehand.

mod attention;
mod classifier;
mod conv;
mod cross_entropy;
mod fuse;
mod heads;
mod initial;
mod language;
mod linear;
mod max_pool;
mod merge;
mod mlp;
mod norm;
mod patches;
mod pool_classifier;
mod pooled;
mod projections;
mod ways;
mod widen;
mod window;

pub use attention::{Attention, AttentionConfig};
pub use classifier::{Classifier, ClassifierConfig};
pub use conv::{
    BatchNorm, ConvBranch, ConvBranchConfig, ConvNorm, ConvStem, ConvStemConfig, Convolution,
    ConvolutionConfig, Downsample, DownsampleConfig, PlainDownsample,
};
pub use fuse::Fuse;
pub use initial::Initial;
pub use language::{Language, LanguageConfig, NOT_ASKED};
pub use merge::{Merge, MergeConfig};
pub use mlp::{Mlp, MlpConfig};
pub use patches::{Patches, PatchesConfig};
pub use pool_classifier::{PoolClassifier, PoolClassifierConfig};
pub use pooled::{Pool, PooledAttention, PooledAttentionConfig};
pub use widen::{Widen, WidenConfig};
pub use window::{WindowAttention, WindowAttentionConfig};

/// Sites of the masks inside a sub-block.
mod site {
    /// Elements of the sub-block's output.
    pub const OUTPUT: u64 = 0;
    /// Whole samples of the sub-block's output.
    pub const PATH: u64 = 1;
}
