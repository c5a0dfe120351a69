//! The general product: any strides, packed on the way, cut into tasks of equal size; small results of long sums, which
//! would make few tasks, are cut along the sums too, and their parts added in order.
//!
//! Weight gradients `dW = Xᵀ dY` are this product with `A = Xᵀ`; the sums of `dY`'s columns (the bias gradient) come with
//! it, taken while `dY` is packed and in cache.

use std::cmp::Reverse;

use rayon::prelude::*;

use super::fresh::multiply_fresh;
use super::{K_BLOCK, Mat, Target, blocks, k_block, pack};
use crate::gemm::micro::{LINE, Start};
use crate::share::Shared;
use crate::simd::dispatch;
use crate::tasks::for_each_in_order;
use crate::workspace::Workspace;

/// Largest side of a task's part of `C`: its left operand, packed [`super::K_BLOCK`] deep, and the part itself fill a second-level
/// cache of a megabyte. Smaller parts balance better, but pack the same operands more often.
const SIDE: usize = 384;
/// The same for columns, where there are many parts: each packs the left operand anew.
const WIDE: usize = 2 * SIDE;
/// Products whose results hold no more floats than this, all together, make few tasks: they are cut along `k` as well.
const SMALL: usize = 1 << 18;
/// Results of so many floats are stored past the caches: gradients of such weights come by the dozen, and are read again after all of
/// them.
const LARGE: usize = 1 << 16;
/// Floats that one task adds up.
const CHUNK: usize = 1 << 13;
/// Tasks that products are to make, at least where their shapes allow it.
const TASKS: usize = 8;
/// Steps of `k` that a part has at least, so that adding up parts costs little beside making them.
const DEPTH: usize = 2 * K_BLOCK;

/// One product `C (+)= A B`.
#[derive(Debug)]
pub struct Product<'a> {
    /// `m x k`.
    pub a: Mat<'a>,
    /// `k x n`.
    pub b: Mat<'a>,
    /// `m x n`, row-major, without gaps.
    pub c: &'a mut [f32],
    /// Keep what `c` holds and add to it.
    pub accumulate: bool,
    /// Where the sums of `b`'s columns go, if wanted; they follow `accumulate`.
    pub column_sums: Option<&'a mut [f32]>,
}

impl Product<'_> {
    /// `dW = Xᵀ dY` and `db =` sums of `dY`'s columns, for row-major `X` (`rows x inputs`) and `dY` (`rows x outputs`).
    pub(crate) fn weight_gradient<'a>(
        x: Mat<'a>,
        dy: Mat<'a>,
        dw: &'a mut [f32],
        db: &'a mut [f32],
    ) -> Product<'a> {
        Product { a: x.t(), b: dy, c: dw, accumulate: false, column_sums: Some(db) }
    }
}

/// Runs a product, in parallel over fixed parts of `c`.
///
/// # Panics
/// If the shapes do not fit.
pub fn gemm(ws: &Workspace, product: Product) {
    run_all(ws, [product]);
}

/// Runs independent products as one list of tasks.
pub(crate) fn run_all<const N: usize>(ws: &Workspace, mut products: [Product; N]) {
    let parts = parts(&products);
    if parts == 1 {
        return run_list(ws, Vec::from(products));
    }
    // The first part goes where the product belongs, the others, each with its sums of columns, beside it.
    let mut beside = products
        .each_ref()
        .map(|p| (1..parts).map(|_| (ws.take(p.c.len()), ws.take(p.b.cols))).collect::<Vec<_>>());
    let mut list = Vec::with_capacity(N * parts);
    for (product, beside) in products.iter_mut().zip(&mut beside) {
        let Product { a, b, accumulate, .. } = *product;
        let summed = product.column_sums.is_some();
        let own = (&mut *product.c, product.column_sums.as_deref_mut(), accumulate);
        let others = beside.iter_mut().map(|(c, sums)| (&mut **c, summed.then_some(&mut **sums), false));
        let depths = blocks(a.cols, a.cols.div_ceil(parts));
        for (depth, (c, column_sums, accumulate)) in depths.zip(std::iter::once(own).chain(others)) {
            list.push(Product {
                a: a.columns(depth.clone()),
                b: b.t().columns(depth).t(),
                c,
                accumulate,
                column_sums,
            });
        }
    }
    run_list(ws, list);
    for (product, beside) in products.iter_mut().zip(&beside) {
        let others: Vec<&[f32]> = beside.iter().map(|(c, _)| &**c).collect();
        add_up(product.c, &others);
        if let Some(sums) = &mut product.column_sums {
            let others: Vec<&[f32]> = beside.iter().map(|(_, sums)| &**sums).collect();
            add_up(sums, &others);
        }
    }
}

/// Parts that `k` is cut into, by shapes alone.
fn parts(products: &[Product]) -> usize {
    let tiles: usize = products.iter().map(|p| squares(&p.a, &p.b)).sum();
    let results: usize = products.iter().map(|p| p.c.len()).sum();
    let shallowest = products.iter().map(|p| p.a.cols).min().unwrap_or(0);
    if results > SMALL { 1 } else { (TASKS / tiles.max(1)).min(shallowest / DEPTH).max(1) }
}

