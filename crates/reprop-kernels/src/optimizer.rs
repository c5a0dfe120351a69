//! Optimizers' updates, one pass over a parameter each.
//!
//! **`AdamW`**: `m = β₁ m + (1 - β₁) g`, `v = β₂ v + (1 - β₂) g²`,
//! `p = p - η (λ p + m / (1 - β₁ᵗ) / (sqrt(v / (1 - β₂ᵗ)) + ε))`.
//!
//! **SGD with Nesterov's momentum**: `g = g + λ p`, `b = μ b + g`, `p = p - η (g + μ b)`.

use crate::share::Shared;
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::tasks::for_each;
use crate::workspace::Workspace;

/// Elements of one task.
const PART: usize = 1 << 14;

/// Settings of `AdamW`.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    /// `η`.
    pub learning_rate: f32,
    /// `β₁`.
    pub beta1: f32,
    /// `β₂`.
    pub beta2: f32,
    /// `ε`.
    pub eps: f32,
    /// `λ`.
    pub weight_decay: f32,
}

/// Settings of SGD with Nesterov's momentum.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    /// `η`.
    pub learning_rate: f32,
    /// `μ`.
    pub momentum: f32,
    /// `λ`.
    pub weight_decay: f32,
}

impl AdamW {
    /// Step `step` (from one) of a parameter with moments `m` and `v`, zero at first.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn update(&self, step: u32, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32], ws: &Workspace) {
        let len = p.len();
        assert!([g.len(), m.len(), v.len()] == [len; 3], "lengths differ");
        let power = |beta: f32| 1.0 - f64::from(beta).powi(step as i32);
        let corrections = ((1.0 / power(self.beta1)) as f32, (1.0 / power(self.beta2)) as f32);
        let (p, m, v) = (Shared::new(p), Shared::new(m), Shared::new(v));
        for_each(len.div_ceil(PART), |part| {
            let span = part * PART..((part + 1) * PART).min(len);
            // SAFETY: parts do not overlap.
            let (p, m, v) = unsafe { (p.slice(span.clone()), m.slice(span.clone()), v.slice(span.clone())) };
            adamw(ws.isa(), *self, corrections, p, &g[span], m, v);
        });
    }
}

impl Sgd {
    /// A step of a parameter with momentum `b`, zero at first.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn update(&self, p: &mut [f32], g: &[f32], b: &mut [f32], ws: &Workspace) {
        let len = p.len();
        assert!([g.len(), b.len()] == [len; 2], "lengths differ");
        let (p, b) = (Shared::new(p), Shared::new(b));
        for_each(len.div_ceil(PART), |part| {
            let span = part * PART..((part + 1) * PART).min(len);
            // SAFETY: parts do not overlap.
            let (p, b) = unsafe { (p.slice(span.clone()), b.slice(span.clone())) };
            sgd(ws.isa(), *self, p, &g[span], b);
        });
    }
}

dispatch! {
    fn adamw(
        s: Isa, set: AdamW, corrections: (f32, f32), p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32],
    ) {
        let (first, second) = (s.splat(corrections.0), s.splat(corrections.1));
        let (beta1, rest1) = (s.splat(set.beta1), s.splat(1.0 - set.beta1));
        let (beta2, rest2) = (s.splat(set.beta2), s.splat(1.0 - set.beta2));
        let (keep, rate) = (s.splat(1.0 - set.learning_rate * set.weight_decay), s.splat(-set.learning_rate));
        sweep!(s, p.len(), i, load, store, {
            let g = load(s, g, i, 0.0);
            let mean = s.fma(beta1, load(s, m, i, 0.0), s.mul(rest1, g));
            let square = s.fma(beta2, load(s, v, i, 0.0), s.mul(rest2, s.mul(g, g)));
            store(s, m, i, mean);
            store(s, v, i, square);
            let spread = s.add(s.sqrt(s.mul(square, second)), s.splat(set.eps));
            let change = s.mul(rate, s.div(s.mul(mean, first), spread));
            let next = s.fma(load(s, p, i, 0.0), keep, change);
            store(s, p, i, next);
        });
    }
}

dispatch! {
    fn sgd(s: Isa, set: Sgd, p: &mut [f32], g: &[f32], b: &mut [f32]) {
        let (momentum, rate) = (s.splat(set.momentum), s.splat(-set.learning_rate));
        sweep!(s, p.len(), i, load, store, {
            let old = load(s, p, i, 0.0);
            let g = s.fma(s.splat(set.weight_decay), old, load(s, g, i, 0.0));
            let speed = s.fma(momentum, load(s, b, i, 0.0), g);
            store(s, b, i, speed);
            store(s, p, i, s.fma(rate, s.fma(momentum, speed, g), old));
        });
    }
}
