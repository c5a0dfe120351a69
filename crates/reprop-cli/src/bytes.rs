//! Sizes as people write and read them.

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

/// Three digits and a unit.
pub fn human(bytes: u64) -> String {
    let (name, unit) = UNITS.iter().find(|(_, unit)| bytes >= *unit).copied().unwrap_or(("B", 1));
    if unit == 1 { format!("{bytes} B") } else { format!("{:.1} {name}", bytes as f64 / unit as f64) }
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

    #[test]
    fn sizes_are_written_with_their_unit() {
        assert_eq!([human(17), human(2048), human(3 << 19)], ["17 B", "2.0 KiB", "1.5 MiB"]);
    }
}
