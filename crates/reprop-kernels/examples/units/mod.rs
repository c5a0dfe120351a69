//! The two units of training work that are compared with other libraries.

pub mod convolution;
pub mod random;
pub mod transformer;
