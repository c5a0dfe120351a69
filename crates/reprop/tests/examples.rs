//! Examples whose assertions are worth running in the gate.

#[path = "../examples/plan.rs"]
#[allow(dead_code, reason = "an example has a main function, which a test does not call")]
mod plan;
#[path = "../examples/wave_adjoint.rs"]
#[allow(dead_code, reason = "an example has a main function, which a test does not call")]
mod wave_adjoint;

#[test]
fn the_adjoint_of_the_wave_equation_passes_its_taylor_test() {
    wave_adjoint::check().unwrap();
}

#[test]
fn plans_fit_every_budget_with_one_digest() {
    plan::check().unwrap();
}
