//! The two units of training work that are compared with other libraries.

pub mod convolution;
mod random;
pub mod transformer;
