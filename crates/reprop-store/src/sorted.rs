//! A map for a great many small entries.

use std::fmt;

/// Entries in one piece of memory. A removal moves the rest of its piece.
const PIECE: usize = 64;

/// An ordered map whose keys mostly come in ascending order, and go from the end: pieces of sorted entries, each full before
/// the next is begun. The standard library's B-tree would leave half of every node empty.
pub(crate) struct Sorted<K, V> {
    /// None of them empty.
    pieces: Vec<Vec<(K, V)>>,
}

impl<K: Ord + Copy, V> Sorted<K, V> {
    /// The piece that a key is in, or belongs to.
    fn piece(&self, key: &K) -> usize {
        let after = self.pieces.partition_point(|piece| piece[0].0 <= *key);
        after.saturating_sub(1)
    }

    fn place(&self, key: &K) -> Option<(usize, usize)> {
        let piece = self.piece(key);
        let place = self.pieces.get(piece)?.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        Some((piece, place))
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_some()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.place(key).map(|(piece, place)| &self.pieces[piece][place].1)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).map(|(piece, place)| &mut self.pieces[piece][place].1)
    }

    /// Takes an entry in; gives what was there under its key.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let mut at = self.piece(&key);
        let Some(piece) = self.pieces.get_mut(at) else {
            self.pieces.push(piece_of([(key, value)]));
            return None;
        };
        let place = match piece.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(place) => return Some(std::mem::replace(&mut piece[place].1, value)),
            Err(place) => place,
        };
        if piece.len() < PIECE {
            piece.insert(place, (key, value));
            return None;
        }
        // At the end a piece stays full; elsewhere the next one has to come between as well.
        let upper = piece.split_off(if place == PIECE { PIECE } else { PIECE / 2 });
        self.pieces.insert(at + 1, piece_of(upper));
        let lower = self.pieces[at].len();
        let place = if place < lower {
            place
        } else {
            at += 1;
            place - lower
        };
        self.pieces[at].insert(place, (key, value));
        None
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (piece, place) = self.place(key)?;
        let (_, value) = self.pieces[piece].remove(place);
        if self.pieces[piece].is_empty() {
            self.pieces.remove(piece);
        }
        Some(value)
    }

    /// All entries, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.pieces.iter().flatten().map(|(key, value)| (key, value))
    }
}

/// A piece with room for all that it may come to hold, so that it never moves.
fn piece_of<T>(entries: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut piece = Vec::with_capacity(PIECE);
    piece.extend(entries);
    piece
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<K: Ord + Copy + fmt::Debug, V: fmt::Debug> fmt::Debug for Sorted<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_map_that_a_tree_is(work in prop::collection::vec((any::<bool>(), 0..400_u32), 0..2000)) {
            let (mut sorted, mut tree) = (Sorted::default(), BTreeMap::new());
            for (number, (adds, key)) in work.into_iter().enumerate() {
                if adds {
                    prop_assert_eq!(sorted.insert(key, number), tree.insert(key, number));
                } else {
                    prop_assert_eq!(sorted.remove(&key), tree.remove(&key));
                }
                prop_assert_eq!(sorted.get(&key), tree.get(&key));
                prop_assert_eq!(sorted.contains_key(&key), tree.contains_key(&key));
                prop_assert!(sorted.pieces.iter().all(|piece| (1..=PIECE).contains(&piece.len())));
            }
            prop_assert!(sorted.iter().eq(tree.iter()));
        }
    }

    #[test]
    fn ascending_keys_fill_every_piece() {
        let mut sorted = Sorted::default();
        for key in 0..10 * PIECE {
            sorted.insert(key, ());
        }
        assert!(sorted.pieces.iter().all(|piece| piece.len() == PIECE && piece.capacity() == PIECE));
        assert_eq!(sorted.pieces.len(), 10);
    }
}
