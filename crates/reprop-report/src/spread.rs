//! The middle of measured times, and how far they lie apart.

/// Median and quartiles.
///
/// ```
/// use reprop_report::Spread;
///
/// let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
/// assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 4.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// A quarter of the values lie below.
    pub low: f64,
    /// Half of the values lie below.
    pub median: f64,
    /// A quarter of the values lie above.
    pub high: f64,
}

impl Spread {
    /// Of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quantile = |part: f64| {
            let place = part * last as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Self { low: quantile(0.25), median: quantile(0.5), high: quantile(0.75) })
    }

    /// The distance of the quartiles beside the median.
    pub fn relative(&self) -> f64 {
        (self.high - self.low) / self.median
    }

    /// Whether the middle halves of both have anything in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        let median = |values: &[f64]| Spread::of(values).map(|spread| spread.median);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn quartiles_lie_between_values_where_they_must() {
        let spread = Spread::of(&[0.0, 10.0, 20.0, 30.0]).expect("four values");
        assert_eq!((spread.low, spread.high), (7.5, 22.5));
        assert!((spread.relative() - 1.0).abs() < f64::EPSILON);
    }
}
