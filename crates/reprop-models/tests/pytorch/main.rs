//! Networks against PyTorch: loss, logits and every parameter's gradient, from values that scripts in `oracle` wrote.
//!
//! PyTorch computed them in float64 with stored activations; here they come in `f32`, with float streams and on the
//! default grid, under each strategy. Streams begin unequal wherever that can be, so that no mistake between the streams
//! can cancel.

mod common;
mod rev_mvit;
mod rev_roberta;
mod rev_swin;
mod rev_vit;
