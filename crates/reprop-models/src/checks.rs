//! Settings that make no network, told in a sentence with their numbers.

/// An error for the first that is zero.
pub fn positive(values: &[(&str, usize)]) -> Result<(), String> {
    match values.iter().find(|(_, value)| *value == 0) {
        Some((name, _)) => Err(format!("the {name} must be at least 1, found 0")),
        None => Ok(()),
    }
}

/// An error for the first that is not in `[0, 1)`.
pub fn rates(rates: &[(&str, f64)]) -> Result<(), String> {
    match rates.iter().find(|(_, rate)| !(0.0..1.0).contains(rate)) {
        Some((name, rate)) => Err(format!("the {name} must be in [0, 1), found {rate}")),
        None => Ok(()),
    }
}
