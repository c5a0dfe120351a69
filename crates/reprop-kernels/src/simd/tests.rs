//! Every operation of every set of this CPU, lane by lane, beside the same on single floats.

// Single operations round alike everywhere: results are equal, not close.
#![allow(clippy::float_cmp)]

use super::{Isa, MAX_LANES, SQUARE, dispatch};

type Row = [f32; MAX_LANES];

/// Signs, ties of rounding, numbers without fractions, infinities and what is not a number.
const VALUES: Row = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -1.5,
    2.5,
    -3.5,
    0.1,
    -1e-3,
    87.3,
    -88.7,
    16_777_216.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

/// One operation on all lanes of rows.
macro_rules! lanes {
    ($s:ident, [$($row:ident),*] => $value:expr) => {{
        let mut lanes = [0.0; MAX_LANES];
        for i in (0..MAX_LANES).step_by(S::LANES) {
            $(let $row = $s.load(&$row[i..]);)*
            $s.store(&mut lanes[i..], $value);
        }
        lanes
    }};
}

dispatch! {
    /// In the order of [`expected`].
    fn exact(s: Isa, a: &Row, b: &Row, c: &Row) -> [Row; 10] {
        [
            lanes!(s, [a, b] => s.add(a, b)),
            lanes!(s, [a, b] => s.sub(a, b)),
            lanes!(s, [a, b] => s.mul(a, b)),
            lanes!(s, [a, b] => s.div(a, b)),
            lanes!(s, [a, b, c] => s.fma(a, b, c)),
            lanes!(s, [a] => s.sqrt(a)),
            lanes!(s, [a] => s.round(a)),
            lanes!(s, [a] => s.abs(a)),
            lanes!(s, [a, b, c] => s.select_gt(a, b, c, a)),
            lanes!(s, [a, b] => s.largest(a, b)),
        ]
    }
}

fn expected(isa: Isa, a: f32, b: f32, c: f32) -> [f32; 10] {
    let fma = if isa == Isa::portable() { a * b + c } else { a.mul_add(b, c) };
    let chosen = if a > b { c } else { a };
    let largest = if a.is_nan() {
        a
    } else if b.is_nan() {
        b
    } else {
        a.max(b)
    };
    [a + b, a - b, a * b, a / b, fma, a.sqrt(), a.round_ties_even(), a.abs(), chosen, largest]
}

dispatch! {
    fn extremes(s: Isa, a: &Row, b: &Row) -> [Row; 2] {
        [lanes!(s, [a, b] => s.max(a, b)), lanes!(s, [a, b] => s.min(a, b))]
    }
}

dispatch! {
    fn powers(s: Isa, a: &Row, n: &Row) -> [Row; 3] {
        [
            lanes!(s, [n] => s.pow2(n)),
            lanes!(s, [a, n] => s.scale(a, n)),
            lanes!(s, [n] => s.reciprocal(s.abs(n))),
        ]
    }
}

dispatch! {
    /// Sum and largest of the first lanes, the others being zero.
    fn folds(s: Isa, x: &[f32]) -> (f32, f32) {
        let v = s.load_part(&x[..x.len().min(S::LANES)], 0.0);
        (s.sum(v), s.top(v))
    }
}

dispatch! {
    fn parts(s: Isa, x: &[f32], y: &mut [f32]) {
        let v = s.load_part(x, 7.0);
        let whole = &mut [0.0; MAX_LANES];
        s.store(whole, v);
        assert_eq!(whole[..x.len()], *x);
        assert!(whole[x.len()..S::LANES].iter().all(|&v| v == 7.0), "{whole:?}");
        s.store_part(y, v);
    }
}

dispatch! {
    fn transpose(s: Isa, from: &[f32], from_row: usize, to: &mut [f32], to_row: usize) {
        assert!(from.len().min(to.len()) >= (SQUARE - 1) * from_row.max(to_row) + SQUARE);
        // SAFETY: both slices hold a square with rows so far apart, and are not the same.
        unsafe { s.transpose(from.as_ptr(), from_row, to.as_mut_ptr(), to_row) }
    }
}

/// Zeros of either sign are the same, and so are all that are not numbers.
#[track_caller]
fn assert_equal(got: f32, want: f32, what: impl std::fmt::Display) {
    assert!(got == want || got.is_nan() && want.is_nan(), "{what}: {got}, not {want}");
}

