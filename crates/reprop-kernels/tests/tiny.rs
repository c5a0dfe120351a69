//! Every kernel once, on shapes of a few odd elements at unaligned places: short enough for Miri, which sees only the portable
//! set, and for an address sanitizer, which sees them all. Values are checked elsewhere; here they must be finite.

mod common;

use common::{Rng, on_threads, workspaces};
use reprop_kernels::attention::{
    Attention, AttentionGrads, AttentionShape, CrossAttention, CrossGrads, Keep, Masks, Pool, PoolGrads,
    PooledAttention, PooledGrads, WindowAttention, WindowGrads,
};
use reprop_kernels::batch_norm::{Above, BatchNorm, BatchNormGrads};
use reprop_kernels::conv::{
    Branch, Conv2d, Conv3x3, ConvNorm, ConvNormGrads, Depthwise, Images, Slide, Stride, Strided3x3,
    WinogradWeight, pool,
};
use reprop_kernels::cross_entropy::cross_entropy;
use reprop_kernels::fuse::{Fuse, FuseGrads};
use reprop_kernels::gemm::{Mat, PackedWeight, Weight};
use reprop_kernels::grid::{Direction, Grid};
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::merge::{Merge, MergeGrads};
use reprop_kernels::mlp::{Mlp, MlpGrads};
use reprop_kernels::optimizer::{AdamW, Sgd};
use reprop_kernels::output::{Base, Output};
use reprop_kernels::recurrent::{GruCell, GruGrads, LstmCell, LstmGrads};
use reprop_kernels::sixteen::{self, Format};
use reprop_kernels::{Workspace, embedding, gelu, linear, relu};

/// A slice that does not begin where its memory does.
struct Odd(Vec<f32>);

impl Odd {
    fn new(len: usize) -> Self {
        Self(Rng(len as u64).vec(len + 1))
    }

    fn get(&self) -> &[f32] {
        &self.0[1..]
    }

    fn get_mut(&mut self) -> &mut [f32] {
        &mut self.0[1..]
    }
}

