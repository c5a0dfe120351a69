//! Reversible networks in their published sizes: one file a network, one constructor a size.

mod rev_vit;

pub use rev_vit::{RevVit, RevVitBlock, RevVitConfig};
