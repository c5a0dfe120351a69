//! GELU `y = x Φ(x)` and its derivative `dx = dy (Φ(x) + x φ(x))`, by the `math` module.

use crate::simd::dispatch;
use crate::sweep::sweep;

dispatch! {
    /// `y = gelu(x)`.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn forward(s: Isa, x: &[f32], y: &mut [f32]) {
        assert_eq!(x.len(), y.len(), "lengths differ");
        sweep!(s, x.len(), i, load, store, {
            store(s, y, i, crate::math::gelu(s, load(s, x, i, 0.0)));
        });
    }
}

dispatch! {
    /// `dx = dy gelu'(x)`.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn vjp(s: Isa, x: &[f32], dy: &[f32], dx: &mut [f32]) {
        assert!(x.len() == dy.len() && x.len() == dx.len(), "lengths differ");
        sweep!(s, x.len(), i, load, store, {
            let (_, slope) = crate::math::gelu_both(s, load(s, x, i, 0.0));
            store(s, dx, i, s.mul(slope, load(s, dy, i, 0.0)));
        });
    }
}

dispatch! {
    /// In place: `dy` becomes `dy gelu'(x)` and `x` becomes `gelu(x)`, at the price of one exponential.
    pub(crate) fn vjp_in_place(s: Isa, x: &mut [f32], dy: &mut [f32]) {
        assert_eq!(x.len(), dy.len(), "lengths differ");
        sweep!(s, x.len(), i, load, store, {
            let (value, slope) = crate::math::gelu_both(s, load(s, x, i, 0.0));
            store(s, x, i, value);
            let d = s.mul(slope, load(s, dy, i, 0.0));
            store(s, dy, i, d);
        });
    }
}

dispatch! {
    /// `x` becomes `gelu(x)`.
    pub(crate) fn in_place(s: Isa, x: &mut [f32]) {
        sweep!(s, x.len(), i, load, store, {
            let y = crate::math::gelu(s, load(s, x, i, 0.0));
            store(s, x, i, y);
        });
    }
}
