//! Published sizes of networks, and settings that make none.

mod rev_swin;
