//! From numbers to places on an axis.

/// How numbers are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From zero, in equal steps.
    Linear,
    /// Each doubling takes as much room as the last.
    Doubling,
}

/// An axis of numbers between two places.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// Ticks on an axis, about.
const TICKS: f64 = 4.0;

impl Scale {
    /// Room for all `values` between the places `from` and `to`.
    pub fn new(kind: Kind, values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let largest = values.clone().fold(f64::MIN_POSITIVE, f64::max);
        let (low, high) = match kind {
            Kind::Linear => {
                let step = step(largest);
                (0.0, step * (1.02 * largest / step).ceil())
            }
            Kind::Doubling => {
                let smallest = values.fold(f64::INFINITY, f64::min).min(largest);
                let (low, high) = (smallest.log2(), largest.log2());
                // A little room at both ends; one number alone stands in the middle.
                let room = (0.08 * (high - low)).max(0.15);
                (low - room, high + room)
            }
        };
        Self { kind, low, high, from, to }
    }

    /// Where a number lies.
    pub fn place(&self, value: f64) -> f64 {
        let value = match self.kind {
            Kind::Linear => value,
            Kind::Doubling => value.log2(),
        };
        self.from + (self.to - self.from) * (value - self.low) / (self.high - self.low)
    }

    /// Round numbers to write beside the axis.
    pub fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = step(self.high / 1.02);
                let count = (self.high / step).round() as usize;
                (0..=count).map(|tick| tick as f64 * step).collect()
            }
            Kind::Doubling => {
                let (first, last) = (self.low.ceil() as i32, self.high.floor() as i32);
                let every = ((last - first) / 8 + 1) as usize;
                (first..=last).step_by(every).map(|power| f64::from(power).exp2()).collect()
            }
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that gives a few ticks.
fn step(largest: f64) -> f64 {
    let rough = largest / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_over_the_largest_value() {
        let scale = Scale::new(Kind::Linear, [3.0, 17.0].into_iter(), 100.0, 0.0);
        assert_eq!(scale.ticks(), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!((scale.place(0.0), scale.place(20.0)), (100.0, 0.0));
    }

    #[test]
    fn doublings_are_equally_far_apart() {
        let scale = Scale::new(Kind::Doubling, [1.0, 2.0, 4.0].into_iter(), 0.0, 100.0);
        assert_eq!(scale.ticks(), [1.0, 2.0, 4.0]);
        let [one, two, four] = [1.0, 2.0, 4.0].map(|value| scale.place(value));
        assert!(((two - one) - (four - two)).abs() < 1e-9 && one > 0.0 && four < 100.0);
    }

    #[test]
    fn one_value_alone_is_still_on_the_axis() {
        for kind in [Kind::Linear, Kind::Doubling] {
            let place = Scale::new(kind, [8.0].into_iter(), 0.0, 100.0).place(8.0);
            assert!((0.0..=100.0).contains(&place), "{kind:?}: {place}");
        }
    }
}
