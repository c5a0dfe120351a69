//! The fixed order in which a stage works.

/// What a stage does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The forward of a batch.
    Forward(u64),
    /// The backward of a batch.
    Backward(u64),
}

/// Warm-up forwards, then forward and backward in turn, then what is left of the backwards.
///
/// The order depends on nothing that happens, so that a run on many machines does the very operations of a run on one.
/// Between a batch's forward and its backward a stage does `warm_up` backwards of others: its delay.
///
/// ```
/// use reprop_pipeline::{Order, Turn::{Backward, Forward}};
///
/// let turns: Vec<_> = Order::new(1, 3).collect();
/// assert_eq!(turns, [Forward(0), Forward(1), Backward(0), Forward(2), Backward(1), Backward(2)]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    warm_up: u64,
    batches: u64,
    forwards: u64,
    backwards: u64,
}

impl Order {
    /// The order of a stage with this many warm-up forwards, over this many batches.
    pub fn new(warm_up: u64, batches: u64) -> Self {
        Self { warm_up, batches, forwards: 0, backwards: 0 }
    }

    /// The order from where a stage stands that has done the backward of `batch`, and what its order calls for before it.
    pub fn after(self, batch: u64) -> Self {
        let backwards = batch + 1;
        Self { backwards, forwards: (backwards + self.warm_up).min(self.batches), ..self }
    }

    /// Backwards done.
    pub fn backwards(&self) -> u64 {
        self.backwards
    }

    /// Forwards done.
    pub fn forwards(&self) -> u64 {
        self.forwards
    }
}

impl Iterator for Order {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        if self.forwards < self.batches && self.forwards - self.backwards <= self.warm_up {
            self.forwards += 1;
            Some(Turn::Forward(self.forwards - 1))
        } else if self.backwards < self.forwards {
            self.backwards += 1;
            Some(Turn::Backward(self.backwards - 1))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_goes_forward_and_backward_once_and_an_order_resumes() {
        for (warm_up, batches) in [(0, 4), (2, 5), (6, 3), (4, 20)] {
            let order = Order::new(warm_up, batches);
            let turns: Vec<Turn> = order.clone().collect();
            let of = |wanted: fn(u64) -> Turn| (0..batches).all(|batch| turns.contains(&wanted(batch)));
            assert!(turns.len() as u64 == 2 * batches && of(Turn::Forward) && of(Turn::Backward));
            for (index, turn) in turns.iter().enumerate() {
                if let Turn::Backward(batch) = turn {
                    assert_eq!(order.clone().after(*batch).collect::<Vec<_>>(), turns[index + 1..]);
                }
            }
        }
    }
}
