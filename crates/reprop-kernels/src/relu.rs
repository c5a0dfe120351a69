//! ReLU `y = max(x, 0)`; `dx = dy` where `y > 0`, else zero. The derivative needs `y` (or `x`) alone.

use crate::simd::dispatch;
use crate::sweep::sweep;

dispatch! {
    /// `y = max(x, 0)`.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn forward(s: Isa, x: &[f32], y: &mut [f32]) {
        assert_eq!(x.len(), y.len(), "lengths differ");
        sweep!(s, x.len(), i, load, store, {
            // In this order what is not a number stays: x86 takes the second operand then.
            store(s, y, i, s.max(s.zero(), load(s, x, i, 0.0)));
        });
    }
}

dispatch! {
    /// `dx` from `dy` and either `x` or `y`.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn vjp(s: Isa, y: &[f32], dy: &[f32], dx: &mut [f32]) {
        assert!(y.len() == dy.len() && y.len() == dx.len(), "lengths differ");
        sweep!(s, y.len(), i, load, store, {
            let d = s.select_gt(load(s, y, i, 0.0), s.zero(), load(s, dy, i, 0.0), s.zero());
            store(s, dx, i, d);
        });
    }
}
