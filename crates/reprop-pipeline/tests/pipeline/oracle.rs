//! PETRA, restated without a pipeline: lists, loops and a clock.
//!
//! At tick `t` stage `j` (from 0) of `J` does the forward of batch `t - j` and then the backward of batch
//! `t - (2 (J - 1) - j)`; what it sends is there for its neighbours one tick later.

use std::collections::HashMap;
use std::ops::Range;

use burn::optim::ModuleOptimizer;
use burn::tensor::{Int, Tensor};
use reprop::{
    Arithmetic, Gradients, Head, Meter, Network, Pass, Piece, Stem, Streams, Transition, named_parameters,
};
use reprop_pipeline::{Job, Method, Piped, Settings};

use crate::common::{Bits, Noise, assert_same, data, resnet, run, settings, vit};

struct Place<const D: usize, N> {
    network: N,
    optimizer: ModuleOptimizer,
    gradients: Gradients,
    places: Range<usize>,
    /// Inputs of what is not reversible, by batch and place.
    images: HashMap<u64, Tensor<4>>,
    buffers: HashMap<(u64, usize), Streams<D>>,
}

fn enter<const D: usize>(streams: Streams<D>) -> Streams<D> {
    let arithmetic = Arithmetic::default();
    Streams::new(arithmetic.enter(streams.x1), arithmetic.enter(streams.x2))
}