macro_rules! odd {
    ($($name:ident: $len:expr),* $(,)?) => { $(#[allow(unused_mut)] let mut $name = Odd::new($len);)* };
}

/// All must be finite.
macro_rules! finite {
    ($($name:ident),* $(,)?) => { $(assert!($name.get().iter().all(|v| v.is_finite()), stringify!($name));)* };
}

fn everywhere(test: impl Fn(&Workspace) + Sync) {
    for ws in workspaces() {
        on_threads(2, || test(&ws));
    }
}

const ROWS: usize = 5;
const WIDTH: usize = 6;

#[test]
fn transformer_kernels_stay_inside_their_slices() {
    everywhere(|ws| {
        odd!(x: ROWS * WIDTH, dy: ROWS * WIDTH, y: ROWS * WIDTH, dx: ROWS * WIDTH, scale: WIDTH, bias: WIDTH);
        odd!(w1: WIDTH * 9, b1: 9, w2: 9 * WIDTH, dw1: WIDTH * 9, db1: 9, dw2: 9 * WIDTH, db2: WIDTH);
        odd!(ds: WIDTH, db: WIDTH, stats: 2 * ROWS);
        let norm = LayerNorm { scale: scale.get(), bias: bias.get(), eps: 1e-3 };
        norm.forward(x.get(), y.get_mut(), stats.get_mut(), ws);
        let grads = NormGrads { scale: ds.get_mut(), bias: db.get_mut() };
        norm.vjp(x.get(), stats.get(), dy.get(), dx.get_mut(), Base::Other(dy.get()), grads, ws);
        finite!(y, dx, ds, db);
        gelu::forward(ws.isa(), x.get(), y.get_mut());
        gelu::vjp(ws.isa(), x.get(), dy.get(), dx.get_mut());
        relu::vjp(ws.isa(), x.get(), dy.get(), dx.get_mut());
        let fc1 = PackedWeight::new(ws.isa(), w1.get(), WIDTH, 9);
        let fc2 = PackedWeight::new(ws.isa(), w2.get(), 9, WIDTH);
        let grid = Grid { bits: 10 };
        let fresh =
            [(w1.get(), WIDTH, 9), (w2.get(), 9, WIDTH)].map(|(w, k, n)| Weight::Fresh(Mat::new(w, k, n)));
        for [fc1, fc2] in [[(&fc1).into(), (&fc2).into()], fresh] {
            let mlp = Mlp { norm, fc1, fc1_bias: b1.get(), fc2, fc2_bias: bias.get() };
            grid.snap(y.get_mut(), ws).unwrap();
            let mut output = Output::OnGrid { grid, base: None, y: y.get_mut(), direction: Direction::Add };
            let mut saved = Some(mlp.forward_saving(x.get(), &mut output, ws).unwrap());
            for in_one in [false, true] {
                let grads = MlpGrads {
                    norm: NormGrads { scale: ds.get_mut(), bias: db.get_mut() },
                    fc1: dw1.get_mut(),
                    fc1_bias: db1.get_mut(),
                    fc2: dw2.get_mut(),
                    fc2_bias: db2.get_mut(),
                };
                let (x, dy, dx) = (x.get(), dy.get(), dx.get_mut());
                if in_one {
                    mlp.reverse(x, &mut output, dy, dx, Base::Itself, grads, ws).unwrap();
                } else {
                    mlp.vjp(x, saved.take().unwrap(), dy, dx, Base::Itself, grads, ws);
                }
            }
            finite!(y, dx, dw1, db1, dw2, db2);
        }
        let grads = linear::LinearGrads { x: dx.get_mut(), weight: dw1.get_mut(), bias: db1.get_mut() };
        odd!(wide: ROWS * 9, table: 4 * WIDTH);
        linear::vjp(ws, &fc1, x.get(), wide.get(), ROWS, grads);
        cross_entropy(x.get(), &[0, 5, u32::MAX, 2, 1], WIDTH, 0.1, dx.get_mut(), ws);
        embedding::forward(table.get(), WIDTH, &[3, 0, 3, 1, 2], y.get_mut());
        embedding::vjp(WIDTH, &[3, 0, 3, 1, 2], dy.get(), table.get_mut());
        let adam = AdamW { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.1 };
        odd!(m: WIDTH, v: WIDTH);
        v.get_mut().fill(0.0);
        adam.update(1, scale.get_mut(), ds.get(), m.get_mut(), v.get_mut(), ws);
        Sgd { learning_rate: 0.1, momentum: 0.9, weight_decay: 0.1 }.update(
            bias.get_mut(),
            db.get(),
            m.get_mut(),
            ws,
        );
        finite!(dx, y, table, scale, bias);
    });
}

#[test]
fn attention_kernels_stay_inside_their_slices() {
    everywhere(|ws| {
        let (batch, tokens, heads) = (2, 9, 2);
        let len = batch * tokens * WIDTH;
        odd!(x: len, dy: len, y: len, dx: len, scale: WIDTH, bias: WIDTH, w: 3 * WIDTH * WIDTH, b: 3 * WIDTH);
        odd!(o: WIDTH * WIDTH, score: heads * tokens * tokens, group: tokens * tokens, table: 25 * heads);
        odd!(ds: WIDTH, db: WIDTH, dw: 3 * WIDTH * WIDTH, dqb: 3 * WIDTH, d_o: WIDTH * WIDTH, dob: WIDTH);
        odd!(dscore: heads * tokens * tokens, dtable: 25 * heads, dk: len);
        let (qkv, out) = (
            PackedWeight::new(ws.isa(), w.get(), WIDTH, 3 * WIDTH),
            PackedWeight::new(ws.isa(), o.get(), WIDTH, WIDTH),
        );
        let norm = LayerNorm { scale: scale.get(), bias: bias.get(), eps: 1e-3 };
        let keys: Vec<bool> = (0..batch * tokens).map(|i| i % 4 != 0).collect();
        let masks =
            Masks { bias: Some(score.get()), groups: Some(group.get()), keys: Some(&keys), causal: true };
        let shape = AttentionShape { batch, tokens, heads };
        let (qkv_bias, out_bias) = (b.get(), bias.get());
        let attention =
            Attention { shape, masks, norm, qkv: (&qkv).into(), qkv_bias, out: (&out).into(), out_bias };
        for keep in [Some(Keep::Probabilities), Some(Keep::Nothing), None] {
            let mut output = Output::Value(y.get_mut());
            let saved = keep.map(|keep| attention.forward_saving(x.get(), &mut output, keep, ws).unwrap());
            let grads = AttentionGrads {
                norm: NormGrads { scale: ds.get_mut(), bias: db.get_mut() },
                qkv: dw.get_mut(),
                qkv_bias: dqb.get_mut(),
                out: d_o.get_mut(),
                out_bias: dob.get_mut(),
                bias: Some(dscore.get_mut()),
            };
            let (x, dy, dx) = (x.get(), dy.get(), dx.get_mut());
            match saved {
                Some(saved) => attention.vjp(x, saved, dy, dx, Base::Nothing, grads, ws),
                None => attention.reverse(x, &mut output, dy, dx, Base::Nothing, grads, ws).unwrap(),
            }
        }
        finite!(y, dx, ds, dw, d_o, dscore);
        let images = Images { batch, height: 3, width: 3 };
        let (table, window, shift) = (table.get(), 3, 1);
        let windows = WindowAttention {
            images,
            window,
            shift,
            heads,
            table,
            norm,
            qkv: (&qkv).into(),
            qkv_bias,
            out: (&out).into(),
            out_bias,
        };
        let saved = windows
            .forward_saving(x.get(), &mut Output::Value(y.get_mut()), Keep::Probabilities, ws)
            .unwrap();
        let grads = WindowGrads {
            table: dtable.get_mut(),
            norm: NormGrads { scale: ds.get_mut(), bias: db.get_mut() },
            qkv: dw.get_mut(),
            qkv_bias: dqb.get_mut(),
            out: d_o.get_mut(),
            out_bias: dob.get_mut(),
        };
        windows.vjp(x.get(), saved, dy.get(), dx.get_mut(), Base::Nothing, grads, ws);
        finite!(y, dx, dtable);
        let cross = CrossAttention {
            batch,
            queries: tokens,
            keys: tokens,
            heads,
            head_width: 3,
            masks: Masks::default(),
        };
        let kept = cross.forward(x.get(), dy.get(), x.get(), y.get_mut(), Keep::Probabilities, ws);
        odd!(dv: len);
        let grads = CrossGrads { q: dx.get_mut(), k: dk.get_mut(), v: dv.get_mut(), bias: None };
        cross.vjp((x.get(), dy.get(), x.get()), kept.as_deref(), dy.get(), grads, ws);
        finite!(y, dx, dk, dv);
    });
}

#[test]
fn kernels_of_multiscale_networks_stay_inside_their_slices() {
    const HEAD: usize = WIDTH / 2;
    everywhere(|ws| {
        let images = Images { batch: 1, height: 4, width: 2 };
        let len = images.len(WIDTH);
        odd!(x: len, x2: len, dy: len, y: len, dx: len, dx2: len, pooled: 2 * WIDTH, dpooled: 2 * WIDTH);
        odd!(scale: WIDTH, bias: WIDTH, w: 3 * WIDTH * WIDTH, b: 3 * WIDTH, o: WIDTH * WIDTH);
        odd!(ds: WIDTH, db: WIDTH, dw: 3 * WIDTH * WIDTH, dqb: 3 * WIDTH, d_o: WIDTH * WIDTH, dob: WIDTH);
        let (qkv, out) = (
            PackedWeight::new(ws.isa(), w.get(), WIDTH, 3 * WIDTH),
            PackedWeight::new(ws.isa(), o.get(), WIDTH, WIDTH),
        );
        let norm = LayerNorm { scale: scale.get(), bias: bias.get(), eps: 1e-3 };
        odd!(taps: 9 * HEAD, head_scale: HEAD, head_bias: HEAD);
        let head_norm = LayerNorm { scale: head_scale.get(), bias: head_bias.get(), eps: 1e-3 };
        let pool = |stride| Pool { stride, weight: taps.get(), norm: head_norm };
        let attention = PooledAttention {
            images,
            heads: 2,
            norm,
            qkv: (&qkv).into(),
            qkv_bias: b.get(),
            query: Some(pool(2)),
            key: pool(3),
            value: pool(3),
            out: (&out).into(),
            out_bias: bias.get(),
        };
        let saved = attention
            .forward_saving(x.get(), &mut Output::Value(pooled.get_mut()), Keep::Probabilities, ws)
            .unwrap();
        odd!(dq: 9 * HEAD, dk: 9 * HEAD, dv: 9 * HEAD, sq: HEAD, sk: HEAD, sv: HEAD, bq: HEAD, bk: HEAD, bv: HEAD);
        macro_rules! grads {
            ($weight:ident, $scale:ident, $bias:ident) => {
                PoolGrads {
                    weight: $weight.get_mut(),
                    norm: NormGrads { scale: $scale.get_mut(), bias: $bias.get_mut() },
                }
            };
        }
        let grads = PooledGrads {
            norm: NormGrads { scale: ds.get_mut(), bias: db.get_mut() },
            qkv: dw.get_mut(),
            qkv_bias: dqb.get_mut(),
            query: Some(grads!(dq, sq, bq)),
            key: grads!(dk, sk, bk),
            value: grads!(dv, sv, bv),
            out: d_o.get_mut(),
            out_bias: dob.get_mut(),
        };
        attention.vjp(x.get(), saved, dpooled.get(), dx.get_mut(), Base::Nothing, grads, ws);
        finite!(pooled, dx, dw, dq, dk, dv, sq, bk);
        odd!(e: 2 * WIDTH * 5, eb: 5, c: 5 * WIDTH, de: 2 * WIDTH * 5, deb: 5, dc: 5 * WIDTH, dcb: WIDTH);
        let expand = PackedWeight::new(ws.isa(), e.get(), 2 * WIDTH, 5);
        let contract = PackedWeight::new(ws.isa(), c.get(), 5, WIDTH);
        let fuse =
            Fuse { expand: &expand, expand_bias: eb.get(), contract: &contract, contract_bias: bias.get() };
        let saved = fuse.forward_saving(x.get(), x2.get(), y.get_mut(), ws);
        let grads = FuseGrads {
            x1: dx.get_mut(),
            x2: dx2.get_mut(),
            expand: de.get_mut(),
            expand_bias: deb.get_mut(),
            contract: dc.get_mut(),
            contract_bias: dcb.get_mut(),
        };
        fuse.vjp((x.get(), x2.get()), saved, dy.get(), grads, ws);
        finite!(y, dx, dx2, de, deb, dc, dcb);
        odd!(ms: 4 * WIDTH, mb: 4 * WIDTH, m: 4 * WIDTH * 5, dms: 4 * WIDTH, dmb: 4 * WIDTH, dm: 4 * WIDTH * 5);
        odd!(merged: 2 * 5, dmerged: 2 * 5);
        let reduction = PackedWeight::new(ws.isa(), m.get(), 4 * WIDTH, 5);
        let norm = LayerNorm { scale: ms.get(), bias: mb.get(), eps: 1e-3 };
        let merge = Merge { images, norm, reduction: &reduction };
        let stats = merge.forward_saving(x.get(), merged.get_mut(), ws);
        let norm = NormGrads { scale: dms.get_mut(), bias: dmb.get_mut() };
        let grads = MergeGrads { norm, reduction: dm.get_mut() };
        merge.vjp(x.get(), &stats, dmerged.get(), dx.get_mut(), grads, ws);
        finite!(merged, dx, dms, dmb, dm);
    });
}

#[test]
fn convolution_kernels_stay_inside_their_slices() {
    everywhere(|ws| {
        let (images, channels) = (Images { batch: 2, height: 5, width: 3 }, 3);
        let len = images.len(channels);
        odd!(x: len, dy: len, y: len, dx: len, w: 81, dw: 81, dw2: 81, scale: 3, bias: 3, ds: 3, db: 3, ds2: 3, db2: 3);
        let weight = WinogradWeight::new(w.get(), channels, channels, ws);
        let conv = Conv3x3 { images, weight: &weight };
        conv.forward(x.get(), y.get_mut(), ws);
        conv.vjp(x.get(), dy.get(), Some(dx.get_mut()), dw.get_mut(), ws);
        finite!(y, dx, dw);
        let norm = BatchNorm { scale: scale.get(), bias: bias.get(), eps: 1e-3 };
        let moments = norm.forward(x.get(), y.get_mut(), ws);
        let grads = BatchNormGrads { scale: ds.get_mut(), bias: db.get_mut() };
        norm.vjp(x.get(), &moments, Above::output(dy.get()), dx.get_mut(), grads, ws);
        let layer = ConvNorm { weight: &weight, norm };
        let branch = Branch { images, first: layer, second: layer, residual: true };
        let saved = branch.forward_saving(x.get(), &mut Output::Value(y.get_mut()), ws).unwrap();
        let grads = [
            ConvNormGrads {
                weight: dw.get_mut(),
                norm: BatchNormGrads { scale: ds.get_mut(), bias: db.get_mut() },
            },
            ConvNormGrads {
                weight: dw2.get_mut(),
                norm: BatchNormGrads { scale: ds2.get_mut(), bias: db2.get_mut() },
            },
        ];
        branch.vjp(x.get(), &saved, dy.get(), dx.get_mut(), Base::Itself, grads, ws);
        finite!(y, dx, dw, dw2, ds, ds2);
        let slide = Slide { kernel: 3, stride: 2, padding: 1 };
        let out = slide.output(images).len(channels);
        odd!(small: out, filter: 27);
        let packed = PackedWeight::new(ws.isa(), w.get(), 27, channels);
        let conv = Conv2d { images, slide, inputs: channels, weight: &packed };
        conv.forward(x.get(), small.get_mut(), ws);
        conv.vjp(x.get(), small.get(), Some(dx.get_mut()), dw.get_mut(), ws);
        let strided = WinogradWeight::with_stride(Stride::Two, w.get(), (channels, channels), ws);
        let conv = Strided3x3 { images, weight: &strided };
        conv.forward(x.get(), small.get_mut(), ws);
        conv.vjp(x.get(), small.get(), Some(dx.get_mut()), dw.get_mut(), ws);
        odd!(first: len / 3, rest: len / 3 * 2);
        norm.apply_to_halves(x.get(), &moments, true, [first.get_mut(), rest.get_mut()], None, ws);
        let above = Above { rest: Some(rest.get()), ..Above::output(first.get()) };
        let grads = BatchNormGrads { scale: ds.get_mut(), bias: db.get_mut() };
        let behind = norm.behind(x.get(), &moments, above, grads, ws);
        let conv = Conv3x3 { images, weight: &weight };
        conv.vjp(x.get(), behind.of(x.get()), Some(dx.get_mut()), dw.get_mut(), ws);
        finite!(small, dx, dw, ds);
        let conv = Depthwise { images, slide, channels, pitch: channels, weight: filter.get() };
        conv.forward(x.get(), small.get_mut(), ws);
        odd!(dfilter: 27);
        conv.vjp(x.get(), small.get(), dx.get_mut(), dfilter.get_mut(), ws);
        pool::max_forward(ws.isa(), images, slide, channels, x.get(), small.get_mut());
        pool::max_vjp(ws.isa(), images, slide, channels, x.get(), small.get(), dx.get_mut());
        pool::average_vjp(images, slide, channels, small.get(), dx.get_mut());
        finite!(small, dx, dw, dfilter);
    });
}

#[test]
fn recurrent_kernels_stay_inside_their_slices() {
    everywhere(|ws| {
        let (rows, inputs, n) = (3, 2, 5);
        odd!(x: rows * inputs, h: rows * n, c: rows * n, next_h: rows * n, next_c: rows * n, dx: rows * inputs);
        odd!(wx: inputs * 4 * n, wh: n * 4 * n, b: 4 * n, dh: rows * n, dc: rows * n);
        odd!(dwx: inputs * 4 * n, dwh: n * 4 * n, db: 4 * n);
        let (input, hidden) = (
            PackedWeight::new(ws.isa(), wx.get(), inputs, 4 * n),
            PackedWeight::new(ws.isa(), wh.get(), n, 4 * n),
        );
        let cell = LstmCell { input: &input, hidden: &hidden, bias: b.get() };
        let saved = cell.forward(x.get(), (h.get(), c.get()), (next_h.get_mut(), next_c.get_mut()), ws);
        let grads = LstmGrads {
            x: dx.get_mut(),
            h: dh.get_mut(),
            c: dc.get_mut(),
            input: dwx.get_mut(),
            hidden: dwh.get_mut(),
            bias: db.get_mut(),
            accumulate: false,
        };
        cell.vjp(x.get(), (h.get(), c.get()), saved, (next_h.get(), next_c.get()), grads, ws);
        finite!(next_h, next_c, dx, dh, dc, dwx, dwh, db);
        let (input, hidden) = (
            PackedWeight::new(ws.isa(), wx.get(), inputs, 3 * n),
            PackedWeight::new(ws.isa(), wh.get(), n, 3 * n),
        );
        odd!(dwx: inputs * 3 * n, dwh: n * 3 * n, db: 3 * n, db2: 3 * n);
        let cell = GruCell {
            input: &input,
            hidden: &hidden,
            input_bias: &b.get()[..3 * n],
            hidden_bias: &b.get()[n..],
        };
        let saved = cell.forward(x.get(), h.get(), next_h.get_mut(), ws);
        let grads = GruGrads {
            x: dx.get_mut(),
            h: dh.get_mut(),
            input: dwx.get_mut(),
            hidden: dwh.get_mut(),
            input_bias: db.get_mut(),
            hidden_bias: db2.get_mut(),
            accumulate: false,
        };
        cell.vjp(x.get(), h.get(), saved, next_h.get(), grads, ws);
        finite!(next_h, dx, dh, dwx, dwh, db, db2);
    });
}

#[test]
fn conversions_stay_inside_their_slices() {
    everywhere(|ws| {
        for format in [Format::Bf16, Format::F16] {
            odd!(x: 37, back: 37);
            let mut narrow = [0_u16; 38];
            sixteen::narrow(format, x.get(), &mut narrow[1..], ws);
            sixteen::widen(format, &narrow[1..], back.get_mut(), ws);
            finite!(back);
        }
    });
}