#[test]
fn the_widest_set_comes_first_and_the_portable_one_last() {
    let sets = Isa::available();
    assert_eq!(sets.last(), Some(&Isa::portable()));
    assert!(sets.is_sorted_by_key(|set| std::cmp::Reverse(set.lanes())), "{sets:?}");
    assert_eq!(Isa::detect(), sets[0]);
}

#[test]
#[cfg(target_arch = "aarch64")]
fn every_cpu_of_this_architecture_has_neon() {
    assert_eq!(Isa::available().iter().map(|set| set.name()).collect::<Vec<_>>(), ["neon", "portable"]);
}

#[test]
fn operations_give_in_each_lane_what_single_floats_give() {
    for isa in Isa::available() {
        for (turn, more) in (0..MAX_LANES).flat_map(|i| (0..MAX_LANES).map(move |j| (i, j))) {
            let (a, mut b, mut c) = (VALUES, VALUES, VALUES);
            b.rotate_left(turn);
            c.rotate_left(more);
            let got = exact(isa, &a, &b, &c);
            let [most, least] = extremes(isa, &a, &b);
            for i in 0..MAX_LANES {
                let what = format!("{} of {} {} {}", isa.name(), a[i], b[i], c[i]);
                for (operation, want) in expected(isa, a[i], b[i], c[i]).into_iter().enumerate() {
                    assert_equal(got[operation][i], want, format_args!("operation {operation} on {what}"));
                }
                // What is not a number goes through in some sets and not in others.
                if !a[i].is_nan() && !b[i].is_nan() {
                    assert_equal(most[i], a[i].max(b[i]), format_args!("max on {what}"));
                    assert_equal(least[i], a[i].min(b[i]), format_args!("min on {what}"));
                }
            }
        }
    }
}

#[test]
fn powers_of_two_are_exact_and_reciprocals_nearly() {
    for isa in Isa::available() {
        for n in -126..=127 {
            let exponents: Row = std::array::from_fn(|i| ((n + 126 + i as i32) % 254 - 126) as f32);
            let [powers, scaled, reciprocals] = powers(isa, &[1.5; MAX_LANES], &exponents);
            for i in 0..MAX_LANES {
                let n = exponents[i];
                let power = 2f64.powi(n as i32);
                assert_eq!(f64::from(powers[i]), power, "{} {n}", isa.name());
                assert_eq!(scaled[i], (1.5 * power) as f32, "{} {n}", isa.name());
                // Two units of the last place.
                let one = f64::from(reciprocals[i]) * f64::from(n.abs());
                assert!(n == 0.0 || (one - 1.0).abs() <= 2.0 * f64::from(f32::EPSILON), "{} {n}", isa.name());
            }
        }
    }
}

#[test]
fn parts_of_vectors_leave_the_rest_alone() {
    for isa in Isa::available() {
        for len in 0..=isa.lanes() {
            let x: Vec<f32> = (0..len).map(|i| (1 + i * 5 % 7) as f32).collect();
            let mut y = [-1.0; MAX_LANES + 1];
            parts(isa, &x, &mut y[..len]);
            assert_eq!(y[..len], x);
            assert!(y[len..].iter().all(|&v| v == -1.0), "{} {len}: {y:?}", isa.name());
            let top = x.iter().copied().fold(0.0, f32::max);
            assert_eq!(folds(isa, &x), (x.iter().sum(), top), "{} {len}", isa.name());
        }
    }
}

#[test]
fn squares_are_turned_between_rows_of_any_distance() {
    const FAR: usize = SQUARE + 3;
    let from: Vec<f32> = (0..SQUARE * FAR).map(|i| i as f32).collect();
    for isa in Isa::available() {
        for (from_row, to_row) in [(SQUARE, FAR), (FAR, SQUARE), (FAR, FAR)] {
            let mut to = vec![-1.0; SQUARE * FAR];
            transpose(isa, &from, from_row, &mut to, to_row);
            for (i, j) in (0..SQUARE).flat_map(|i| (0..SQUARE).map(move |j| (i, j))) {
                assert_eq!(to[j * to_row + i], from[i * from_row + j], "{} {i} {j}", isa.name());
            }
            assert_eq!(to.iter().filter(|&&v| v != -1.0).count(), SQUARE * SQUARE);
        }
    }
}
