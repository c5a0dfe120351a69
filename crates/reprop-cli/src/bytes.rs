//! Sizes as people write and read them.

pub use reprop_report::human;

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// `2GiB`, `1.5 MiB`, `4096`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|number| (number, *unit)))
        .unwrap_or((text, 1));
    match number.trim().parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok((number * unit as f64) as u64),
        _ => Err("write a size such as 2GiB, 1.5MiB or 4096".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("1.5 MiB"), Ok(3 << 19));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        for wrong in ["", "GiB", "-1", "2XB", "NaN", "inf"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
