//! Multi-head attention.
//!
//! `S = scale Q Kᵀ + bias`, `P = softmax(S)` by rows, `O = P V`, for each sample and head. Derivatives:
//! `dV = Pᵀ dO`, `dP = dO Vᵀ`, `dS = P ∘ (dP - rowsum(P ∘ dP))`, `dQ = scale dS K`, `dK = scale dSᵀ Q`, `dbias = Σ_samples dS`.

mod block;
mod cross;
mod ends;
mod heads;
mod heads_vjp;
mod pool;
mod pooled;
mod softmax;
mod window;

pub use block::{Attention, AttentionGrads, AttentionSaved, AttentionShape};
pub use cross::{CrossAttention, CrossGrads};
pub use heads::{Keep, Masks};
pub use pool::{Pool, PoolGrads};
pub use pooled::{PooledAttention, PooledGrads, PooledSaved};
pub use window::{WindowAttention, WindowGrads, WindowSaved};
