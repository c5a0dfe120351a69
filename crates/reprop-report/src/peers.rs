//! Times of another framework beside ours, as `bench/peers` writes them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::table::piped;
use crate::{Error, Spread};

/// A file of `bench/peers/run.sh`.
#[derive(Clone, Debug, Deserialize)]
pub struct Peers {
    /// The other framework, with its version.
    #[serde(default = "unnamed")]
    pub peer: String,
    /// Threads of both sides.
    pub threads: usize,
    /// Milliseconds of steps, ours and the peer's side by side, by unit (`rev-vit-s stored 8`).
    pairs_ours_peer_ms: BTreeMap<String, Vec<[f64; 2]>>,
    /// Activation bytes at the peak, depth and side of the images of the peer's network, by unit.
    #[serde(default)]
    peer_memory: BTreeMap<String, PeerMemory>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PeerMemory {
    bytes: u64,
    depth: usize,
    image: usize,
}

fn unnamed() -> String {
    "PyTorch".to_owned()
}

/// One unit of a comparison.
#[derive(Clone, Debug)]
pub struct PeerUnit {
    /// `rev-vit-s stored 8`.
    pub name: String,
    /// Milliseconds of ours.
    pub ours: Spread,
    /// Milliseconds of the peer's.
    pub peer: Spread,
    /// The peer's time beside ours, the middle over rounds.
    pub ratio: f64,
    /// The peer's activation bytes at the peak, depth and side of images.
    pub memory: Option<(u64, usize, usize)>,
}

impl PeerUnit {
    /// Model, strategy and batch, if the unit is a whole step.
    pub fn step(&self) -> Option<(&str, &str, usize)> {
        let mut words = self.name.split(' ');
        let step = (words.next()?, words.next()?, words.next()?.parse().ok()?);
        Some(step)
    }
}

impl Peers {
    /// A comparison from a file's text.
    ///
    /// # Errors
    /// If the text is something else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let peers: Self = serde_json::from_str(text).map_err(Error::NotPeers)?;
        if peers.units().is_empty() {
            return Err(Error::Empty);
        }
        Ok(peers)
    }

    /// Every unit that was run.
    pub fn units(&self) -> Vec<PeerUnit> {
        let unit = |(name, pairs): (&String, &Vec<[f64; 2]>)| {
            let of = |value: fn(&[f64; 2]) -> f64| Spread::of(&pairs.iter().map(value).collect::<Vec<_>>());
            Some(PeerUnit {
                name: name.clone(),
                ours: of(|[ours, _]| *ours)?,
                peer: of(|[_, peer]| *peer)?,
                ratio: of(|[ours, peer]| peer / ours)?.median,
                memory: self.peer_memory.get(name).map(|m| (m.bytes, m.depth, m.image)),
            })
        };
        self.pairs_ours_peer_ms.iter().filter_map(unit).collect()
    }

    /// A table of ratios for documents; above 1, ours is faster.
    ///
    /// ```
    /// use reprop_report::Peers;
    ///
    /// let text = r#"{"threads": 2, "pairs_ours_peer_ms": {"A 8": [[10.0, 12.0], [10.0, 11.0], [10.0, 13.0]]}}"#;
    /// let table = Peers::parse(text)?.markdown("unit");
    /// assert!(table.contains("| A 8 | 12.0 | 10.0 | 1.20 |"));
    /// # Ok::<(), reprop_report::Error>(())
    /// ```
    pub fn markdown(&self, what: &str) -> String {
        let row = |unit: PeerUnit| {
            let number = |value: f64| format!("{value:.1}");
            let PeerUnit { name, ours, peer, ratio, .. } = unit;
            [name, number(peer.median), number(ours.median), format!("{ratio:.2}")]
        };
        let rows: Vec<_> = self.units().into_iter().map(row).collect();
        piped(&[what, &format!("{} ms", self.peer), "reprop ms", "ratio"], &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_middle_of_the_rounds_and_not_of_the_medians() {
        let text = r#"{"peer": "PyTorch 2", "threads": 2,
            "pairs_ours_peer_ms": {"rev-vit-s stored 8": [[1.0, 2.0], [10.0, 10.0], [4.0, 12.0]]},
            "peer_memory": {"rev-vit-s stored 8": {"bytes": 100, "depth": 12, "image": 224}}}"#;
        let units = Peers::parse(text).expect("peers").units();
        assert_eq!(units.len(), 1);
        assert_eq!((units[0].ratio, units[0].ours.median, units[0].peer.median), (2.0, 4.0, 10.0));
        assert_eq!(units[0].step(), Some(("rev-vit-s", "stored", 8)));
        assert_eq!(units[0].memory, Some((100, 12, 224)));
    }

    #[test]
    fn other_files_say_that_they_are_none() {
        assert!(Peers::parse("{}").expect_err("no fields").to_string().contains("no comparison with peers"));
        let empty = r#"{"threads": 2, "pairs_ours_peer_ms": {}}"#;
        assert!(Peers::parse(empty).expect_err("no units").to_string().contains("no runs"));
    }
}
