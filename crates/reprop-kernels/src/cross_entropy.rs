//! Softmax cross-entropy with label smoothing, its value and its gradient in one pass.
//!
//! With `p = softmax(z)` and target `q = (1 - ε) onehot(label) + ε / C`, a row's loss is `-Σ q log p =
//! log Σ e^z - (1 - ε) z_label - ε mean(z)`, and its gradient `p - q`. The loss is the mean over the rows that count, and so
//! is the gradient. Row losses are added in `f64`, in order.

use crate::math::exp;
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::workspace::Workspace;

/// The label of a row that does not count: an unmasked token, a padded sample.
pub const IGNORE: u32 = u32::MAX;

/// The mean loss of `logits` (labels x classes); `dlogits` gets its gradient. Without a row that counts both are zero.
///
/// # Panics
/// If lengths do not fit or a label is not below `classes`.
pub fn cross_entropy(
    logits: &[f32],
    labels: &[u32],
    classes: usize,
    smoothing: f32,
    dlogits: &mut [f32],
    ws: &Workspace,
) -> f32 {
    let rows = labels.len();
    assert!(
        logits.len() == rows * classes && dlogits.len() == rows * classes,
        "logits must be {rows} x {classes}"
    );
    let bad = labels.iter().find(|&&label| label != IGNORE && label as usize >= classes);
    assert!(bad.is_none(), "label {bad:?} of {classes} classes");
    let counted = labels.iter().filter(|&&label| label != IGNORE).count();
    let mut losses = ws.take(rows);
    {
        let (losses, dlogits) = (Shared::new(&mut losses), Shared::new(dlogits));
        for_chunks(ws.isa(), rows, |_, r| {
            let span = r.start * classes..r.end * classes;
            // SAFETY: chunks do not overlap.
            let (losses, d) = unsafe { (losses.slice(r.clone()), dlogits.slice(span.clone())) };
            rows_loss(ws.isa(), &logits[span], &labels[r], smoothing, 1.0 / counted.max(1) as f32, losses, d);
        });
    }
    let sum: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
    (sum / counted.max(1) as f64) as f32
}

dispatch! {
    fn rows_loss(
        s: Isa, logits: &[f32], labels: &[u32], smoothing: f32, weight: f32, losses: &mut [f32], dlogits: &mut [f32],
    ) {
        let classes = logits.len() / labels.len().max(1);
        for (i, (&label, loss)) in labels.iter().zip(losses).enumerate() {
            let z = &logits[i * classes..(i + 1) * classes];
            let d = &mut dlogits[i * classes..(i + 1) * classes];
            if label == IGNORE {
                *loss = 0.0;
                d.fill(0.0);
                continue;
            }
            let (mut top, mut total) = (s.splat(f32::NEG_INFINITY), s.zero());
            sweep!(s, classes, j, load, store, {
                top = s.max(top, load(s, z, j, f32::NEG_INFINITY));
            });
            let top = s.top(top);
            let mut sum = s.zero();
            sweep!(s, classes, j, load, store, {
                // Relative to the largest, so that a common offset costs no accuracy.
                let shifted = s.sub(load(s, z, j, top), s.splat(top));
                total = s.add(total, shifted);
                let e = exp(s, s.sub(load(s, z, j, f32::NEG_INFINITY), s.splat(top)));
                sum = s.add(sum, e);
                store(s, d, j, e);
            });
            let (sum, mean) = (s.sum(sum), s.sum(total) / classes as f32);
            *loss = sum.ln() - (1.0 - smoothing) * (z[label as usize] - top) - smoothing * mean;
            let (scale, floor) = (s.splat(weight / sum), s.splat(-weight * smoothing / classes as f32));
            sweep!(s, classes, j, load, store, {
                let v = s.fma(load(s, d, j, 0.0), scale, floor);
                store(s, d, j, v);
            });
            d[label as usize] -= weight * (1.0 - smoothing);
        }
    }
}