/// Parameters after `batches` batches, and the losses.
#[expect(clippy::too_many_lines, reason = "the method on one page, to be read beside the paper")]
fn oracle<const D: usize, N>(network: &N, settings: &Settings, job: &Noise) -> (Bits, Vec<u32>)
where
    N: Network<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>>,
{
    let (stages, k, batches) = (settings.stages.len(), settings.accumulate, settings.batches);
    let last = stages - 1;
    let end = network.places() - 1;
    let mut row: Vec<Place<D, N>> = settings
        .stages
        .iter()
        .map(|places| Place {
            network: network.clone(),
            optimizer: job.make_optimizer(),
            gradients: Gradients::new(&Meter::new()),
            places: places.clone(),
            images: HashMap::new(),
            buffers: HashMap::new(),
        })
        .collect();
    let mut up: HashMap<(usize, u64), Streams<D>> = HashMap::new();
    let mut down: HashMap<(usize, u64), (Streams<D>, Streams<D>)> = HashMap::new();
    let mut losses = Vec::new();
    for tick in 0..batches + 2 * stages as u64 {
        let (mut up_next, mut down_next) = (HashMap::new(), HashMap::new());
        for (j, stage) in row.iter_mut().enumerate() {
            let pass = |batch| Pass::training(7).step(batch).loss_weight(1.0 / k as f64);
            let forward = tick.checked_sub(j as u64).filter(|batch| *batch < batches);
            let mut at_top = None;
            if let Some(batch) = forward {
                let pass = pass(batch);
                let mut x: Option<Streams<D>> = up.remove(&(j, batch));
                for place in stage.places.clone() {
                    let context = pass.context(place);
                    if place == 0 {
                        stage.images.insert(batch, data(batch).0);
                        x = Some(enter(stage.network.stem().forward(data(batch).0, &context)));
                    } else if place < end {
                        let input = x.take().expect("streams from below");
                        x = Some(match stage.network.pieces()[place - 1] {
                            Piece::Block(block) => block.forward(input, &context),
                            Piece::Transition(transition) => {
                                stage.buffers.insert((batch, place), input.clone());
                                enter(Transition::forward(transition, input, &context))
                            }
                        });
                    }
                }
                let x = x.expect("streams");
                if j < last {
                    up_next.insert((j + 1, batch), x);
                } else {
                    at_top = Some(x);
                }
            }
            let backward = tick.checked_sub((2 * last - j) as u64).filter(|batch| *batch < batches);
            let Some(batch) = backward else { continue };
            let pass = pass(batch);
            let (mut y, mut d) = if j == last {
                let x = at_top.take().expect("the last stage goes back at once");
                let head = stage.network.head();
                let context = pass.context(end);
                let (loss, _, saved) = head.loss_saving(x.clone(), data(batch).1, &context);
                losses.push(loss.into_scalar::<f32>().to_bits());
                (x, head.vjp(saved, 1.0 / k as f64, &context, &mut stage.gradients))
            } else {
                down.remove(&(j, batch)).expect("gradients from above")
            };
            for place in stage.places.clone().rev().filter(|place| *place < end) {
                let context = pass.context(place);
                if place == 0 {
                    let stem = stage.network.stem();
                    let images = stage.images.remove(&batch).expect("buffered images");
                    let (_, saved) = stem.forward_saving(images, &context);
                    stem.vjp(saved, d.clone(), &context, &mut stage.gradients);
                    continue;
                }
                let pieces = stage.network.pieces();
                let (x, saved) = match pieces[place - 1] {
                    Piece::Block(block) => block.recover(y, &context),
                    Piece::Transition(transition) => {
                        let x = stage.buffers.remove(&(batch, place)).expect("a buffered input");
                        let (_, saved) = transition.forward_saving(x.clone(), &context);
                        (x, saved)
                    }
                };
                d = match pieces[place - 1] {
                    Piece::Block(block) => block.grads(saved, d, &context, &mut stage.gradients),
                    Piece::Transition(transition) => transition.vjp(saved, d, &context, &mut stage.gradients),
                };
                y = x;
            }
            if j > 0 {
                down_next.insert((j - 1, batch), (y, d));
            }
            stage.network = stage.gradients.take_statistics().apply(stage.network.clone());
            if (batch + 1) % k == 0 {
                let all = std::mem::replace(&mut stage.gradients, Gradients::new(&Meter::new()));
                let network = stage.network.clone();
                stage.network = stage.optimizer.step((job.rate)(batch), network, all.into_params());
            }
        }
        up.extend(up_next);
        down.extend(down_next);
    }
    // Each parameter from the stage that changed it; where none did, all have the same.
    let before = named_parameters(network);
    let after: Vec<_> = row.iter().map(|stage| named_parameters(&stage.network)).collect();
    let parameters = before.into_iter().enumerate().map(|(index, (name, initial))| {
        let changed =
            after.iter().map(|all| &all[index].1).find(|data| data.as_bytes() != initial.as_bytes());
        (name, changed.unwrap_or(&initial).as_bytes().to_vec())
    });
    (parameters.collect(), losses)
}

fn assert_oracle<const D: usize, N>(network: &N, stages: usize, accumulate: u64)
where
    N: Piped<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>>,
    Noise: Job<D, N>,
{
    let settings = Settings { accumulate, ..settings(Method::Petra, network.places(), stages, 30) };
    for adam in [false, true] {
        let job = Noise { adam, rate: |batch| 0.01 / (1.0 + 0.1 * batch as f64), ..Noise::default() };
        let (expected, losses) = oracle(network, &settings, &job);
        let found = run(network, &settings, &job);
        let what = format!("{stages} stages, k {accumulate}, adam {adam}");
        let told: Vec<u32> = job.reports.lock().unwrap().iter().map(|report| report.loss.to_bits()).collect();
        assert_eq!(told, losses, "{what}: losses");
        assert_same(&expected, &crate::common::bits(&found.network), &what);
    }
}

#[test]
fn petra_gives_the_bits_of_its_equations_with_stages_that_are_not_reversible() {
    for accumulate in [1, 4] {
        assert_oracle(&resnet(), 8, accumulate);
        assert_oracle(&resnet(), 3, accumulate);
    }
}

#[test]
fn petra_gives_the_bits_of_its_equations_with_a_transformer() {
    for accumulate in [1, 4] {
        assert_oracle(&vit(4), 4, accumulate);
    }
}
