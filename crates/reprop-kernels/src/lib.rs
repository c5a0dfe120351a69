//! CPU kernels for training deep networks: forward passes and hand-written derivatives on slices.
//!
//! - **No graph.** Each kernel is a function on `&[f32]` and `&mut [f32]`; what a derivative needs is an explicit value.
//! - **Same bits at any number of threads.** Work is cut by shape alone, every output element belongs to one task, and
//!   partial sums are added in a fixed order. Parallel loops run in rayon's current pool, so kernels nest in anybody's
//!   `join`.
//! - **No fresh memory.** Scratch and saved tensors come from a [`Workspace`] that the caller owns.
//! - **Any CPU.** Kernels are written once over a vector trait and compiled for AVX-512, AVX2 with FMA, NEON and plain
//!   arrays; the choice is a value, [`Isa`].

pub mod attention;
pub mod batch_norm;
pub mod conv;
pub mod cross_entropy;
pub mod embedding;
pub mod fuse;
pub mod gelu;
pub mod gemm;
pub mod grid;
pub mod halves;
pub mod heap;
pub mod layer_norm;
pub mod linear;
mod math;
mod memory;
pub mod merge;
pub mod mlp;
pub mod optimizer;
pub mod output;
pub mod patches;
pub mod pool;
pub mod probe;
pub mod recurrent;
pub mod relu;
mod rows;
mod share;
mod simd;
pub mod sixteen;
mod sweep;
mod tasks;
mod workspace;

pub use simd::Isa;
pub use workspace::{Buffer, Usage, Workspace};
