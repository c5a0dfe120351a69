//! Reversible networks in their published sizes: one file a network, one constructor a size.

mod catalogue;
mod char_rnn;
mod checks;
mod fit;
mod resnet;
mod rev_mvit;
mod rev_resnet;
mod rev_roberta;
mod rev_swin;
mod rev_vit;
mod vit;

pub use catalogue::{Changes, ImageShape, LanguageModel, Model};
pub use char_rnn::{CellKind, CharRnn, CharRnnConfig, CharStep, RecurrentCell, Sequences, TextTooShort};
pub use resnet::{PlainStage, ResNet};
pub use rev_mvit::{RevMvit, RevMvitBlock, RevMvitConfig, RevMvitStage};
pub use rev_resnet::{RevResNet, RevResNetConfig, Stage};
pub use rev_roberta::{RevRoberta, RevRobertaConfig};
pub use rev_swin::{RevSwin, RevSwinBlock, RevSwinConfig, RevSwinStage};
pub use rev_vit::{RevVit, RevVitBlock, RevVitConfig};
pub use vit::{Vit, VitBlock};
