//! Two halves of a backward pass on two streams of the device, and none more.

use std::collections::BTreeSet;
use std::sync::Mutex;

use burn::module::Module;
use burn::tensor::{StreamId, Tensor};
use reprop::{Context, Coupling, Gradients, Residual, Strategy};

use crate::common::{assert_same, stepped, training, user_data, user_network, with_threads};

/// Streams on which derivatives were computed, and on which blocks were recovered.
static GRADS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
static RECOVERED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Twice its input, which notes the streams it runs on.
#[derive(Module, Debug)]
struct Twice;

fn note(streams: &Mutex<BTreeSet<u64>>) {
    streams.lock().expect("no panic").insert(StreamId::current().value);
}

impl Residual<3> for Twice {
    type Saved = ();

    fn forward(&self, x: Tensor<3>, _: &Context<'_>) -> Tensor<3> {
        x.mul_scalar(2.0).tanh()
    }

    fn forward_saving(&self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, ()) {
        note(&RECOVERED);
        (self.forward(x, context), ())
    }

    fn vjp(&self, (): (), dy: Tensor<3>, _: &Context<'_>, _: &mut Gradients) -> Tensor<3> {
        note(&GRADS);
        dy.mul_scalar(2.0)
    }
}

#[test]
fn gradients_stay_on_the_callers_stream_and_recovery_has_one_of_its_own() {
    let network = user_network(&[5], &[8], |_, _| Coupling::new(Twice, Twice));
    let data = user_data(2);
    let expected = stepped(&network, &data, training(1), Strategy::Reprop);
    let caller = StreamId::current().value;
    let seen = |streams: &Mutex<BTreeSet<u64>>| std::mem::take(&mut *streams.lock().expect("no panic"));
    assert_eq!((seen(&GRADS), seen(&RECOVERED)), (BTreeSet::from([caller]), BTreeSet::from([caller])));

    let found = stepped(&network, &data, training(1), Strategy::PaReprop);
    assert_same(&expected, &found, "pareprop");
    assert_eq!(seen(&GRADS), BTreeSet::from([caller]));
    let recovery = seen(&RECOVERED);
    assert!(recovery.len() == 1 && !recovery.contains(&caller), "{recovery:?} beside {caller}");

    // From any number of threads, recovery stays on that one stream.
    for threads in [1, 3] {
        let found = with_threads(threads, || stepped(&network, &data, training(1), Strategy::PaReprop));
        assert_same(&expected, &found, "pareprop in a pool");
    }
    assert_eq!(seen(&RECOVERED), recovery);
}
