//! Two halves of a backward pass on two threads, on two streams where the device runs them side by side, and none more.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use burn::module::Module;
use burn::tensor::{StreamId, Tensor};
use reprop::{Context, Coupling, Gradients, Residual, Strategy};

use crate::common::{assert_same, stepped, training, user_data, user_network, with_threads};

/// Threads and streams on which derivatives were computed, and on which blocks were recovered.
type Places = BTreeSet<(String, u64)>;
static GRADS: Mutex<Places> = Mutex::new(BTreeSet::new());
static RECOVERED: Mutex<Places> = Mutex::new(BTreeSet::new());

/// Twice its input, which notes the streams it runs on.
#[derive(Module, Debug)]
struct Twice;

fn here() -> (String, u64) {
    (format!("{:?}", thread::current().id()), StreamId::current().value)
}

fn note(places: &Mutex<Places>) {
    places.lock().expect("no panic").insert(here());
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
fn gradients_stay_where_the_caller_is_and_recovery_has_one_thread_of_its_own() {
    let network = user_network(&[5], &[8], |_, _| Coupling::new(Twice, Twice));
    let data = user_data(2);
    let expected = stepped(&network, &data, training(1), Strategy::Reprop);
    let caller = here();
    let seen = |places: &Mutex<Places>| std::mem::take(&mut *places.lock().expect("no panic"));
    let alone = BTreeSet::from([caller.clone()]);
    assert_eq!((seen(&GRADS), seen(&RECOVERED)), (alone.clone(), alone.clone()));

    let found = stepped(&network, &data, training(1), Strategy::PaReprop);
    assert_same(&expected, &found, "pareprop");
    assert_eq!(seen(&GRADS), alone);
    let recovery = seen(&RECOVERED);
    let [(thread, stream)] = &recovery.iter().collect::<Vec<_>>()[..] else { panic!("{recovery:?}") };
    assert_ne!(*thread, caller.0);
    // Behind wgpu all streams share a queue, and the second thread takes the caller's.
    assert_eq!(*stream != caller.1, crate::has_streams(), "{recovery:?} beside {caller:?}");

    // From any number of threads, recovery stays on that one.
    for threads in [1, 3] {
        let found = with_threads(threads, || stepped(&network, &data, training(1), Strategy::PaReprop));
        assert_same(&expected, &found, "pareprop in a pool");
    }
    assert!(seen(&RECOVERED).iter().all(|place| place.0 == *thread));
}
