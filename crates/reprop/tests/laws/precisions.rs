//! Half precision of F and G is replayed identically, and matters.

use reprop::{Precision, Strategy};

use crate::common::{assert_equal_gradients, mixed, stepped, training, transformer, user_data, user_network};

#[test]
fn gradients_are_equal_in_half_precision() {
    let hand_written = user_network(&[3], &[8], transformer(0.2));
    let user = user_network(&[2, 1], &[8, 6], mixed(0.2));
    let data = user_data(3);
    let exact = stepped(&hand_written, &data, training(4), Strategy::Stored);
    for precision in [Precision::Bf16, Precision::F16] {
        let pass = || training(4).precision(precision);
        let what = format!("{precision:?}");
        let found = assert_equal_gradients(&hand_written, &data, 3, pass, &what);
        assert_ne!(found, exact, "{what} must matter");
        assert_equal_gradients(&user, &data, 3, pass, &what);
    }
}