/// Adds to `sum` what others hold, in their order.
pub(crate) fn add_up(sum: &mut [f32], others: &[&[f32]]) {
    sum.par_chunks_mut(CHUNK).enumerate().for_each(|(i, sum)| {
        for other in others {
            sum.iter_mut().zip(&other[i * CHUNK..]).for_each(|(a, b)| *a += b);
        }
    });
}

fn run_list(ws: &Workspace, products: Vec<Product>) {
    let products: Vec<_> = products
        .into_iter()
        .map(|p| {
            let (m, k, n) = (p.a.rows, p.a.cols, p.b.cols);
            assert_eq!(p.b.rows, k, "inner sizes differ");
            assert_eq!(p.c.len(), m * n, "C must hold {m} x {n}");
            if let Some(sums) = &p.column_sums {
                assert_eq!(sums.len(), n, "one sum for each of {n} columns");
            }
            let past = p.c.len() >= LARGE && n.is_multiple_of(LINE) && begins_a_line(p.c);
            (p.a, p.b, Shared::new(p.c), p.accumulate, p.column_sums.map(Shared::new), past)
        })
        .collect();
    let many = products.iter().map(|(a, b, ..)| squares(a, b)).sum::<usize>() >= 2 * TASKS;
    let wide = if many { WIDE } else { SIDE };
    let mut tasks = Vec::new();
    for (a, b, c, accumulate, sums, past) in &products {
        // Without rows there is no product, but there may be column sums: one empty row of tasks.
        let none = (a.rows == 0).then_some(0..0);
        for i in none.into_iter().chain(blocks(a.rows, side(a.rows, SIDE))) {
            for j in blocks(b.cols, side(b.cols, wide)) {
                // The first row of tasks covers every column once; it takes the sums.
                let sums = sums.as_ref().filter(|_| i.start == 0);
                tasks.push(Part {
                    a: *a,
                    b: *b,
                    c,
                    accumulate: *accumulate,
                    sums,
                    rows: i.clone(),
                    columns: j,
                    past: *past,
                });
            }
        }
    }
    // Results of different shapes make parts of different sizes.
    tasks.sort_by_key(|part| Reverse(part.rows.len() * part.columns.len() * part.a.cols));
    for_each_in_order(tasks.len(), |task| {
        let part = &tasks[task];
        let depth = k_block(part.a.cols).min(part.a.cols);
        let mut left = ws.take(part.rows.len().next_multiple_of(ws.isa().tile_rows()) * depth);
        let mut panel = ws.take(ws.isa().panel_width() * depth);
        let beside = if part.past && part.a.cols > depth { part.rows.len() * part.columns.len() } else { 0 };
        let mut sum = ws.take(beside);
        run_part(ws.isa(), part, &mut left, &mut panel, &mut sum);
    });
}

/// Whether floats begin with a cache line.
fn begins_a_line(floats: &[f32]) -> bool {
    (floats.as_ptr() as usize).is_multiple_of(LINE * size_of::<f32>())
}

/// Parts of at most [`SIDE`] by [`SIDE`] that a product makes.
fn squares(a: &Mat, b: &Mat) -> usize {
    a.rows.div_ceil(SIDE) * b.cols.div_ceil(SIDE)
}

/// Equal sides of about `most` at most, in whole tiles.
fn side(len: usize, most: usize) -> usize {
    len.div_ceil(len.div_ceil(most).max(1)).next_multiple_of(48)
}

/// One task: a rectangle of `C`.
struct Part<'a> {
    a: Mat<'a>,
    b: Mat<'a>,
    c: &'a Shared<'a>,
    accumulate: bool,
    sums: Option<&'a Shared<'a>>,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    /// Whether the result is stored past the caches; what is added to until then lies beside it.
    past: bool,
}

dispatch! {
    fn run_part(s: Isa, part: &Part, left: &mut [f32], panel: &mut [f32], sum: &mut [f32]) {
        let (m, n, k) = (part.rows.len(), part.columns.len(), part.a.cols);
        let row = part.b.cols;
        let mut sums = part.sums.map(|sums| {
            // SAFETY: this task alone takes the sums of its columns.
            unsafe { sums.slice(part.columns.clone()) }
        });
        if let Some(sums) = sums.as_deref_mut().filter(|_| !part.accumulate) {
            sums.fill(0.0);
        }
        // SAFETY: this task alone writes its rectangle, which lies inside `C`.
        let result = unsafe { Target::part(part.c, part.rows.start * row + part.columns.start, m, n, row) };
        let between = if sum.is_empty() { result } else { Target::new(sum, m, n, n) };
        let mut start = if part.accumulate { result.start() } else { Start::ZERO };
        let mut from = 0;
        loop {
            let count = k_block(k).min(k - from);
            let depth = from..from + count;
            from += count;
            let c = if from < k { between } else { result };
            start.past = from >= k && part.past;
            pack::rows(s, part.a, part.rows.clone(), depth.clone(), left);
            let right = (part.b, part.columns.clone(), depth);
            let strides = (1, S::MR, S::MR * count);
            // SAFETY: the left operand is packed for `m` rows and `count` steps.
            unsafe { multiply_fresh(s, m, left.as_ptr(), strides, right, panel, c, start, sums.as_deref_mut()) };
            if from >= k {
                break;
            }
            start = between.start();
        }
    }
}
