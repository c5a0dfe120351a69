//! Reversible networks in their published sizes: one file a network, one constructor a size.

mod catalogue;
mod rev_resnet;
mod rev_vit;

pub use catalogue::{Changes, ImageShape, Model};
pub use rev_resnet::{RevResNet, RevResNetConfig, Stage};
pub use rev_vit::{RevVit, RevVitBlock, RevVitConfig};
