//! A value that is none must not vanish on its way: a ReLU that made zero of it would hide that a network has diverged.

mod common;

use common::workspaces;
use reprop_kernels::attention::{CrossAttention, Keep, Masks};
use reprop_kernels::batch_norm::BatchNorm;
use reprop_kernels::conv::{Images, Slide, pool};
use reprop_kernels::relu;

/// More than a vector of any set, and an end that is none.
const LEN: usize = 37;

fn only_at(at: usize) -> Vec<f32> {
    (0..LEN).map(|i| if i == at { f32::NAN } else { i as f32 - 20.0 }).collect()
}

#[test]
fn a_relu_keeps_what_is_not_a_number() {
    for ws in workspaces() {
        for at in [0, 20, LEN - 1] {
            let mut y = vec![0.0; LEN];
            relu::forward(ws.isa(), &only_at(at), &mut y);
            let there: Vec<usize> = (0..LEN).filter(|&i| y[i].is_nan()).collect();
            assert_eq!(there, [at], "{:?}", ws.isa());
        }
    }
}

#[test]
fn a_norm_with_a_relu_gives_nothing_but_nan_in_a_channel_with_one() {
    let (channels, rows) = (LEN, 5);
    let (scale, bias) = (vec![1.0; channels], vec![0.5; channels]);
    let norm = BatchNorm { scale: &scale, bias: &bias, eps: 1e-5 };
    for ws in workspaces() {
        let mut x: Vec<f32> = (0..rows).flat_map(|row| (0..LEN).map(move |i| (i * row) as f32)).collect();
        x[2 * channels + 33] = f32::NAN;
        let mut y = vec![0.0; x.len()];
        let moments = norm.forward(&x, &mut y, &ws);
        norm.apply(&x, &moments, None, true, &mut y, &ws);
        for row in y.chunks(channels) {
            let there: Vec<usize> = (0..channels).filter(|&i| row[i].is_nan()).collect();
            assert_eq!(there, [33], "{:?}", ws.isa());
        }
    }
}

#[test]
fn a_maximum_of_pixels_is_none_where_one_of_them_is() {
    let (images, slide) =
        (Images { batch: 1, height: 4, width: 4 }, Slide { kernel: 3, stride: 1, padding: 1 });
    for ws in workspaces() {
        for pixel in [0, 5, 15] {
            let mut x: Vec<f32> = (0..images.len(LEN)).map(|i| (i * 7 % 31) as f32).collect();
            x[pixel * LEN + 33] = f32::NAN;
            let mut y = vec![0.0; x.len()];
            pool::max_forward(ws.isa(), images, slide, LEN, &x, &mut y);
            for (at, y) in y.iter().enumerate() {
                let (place, channel) = (at / LEN, at % LEN);
                let beside = |axis: fn(usize) -> usize| axis(place).abs_diff(axis(pixel)) <= 1;
                let sees = channel == 33 && beside(|at| at / 4) && beside(|at| at % 4);
                assert_eq!(y.is_nan(), sees, "{:?}: {place} of {pixel}, channel {channel}", ws.isa());
            }
        }
    }
}

#[test]
fn attention_of_a_query_that_is_not_a_number_is_none_and_others_are_untouched() {
    let (queries, keys, heads, head_width) = (3, LEN, 1, 4);
    let attention = CrossAttention { batch: 1, queries, keys, heads, head_width, masks: Masks::default() };
    let k: Vec<f32> = (0..keys * head_width).map(|i| (i % 7) as f32 / 7.0).collect();
    let mut q = vec![0.5; queries * head_width];
    q[head_width + 2] = f32::NAN;
    for ws in workspaces() {
        let mut o = vec![0.0; q.len()];
        drop(attention.forward(&q, &k, &k, &mut o, Keep::Nothing, &ws));
        let there: Vec<bool> = o.iter().map(|o| o.is_nan()).collect();
        let want: Vec<bool> = (0..o.len()).map(|i| i / head_width == 1).collect();
        assert_eq!(there, want, "{:?}", ws.isa());
    }
}

#[test]
fn a_hidden_key_may_be_anything() {
    let (keys, head_width) = (LEN, 4);
    let visible: Vec<bool> = (0..keys).map(|key| key != 5 && key != 35).collect();
    let masks = Masks { keys: Some(&visible), ..Masks::default() };
    let attention = CrossAttention { batch: 1, queries: 2, keys, heads: 1, head_width, masks };
    let (q, v) = (vec![0.5; 2 * head_width], vec![2.0; keys * head_width]);
    let mut k = vec![0.25; keys * head_width];
    k[5 * head_width] = f32::NAN;
    k[35 * head_width] = f32::INFINITY;
    for ws in workspaces() {
        let mut o = vec![0.0; q.len()];
        drop(attention.forward(&q, &k, &v, &mut o, Keep::Nothing, &ws));
        // Probabilities add up to one but for the rounding of 35 of them.
        assert!(o.iter().all(|o| (o - 2.0).abs() < 1e-5), "{:?}: {o:?}", ws.isa());
    }
}
