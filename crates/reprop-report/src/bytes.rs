//! Sizes as people read them.

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A size with its unit.
///
/// ```
/// assert_eq!(reprop_report::human(3 << 19), "1.5 MiB");
/// ```
pub fn human(bytes: u64) -> String {
    let (name, unit) = UNITS.iter().find(|(_, unit)| bytes >= *unit).copied().unwrap_or(("B", 1));
    if unit == 1 { format!("{bytes} B") } else { format!("{:.1} {name}", bytes as f64 / unit as f64) }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn sizes_are_written_with_their_unit() {
        assert_eq!([human(17), human(2048), human(3 << 19)], ["17 B", "2.0 KiB", "1.5 MiB"]);
    }
}
