//! The perceptron's derivative, after a forward that saved, or with the forward in one.

use std::ops::Range;

use super::{AHEAD, Mlp, MlpGrads, MlpSaved, hidden_len};
use crate::gelu;
use crate::gemm::{Init, Mat, PackedWeight, Product, Target, Weight, run_all};
use crate::grid::GridOverflow;
use crate::layer_norm::{back, finish, normalize, partials, reapply};
use crate::linear::{by_columns, distance, rows_times_packed};
use crate::output::{Base, Output, Sink};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::workspace::{Buffer, Workspace};

/// Where one task's output goes that is still to be made.
type Place<'s, 'o> = Option<(&'s Sink<'o>, Range<usize>)>;

impl Mlp<'_> {
    /// Gradients from `dy`: `dx = base + …`, parameters' overwritten.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        saved: MlpSaved,
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        grads: MlpGrads,
        ws: &Workspace,
    ) {
        self.derive(x, saved, None, (dy, dx, base), grads, ws);
    }

    /// `f(x)` and the gradients from `dy` in one, as a block wants them that is reversed: rows go forward and back while they are in
    /// a core's cache, and GELU's exponentials are taken once. The bits are those of [`Self::forward_saving`] and [`Self::vjp`].
    ///
    /// # Errors
    /// If an output on a grid leaves its range; everything is written all the same.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn reverse(
        &self,
        x: &[f32],
        output: &mut Output,
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        grads: MlpGrads,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        let mut saved = MlpSaved::new(self.rows(x), self.fc1.outputs(), ws);
        if let Weight::Fresh(_) = self.fc1 {
            // Few rows: each product is a phase of its own in any case.
            let inside = self.run(x, output, Some(&mut saved), ws);
            self.derive(x, saved, None, (dy, dx, base), grads, ws);
            return inside;
        }
        let sink = Sink::new(output, x.len());
        self.derive(x, saved, Some(&sink), (dy, dx, base), grads, ws);
        sink.finish()
    }

    /// Gradients; with a place for the output, what `saved` holds is made first, and the output on the way.
    fn derive(
        &self,
        x: &[f32],
        saved: MlpSaved,
        sink: Option<&Sink>,
        (dy, dx, base): (&[f32], &mut [f32], Base),
        grads: MlpGrads,
        ws: &Workspace,
    ) {
        let (rows, width, hidden) = (self.rows(x), self.norm.width(), self.fc1.outputs());
        let far = distance(hidden);
        assert!(dy.len() == x.len() && dx.len() == x.len(), "dy and dx must be {rows} x {width}");
        let MlpSaved { mut stats, mut u } = saved;
        let (mut n, mut du) = (ws.take(rows * width), ws.take(hidden_len(rows, hidden)));
        let mut sums = partials(ws, rows, width);
        let dn = match (self.fc1, self.fc2) {
            (Weight::Fresh(fc1), Weight::Fresh(fc2)) => {
                Some(self.back_by_columns((fc1, fc2), dy, &mut u, &mut du, ws))
            }
            _ => None,
        };
        {
            let (n, u, du) = (Shared::new(&mut n), Shared::new(&mut u), Shared::new(&mut du));
            let (dx, sums, stats) = (Shared::new(dx), Shared::new(&mut sums), Shared::new(&mut stats));
            for_chunks(ws.isa(), rows, |i, r| {
                let (span, wide) = (r.start * width..r.end * width, r.start * far..r.end * far);
                // SAFETY: chunks do not overlap; each has its own sums.
                let (n, stats, dx, sums) = unsafe {
                    let sums = sums.slice(2 * width * i..2 * width * (i + 1));
                    (n.slice(span.clone()), stats.slice(2 * r.start..2 * r.end), dx.slice(span.clone()), sums)
                };
                let x = &x[span.clone()];
                if sink.is_some() {
                    normalize(ws.isa(), self.norm, x, n, stats);
                } else {
                    reapply(ws.isa(), self.norm, x, n, stats);
                }
                let mut own = None;
                let dn = match (self.fc1, self.fc2, &dn) {
                    (Weight::Packed(fc1), Weight::Packed(fc2), None) => {
                        // SAFETY: as above.
                        let (u, du) = unsafe { (u.slice(wide.clone()), du.slice(wide)) };
                        let dn = own.insert(ws.take(span.len()));
                        let place = sink.map(|sink| (sink, span.clone()));
                        self.rows_back((fc1, fc2), (n, place), &dy[span.clone()], (u, du), dn, ws);
                        dn
                    }
                    (_, _, Some(dn)) => &dn[span.clone()],
                    _ => panic!("both weights must be packed, or none"),
                };
                back(ws.isa(), self.norm, x, stats, dn, dx, base.part(span), sums);
            });
        }
        finish(&sums, grads.norm);
        let (x_width, h_width) = (Mat::new(&n, rows, width), Mat::strided(&u, rows, hidden, far, 1));
        let (dy, du) = (Mat::new(dy, rows, width), Mat::strided(&du, rows, hidden, far, 1));
        let fc1 = Product::weight_gradient(x_width, du, grads.fc1, grads.fc1_bias);
        let fc2 = Product::weight_gradient(h_width, dy, grads.fc2, grads.fc2_bias);
        run_all(ws, [fc1, fc2]);
    }

    /// `du` and `dn` for one task's rows; `u` becomes `h`. With a place for the output, `u` is made of `n` first, and the output of `h`.
    fn rows_back(
        &self,
        (fc1, fc2): (&PackedWeight, &PackedWeight),
        (n, place): (&[f32], Place),
        dy: &[f32],
        (u, du): (&mut [f32], &mut [f32]),
        dn: &mut [f32],
        ws: &Workspace,
    ) {
        let (width, hidden) = (self.norm.width(), self.fc1.outputs());
        let far = distance(hidden);
        let rows = dn.len() / width.max(1);
        if place.is_some() {
            let to = Target::new(u, rows, hidden, far);
            rows_times_packed(ws, &fc1.forward, Init::Bias(self.fc1_bias), Mat::new(n, rows, width), to);
        }
        let to = Target::new(du, rows, hidden, far);
        rows_times_packed(ws, &fc2.backward, Init::Zero, Mat::new(dy, rows, width), to);
        for (u, du) in u.chunks_exact_mut(far.max(1)).zip(du.chunks_exact_mut(far.max(1))) {
            gelu::vjp_in_place(ws.isa(), &mut u[..hidden], &mut du[..hidden]);
        }
        if let Some((sink, span)) = place {
            let h = Mat::strided(u, rows, hidden, far, 1);
            // SAFETY: each task has its own rows.
            unsafe {
                sink.write(ws, span, |y| {
                    let y = Target::new(y, rows, width, width);
                    rows_times_packed(ws, &fc2.forward, Init::Bias(self.fc2_bias), h, y);
                });
            };
        }
        let du = Mat::strided(du, rows, hidden, far, 1);
        rows_times_packed(ws, &fc1.backward, Init::Zero, du, Target::new(dn, rows, width, width));
    }

    /// `du` and `dn` for few rows, each product a phase of its own; `u` becomes `h`.
    fn back_by_columns(
        &self,
        (fc1, fc2): (Mat, Mat),
        dy: &[f32],
        u: &mut [f32],
        du: &mut [f32],
        ws: &Workspace,
    ) -> Buffer {
        let (width, hidden) = (self.norm.width(), self.fc1.outputs());
        let (far, rows) = (distance(hidden), dy.len() / width.max(1));
        {
            let (u, du) = (Shared::new(u), Shared::new(du));
            by_columns(ws, fc2.t(), Init::Zero, Mat::new(dy, rows, width), (&du, far), |columns| {
                for row in 0..rows {
                    let span = row * far + columns.start..row * far + columns.end;
                    u.fetch(ws.isa(), span.start + AHEAD * far..span.end + AHEAD * far);
                    // SAFETY: each task has its own columns.
                    unsafe { gelu::vjp_in_place(ws.isa(), u.slice(span.clone()), du.slice(span)) };
                }
            });
        }
        let mut dn = ws.take(dy.len());
        let du = Mat::strided(du, rows, hidden, far, 1);
        by_columns(ws, fc1.t(), Init::Zero, du, (&Shared::new(&mut dn), width), |_| ());
        dn
    }
}
