//! Attention between queries, keys and values, without weights, under every mask.

use divan::{Bencher, black_box};
use reprop_kernels::Workspace;
use reprop_kernels::attention::{CrossAttention, CrossGrads, Keep, Masks};
use reprop_kernels::heap::{self, Values};

use crate::support::{blank, data, flops};

#[derive(Clone, Copy, Debug)]
enum Case {
    /// 197 tokens.
    VitS,
    /// 512 tokens.
    Long,
    /// 128 tokens.
    Roberta,
    /// As many, the last of which are hidden as padding is.
    RobertaKeyMask,
    /// 128 tokens, each of which sees those before it.
    Causal,
    /// Windows of 7x7 of which some are in two pieces, and a bias.
    SwinShifted,
    /// 56x56 queries of 14x14 keys.
    MvitPooled,
}

use Case::{Causal, Long, MvitPooled, Roberta, RobertaKeyMask, SwinShifted, VitS};

/// A case's sizes and masks.
struct Shape {
    batch: usize,
    queries: usize,
    keys: usize,
    heads: usize,
    head_width: usize,
    causal: bool,
    bias: Option<Values>,
    groups: Option<Values>,
    seen: Option<Vec<bool>>,
}

impl Shape {
    fn new(case: Case) -> Self {
        let (batch, queries, keys, heads, head_width) = match case {
            VitS => (8, 197, 197, 6, 64),
            Long => (8, 512, 512, 6, 64),
            Roberta | RobertaKeyMask | Causal => (8, 128, 128, 12, 64),
            SwinShifted => (8 * 64, 49, 49, 3, 32),
            MvitPooled => (8, 56 * 56, 14 * 14, 1, 96),
        };
        let of = |tables: usize| data(tables * queries * keys);
        let seen = (0..batch * keys).map(|key| key % keys < keys - 16).collect();
        Self {
            batch,
            queries,
            keys,
            heads,
            head_width,
            causal: matches!(case, Causal),
            bias: matches!(case, SwinShifted).then(|| of(heads)),
            groups: matches!(case, SwinShifted).then(|| of(64)),
            seen: matches!(case, RobertaKeyMask).then_some(seen),
        }
    }

    fn kernel(&self) -> CrossAttention<'_> {
        let Self { batch, queries, keys, heads, head_width, causal, .. } = *self;
        let (bias, groups, seen) = (self.bias.as_deref(), self.groups.as_deref(), self.seen.as_deref());
        let masks = Masks { bias, groups, keys: seen, causal };
        CrossAttention { batch, queries, keys, heads, head_width, masks }
    }

    /// Floats of queries, keys and values.
    fn lens(&self) -> [usize; 3] {
        let width = self.batch * self.heads * self.head_width;
        [width * self.queries, width * self.keys, width * self.keys]
    }

    /// Operations of one product; hidden scores count too.
    fn product(&self) -> usize {
        2 * self.lens()[0] * self.keys
    }
}

#[divan::bench(args = [VitS, Long, Roberta, RobertaKeyMask, Causal, SwinShifted, MvitPooled])]
fn forward(bencher: Bencher, case: Case) {
    let (ws, shape) = (Workspace::default(), Shape::new(case));
    let ([q, k, v], [mut o]) = (shape.lens().map(data), blank([shape.lens()[0]]));
    bencher
        .counter(flops(2 * shape.product()))
        .bench_local(|| shape.kernel().forward(black_box(&q), &k, &v, &mut o, Keep::Probabilities, &ws));
}

#[divan::bench(args = [VitS, Long, Roberta, RobertaKeyMask, Causal, SwinShifted, MvitPooled])]
fn vjp_of_kept_probabilities(bencher: Bencher, case: Case) {
    vjp(bencher, case, Keep::Probabilities);
}

#[divan::bench(args = [VitS, Long, SwinShifted])]
fn vjp_of_nothing_kept(bencher: Bencher, case: Case) {
    vjp(bencher, case, Keep::Nothing);
}

/// Four products, and that of the scores again where probabilities were not kept.
fn vjp(bencher: Bencher, case: Case, keep: Keep) {
    let (ws, shape) = (Workspace::default(), Shape::new(case));
    let ([q, k, v], [mut o, mut dq]) = (shape.lens().map(data), blank([shape.lens()[0]; 2]));
    let [_, mut dk, mut dv] = blank(shape.lens());
    let mut d_bias = shape.bias.as_ref().map(|bias| heap::blank(bias.len()));
    let attention = shape.kernel();
    let kept = attention.forward(&q, &k, &v, &mut o, keep, &ws);
    let products = if kept.is_some() { 4 } else { 5 };
    bencher.counter(flops(products * shape.product())).bench_local(|| {
        let grads = CrossGrads { q: &mut dq, k: &mut dk, v: &mut dv, bias: d_bias.as_deref_mut() };
        attention.vjp((black_box(&q), &k, &v), kept.as_deref(), &o, grads, &ws);
    });
}
