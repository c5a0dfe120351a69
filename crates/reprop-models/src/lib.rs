//! Reversible networks in their published sizes: one file a network, one constructor a size.

mod catalogue;
mod checks;
mod rev_mvit;
mod rev_roberta;
mod rev_swin;
mod rev_vit;

pub use catalogue::{Changes, ImageShape, LanguageModel, Model};
pub use rev_mvit::{RevMvit, RevMvitBlock, RevMvitConfig, RevMvitStage};
pub use rev_roberta::{RevRoberta, RevRobertaConfig};
pub use rev_swin::{RevSwin, RevSwinBlock, RevSwinConfig, RevSwinStage};
pub use rev_vit::{RevVit, RevVitBlock, RevVitConfig};
