//! Several forwards may be open at once, and may be reversed in any order.

use reprop::{Gradients, Meter, Network, Strategy};

use crate::common::{Bits, assert_same, bits, mixed, training, user_data, user_network};

const STRATEGIES: [Strategy; 3] = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop];

/// Gradients of three calls, reversed in `order` after all forwards have run, each into a sum of its own.
fn interleaved(strategies: [Strategy; 3], order: [usize; 3]) -> Vec<(u32, Bits)> {
    let network = user_network(&[2, 1], &[8, 6], mixed(0.25));
    let (input, target) = user_data(3);
    let mut tapes: Vec<_> = strategies
        .into_iter()
        .enumerate()
        .map(|(call, strategy)| {
            let pass = training(5).step(2).call(call as u64);
            Some(network.record(input.clone(), target.clone(), pass, strategy).expect("a tape"))
        })
        .collect();
    let mut found: Vec<_> = (0..3).map(|_| None).collect();
    for call in order {
        let mut gradients = Gradients::new(&Meter::new());
        let tape = tapes[call].take().expect("each call is reversed once");
        let (loss, _) = tape.backward(&mut gradients).expect("a backward");
        found[call] = Some((loss.to_bits(), bits(&network, &gradients.into_params())));
    }
    found.into_iter().map(|gradients| gradients.expect("each call is reversed")).collect()
}

#[test]
fn forwards_before_a_backward_change_nothing_in_any_order_and_any_mixture_of_strategies() {
    let reference = interleaved([Strategy::Stored; 3], [0, 1, 2]);
    assert_ne!(reference[0].1, reference[1].1, "calls draw different masks");
    let orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0]];
    for first in STRATEGIES {
        for second in STRATEGIES {
            for order in orders {
                let found = interleaved([first, second, first], order);
                for (call, (expected, found)) in reference.iter().zip(&found).enumerate() {
                    assert_same(expected, found, &format!("call {call} of {first}, {second} in {order:?}"));
                }
            }
        }
    }
}

#[test]
fn an_open_tape_equals_a_step_made_at_once() {
    let network = user_network(&[2, 1], &[8, 6], mixed(0.25));
    let (input, target) = user_data(3);
    let pass = training(5).step(2).call(1);
    let step = network.step(input, target, pass, Strategy::PaReprop).expect("a step");
    let alone = (step.loss.to_bits(), bits(&network, &step.gradients));
    assert_same(&alone, &interleaved(STRATEGIES, [2, 0, 1])[1], "second of three calls");
}
