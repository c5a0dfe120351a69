//! The same bits on 1, 2, 3, 4 and 8 threads, for the kernels whose values are tested together with others: each on
//! several blocks of odd sizes, so that threads share the work in different ways.

mod common;

use common::{Rng, assert_same_bits, assert_thread_invariant, workspaces};
use reprop_kernels::attention::{CrossAttention, CrossGrads, Keep, Masks};
use reprop_kernels::batch_norm::{Above, BatchNorm, BatchNormGrads};
use reprop_kernels::conv::{Conv2d, Depthwise, Images, Slide, pool};
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::linear;
use reprop_kernels::optimizer::{AdamW, Sgd};
use reprop_kernels::output::Base;
use reprop_kernels::recurrent::{GruCell, GruGrads};

const IMAGES: Images = Images { batch: 13, height: 11, width: 9 };

#[test]
fn gru_bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(1);
    let (rows, inputs, n) = (70, 33, 40);
    let [x, h, dy] = [rows * inputs, rows * n, rows * n].map(|len| rng.vec(len));
    let [wx, wh, bx, bh] = [inputs * 3 * n, n * 3 * n, 3 * n, 3 * n].map(|len| rng.vec(len));
    assert_thread_invariant("gru", |ws| {
        let (input, hidden) =
            (PackedWeight::new(ws.isa(), &wx, inputs, 3 * n), PackedWeight::new(ws.isa(), &wh, n, 3 * n));
        let cell = GruCell { input: &input, hidden: &hidden, input_bias: &bx, hidden_bias: &bh };
        let mut next = vec![0.0; rows * n];
        let saved = cell.forward(&x, &h, &mut next, ws);
        let mut g = [x.len(), h.len(), wx.len(), wh.len(), bx.len(), bh.len()].map(|len| vec![0.0; len]);
        let [x_grad, h_grad, input, hidden, input_bias, hidden_bias] = &mut g;
        let grads =
            GruGrads { x: x_grad, h: h_grad, input, hidden, input_bias, hidden_bias, accumulate: false };
        cell.vjp(&x, &h, saved, &dy, grads, ws);
        g.into_iter().chain([next]).collect()
    });
}

#[test]
fn batch_norm_bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(2);
    let channels = 37;
    let (x, dy) = (rng.vec(IMAGES.len(channels)), rng.vec(IMAGES.len(channels)));
    let (scale, bias) = (rng.vec(channels), rng.vec(channels));
    assert_thread_invariant("batch norm", |ws| {
        let norm = BatchNorm { scale: &scale, bias: &bias, eps: 1e-5 };
        let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let (mut ds, mut db) = (vec![0.0; channels], vec![0.0; channels]);
        let moments = norm.forward(&x, &mut y, ws);
        norm.vjp(
            &x,
            &moments,
            Above::output(&dy),
            &mut dx,
            BatchNormGrads { scale: &mut ds, bias: &mut db },
            ws,
        );
        vec![y, dx, ds, db]
    });
}

#[test]
fn strided_and_depthwise_convolution_bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(3);
    let (inputs, outputs) = (19, 21);
    for slide in [
        Slide { kernel: 1, stride: 1, padding: 0 },
        Slide { kernel: 3, stride: 2, padding: 1 },
        Slide { kernel: 7, stride: 2, padding: 3 },
    ] {
        let area = slide.kernel * slide.kernel;
        let (x, w) = (rng.vec(IMAGES.len(inputs)), rng.vec(area * inputs * outputs));
        let out = slide.output(IMAGES);
        let dy = rng.vec(out.len(outputs));
        assert_thread_invariant(&format!("{slide:?}"), |ws| {
            let weight = PackedWeight::new(ws.isa(), &w, area * inputs, outputs);
            let conv = Conv2d { images: IMAGES, slide, inputs, weight: &weight };
            let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
            conv.forward(&x, &mut y, ws);
            conv.vjp(&x, &dy, Some(&mut dx), &mut dw, ws);
            vec![y, dx, dw]
        });
        let (filter, dy) = (rng.vec(area * inputs), rng.vec(out.len(inputs)));
        assert_thread_invariant(&format!("depthwise {slide:?}"), |ws| {
            let conv = Depthwise { images: IMAGES, slide, channels: inputs, pitch: inputs, weight: &filter };
            let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; filter.len()]);
            conv.forward(&x, &mut y, ws);
            conv.vjp(&x, &dy, &mut dx, &mut dw, ws);
            vec![y, dx, dw]
        });
    }
}

