//! The order of an epoch, and the batches it is cut into.

use std::iter::FusedIterator;

use crate::random::{Key, Use};
use crate::{Error, Result};

/// The order in which an epoch visits `0..count`: a permutation that depends on the arguments alone.
///
/// ```
/// use reprop_data::order;
///
/// assert_eq!(order(10, 42, 3), order(10, 42, 3));
/// assert_ne!(order(10, 42, 3), order(10, 42, 4));
/// ```
pub fn order(count: usize, seed: u64, epoch: u64) -> Vec<usize> {
    Key::new(Use::Order, &[seed, epoch]).shuffle(count)
}

/// The batches of one epoch: lists of indices, cut from [`order`].
///
/// The last batch is smaller if the set does not divide evenly, unless it is dropped by [`Self::drop_incomplete`].
///
/// ```
/// use reprop_data::Batches;
///
/// let epoch: Vec<Vec<usize>> = Batches::new(10, 4, 42, 0)?.collect();
/// assert_eq!(epoch.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
///
/// // A run that stopped after one batch goes on with the second.
/// let rest: Vec<Vec<usize>> = Batches::new(10, 4, 42, 0)?.resume_at(1)?.collect();
/// assert_eq!(rest, epoch[1..]);
/// # Ok::<(), reprop_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batches {
    order: Vec<usize>,
    batch: usize,
    position: usize,
}

impl Batches {
    /// The batches of `epoch`, in the order of `seed`, each of `batch` out of `count` samples.
    ///
    /// ```
    /// assert_eq!(reprop_data::Batches::new(1437, 64, 42, 0)?.len(), 23);
    /// # Ok::<(), reprop_data::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An empty set, or an empty batch.
    pub fn new(count: usize, batch: usize, seed: u64, epoch: u64) -> Result<Self> {
        if batch == 0 {
            return Err(Error::EmptyBatch { count });
        }
        if count == 0 {
            return Err(Error::EmptySet { batch });
        }
        Ok(Self { order: order(count, seed, epoch), batch, position: 0 })
    }

    /// Drops the last batch if it is incomplete. Which samples fall out changes from epoch to epoch.
    ///
    /// ```
    /// assert_eq!(reprop_data::Batches::new(10, 4, 42, 0)?.drop_incomplete()?.len(), 2);
    /// # Ok::<(), reprop_data::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No batch is complete: nothing would be left.
    pub fn drop_incomplete(mut self) -> Result<Self> {
        let count = self.order.len();
        if count < self.batch {
            return Err(Error::NoCompleteBatch { count, batch: self.batch });
        }
        self.order.truncate(count - count % self.batch);
        Ok(self)
    }

    /// Goes to batch `position`, counted from the epoch's start.
    ///
    /// ```
    /// use reprop_data::Batches;
    ///
    /// let mut batches = Batches::new(10, 4, 42, 0)?;
    /// batches.next();
    /// let resumed = Batches::new(10, 4, 42, 0)?.resume_at(batches.position())?;
    /// assert!(batches.eq(resumed));
    /// # Ok::<(), reprop_data::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A position after the epoch's end. The end itself is none: an epoch may be over.
    pub fn resume_at(mut self, position: usize) -> Result<Self> {
        let batches = self.total();
        if position > batches {
            return Err(Error::PastTheEnd { position, batches });
        }
        self.position = position;
        Ok(self)
    }

    /// How many batches lie behind: what [`Self::resume_at`] takes.
    ///
    /// ```
    /// let mut batches = reprop_data::Batches::new(10, 4, 42, 0)?;
    /// batches.next();
    /// assert_eq!(batches.position(), 1);
    /// # Ok::<(), reprop_data::Error>(())
    /// ```
    pub fn position(&self) -> usize {
        self.position
    }

    /// Batches of the whole epoch.
    ///
    /// ```
    /// assert_eq!(reprop_data::Batches::new(10, 4, 42, 0)?.resume_at(2)?.total(), 3);
    /// # Ok::<(), reprop_data::Error>(())
    /// ```
    pub fn total(&self) -> usize {
        self.order.len().div_ceil(self.batch)
    }
}

impl Iterator for Batches {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let batch = self.order.chunks(self.batch).nth(self.position)?.to_vec();
        self.position += 1;
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.total().saturating_sub(self.position);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Batches {}
impl FusedIterator for Batches {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_permutation() {
        for count in [0, 1, 2, 3, 1437] {
            let mut sorted = order(count, 42, 0);
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_order_depends_on_seed_and_epoch_and_nothing_else() {
        let first = order(1437, 42, 0);
        assert_eq!(first, order(1437, 42, 0));
        assert_ne!(first, order(1437, 42, 1));
        assert_ne!(first, order(1437, 43, 0));
        assert_ne!(order(1437, 0, 1), order(1437, 1, 0));
    }

    /// A resumed run of a later version must see the batches of the version that began it.
    #[test]
    fn an_order_is_the_same_in_every_version() {
        assert_eq!(order(10, 42, 0), [1, 6, 0, 4, 8, 7, 9, 3, 2, 5]);
    }

    #[test]
    fn batches_are_the_order_cut_into_pieces() {
        for (count, batch) in [(1, 1), (10, 3), (9, 3), (2, 64), (1437, 64)] {
            let batches = Batches::new(count, batch, 7, 5).unwrap();
            let total = batches.len();
            let all: Vec<Vec<usize>> = batches.collect();
            assert_eq!(all.len(), total);
            assert!(all[..total - 1].iter().all(|indices| indices.len() == batch));
            assert_eq!(all.concat(), order(count, 7, 5));
        }
    }

    #[test]
    fn an_incomplete_batch_is_dropped_on_request() {
        let all: Vec<Vec<usize>> = Batches::new(10, 3, 7, 5).unwrap().drop_incomplete().unwrap().collect();
        assert_eq!(all.concat(), order(10, 7, 5)[..9]);
        let even = Batches::new(9, 3, 7, 5).unwrap().drop_incomplete().unwrap();
        assert_eq!(even.len(), 3);
    }

    #[test]
    fn a_resumed_epoch_goes_on_where_it_stopped() {
        let all: Vec<Vec<usize>> = Batches::new(10, 3, 7, 5).unwrap().collect();
        for position in 0..=4 {
            let rest = Batches::new(10, 3, 7, 5).unwrap().resume_at(position).unwrap();
            assert_eq!(rest.len(), 4 - position);
            assert_eq!(rest.collect::<Vec<_>>(), all[position..]);
        }
    }

    #[test]
    fn what_cannot_be_batched_is_refused_with_its_numbers() {
        assert_eq!(Batches::new(10, 0, 0, 0).unwrap_err(), Error::EmptyBatch { count: 10 });
        assert_eq!(Batches::new(0, 4, 0, 0).unwrap_err(), Error::EmptySet { batch: 4 });
        let batches = Batches::new(10, 4, 0, 0).unwrap();
        assert_eq!(batches.clone().resume_at(4).unwrap_err(), Error::PastTheEnd { position: 4, batches: 3 });
        let large = Batches::new(10, 11, 0, 0).unwrap();
        assert_eq!(large.drop_incomplete().unwrap_err(), Error::NoCompleteBatch { count: 10, batch: 11 });
    }
}