#[test]
fn pool_bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(4);
    let (channels, slide) = (19, Slide { kernel: 3, stride: 2, padding: 1 });
    let (x, dy) = (rng.vec(IMAGES.len(channels)), rng.vec(slide.output(IMAGES).len(channels)));
    assert_thread_invariant("pools", |ws| {
        let mut y = vec![0.0; dy.len()];
        let (mut most, mut mean) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        pool::max_forward(ws.isa(), IMAGES, slide, channels, &x, &mut y);
        pool::max_vjp(ws.isa(), IMAGES, slide, channels, &x, &dy, &mut most);
        pool::average_vjp(IMAGES, slide, channels, &dy, &mut mean);
        vec![y, most, mean]
    });
}

#[test]
fn cross_attention_bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(5);
    let (batch, queries, keys, heads, head_width) = (3, 75, 41, 3, 13);
    let cross = CrossAttention { batch, queries, keys, heads, head_width, masks: Masks::default() };
    let width = heads * head_width;
    let [q, dy] = [(); 2].map(|()| rng.vec(batch * queries * width));
    let [k, v] = [(); 2].map(|()| rng.vec(batch * keys * width));
    for keep in [Keep::Probabilities, Keep::Nothing] {
        assert_thread_invariant(&format!("cross attention, {keep:?}"), |ws| {
            let mut y = vec![0.0; q.len()];
            let kept = cross.forward(&q, &k, &v, &mut y, keep, ws);
            let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
            let grads = CrossGrads { q: &mut dq, k: &mut dk, v: &mut dv, bias: None };
            cross.vjp((&q, &k, &v), kept.as_deref(), &dy, grads, ws);
            vec![y, dq, dk, dv]
        });
    }
}

#[test]
fn linear_and_optimizer_bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(6);
    let (rows, inputs, outputs) = (203, 65, 47);
    let (x, w, dy) = (rng.vec(rows * inputs), rng.vec(inputs * outputs), rng.vec(rows * outputs));
    assert_thread_invariant("linear", |ws| {
        let weight = PackedWeight::new(ws.isa(), &w, inputs, outputs);
        let (mut dx, mut dw, mut db) = (vec![0.0; x.len()], vec![0.0; w.len()], vec![0.0; outputs]);
        let grads = linear::LinearGrads { x: &mut dx, weight: &mut dw, bias: &mut db };
        linear::vjp(ws, &weight, &x, &dy, rows, grads);
        vec![dx, dw, db]
    });
    let len = 3 * (1 << 14) + 5;
    let (start, gradient) = (rng.vec(len), rng.vec(len));
    let adam = AdamW { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.1 };
    let sgd = Sgd { learning_rate: 0.1, momentum: 0.9, weight_decay: 0.1 };
    assert_thread_invariant("optimizers", |ws| {
        let (mut p, mut m, mut v) = (start.clone(), vec![0.0; len], vec![0.0; len]);
        adam.update(1, &mut p, &gradient, &mut m, &mut v, ws);
        let (mut q, mut b) = (start.clone(), vec![0.0; len]);
        sgd.update(&mut q, &gradient, &mut b, ws);
        vec![p, m, v, q, b]
    });
}

#[test]
fn a_gradient_is_added_to_any_base_with_the_same_bits() {
    let mut rng = Rng(7);
    let (rows, width) = (67, 45);
    let [x, dy, base] = [(); 3].map(|()| rng.vec(rows * width));
    let (scale, bias) = (rng.vec(width), rng.vec(width));
    for ws in workspaces() {
        let norm = LayerNorm { scale: &scale, bias: &bias, eps: 1e-6 };
        let (mut y, mut stats) = (vec![0.0; x.len()], vec![0.0; 2 * rows]);
        norm.forward(&x, &mut y, &mut stats, &ws);
        let run = |mut dx: Vec<f32>, base: Base| {
            let (mut ds, mut db) = (vec![0.0; width], vec![0.0; width]);
            let grads = NormGrads { scale: &mut ds, bias: &mut db };
            norm.vjp(&x, &stats, &dy, &mut dx, base, grads, &ws);
            dx
        };
        // What was in `dx` before must not come through where it is not the base.
        let alone = run(vec![f32::NAN; x.len()], Base::Nothing);
        let other = run(vec![f32::NAN; x.len()], Base::Other(&base));
        let itself = run(base.clone(), Base::Itself);
        let sum: Vec<f32> = alone.iter().zip(&base).map(|(dx, base)| base + dx).collect();
        assert_same_bits("another base and its own", &other, &itself);
        // The sum may be rounded once where the kernel fuses it with its last product.
        assert!(sum.iter().zip(&other).all(|(want, got)| (want - got).abs() <= 1e-6 * want.abs().max(1.0)));
    }
}
