//! Stages as threads of one process.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Side, Transport, room_down};
use crate::{Error, Message, Result};

/// Between two looks at a link without credit.
const PAUSE: Duration = Duration::from_micros(100);

/// Messages between two replicas: what is said now, and what was said before and is about to be heard.
pub(crate) const REPLICA_CREDITS: usize = 2;

/// The ends of the links of one stage. A stage that stops drops them, and its neighbours notice at once.
pub struct InProcess {
    stage: usize,
    patience: Duration,
    below: Option<End>,
    above: Option<End>,
    /// The same stage in the other replicas, in their order.
    peers: Vec<End>,
}

pub(crate) struct End {
    pub sender: SyncSender<Message>,
    pub receiver: Receiver<Message>,
}

impl InProcess {
    /// The ends of stage `stage`.
    pub(crate) fn new(
        stage: usize,
        patience: Duration,
        below: Option<End>,
        above: Option<End>,
        peers: Vec<End>,
    ) -> Self {
        Self { stage, patience, below, above, peers }
    }

    fn end(&self, side: Side) -> Result<&End> {
        let end = match side {
            Side::Below => &self.below,
            Side::Above => &self.above,
        };
        end.as_ref().ok_or(Error::Neighbour { stage: self.stage, above: side == Side::Above })
    }
}

/// The ends of a row of `stages` stages, with `credits` messages in each direction of each link.
///
/// ```
/// use std::time::Duration;
/// use reprop_pipeline::{Error, Header, Kind, Message, Side, Transport, links};
///
/// let mut ends = links(2, 2, Duration::from_secs(1));
/// let (mut above, mut below) = (ends.pop().unwrap(), ends.pop().unwrap());
/// let header = Header { run: 1, epoch: 0, batch: 0, kind: Kind::Close, flags: 0, label: String::new() };
/// below.send(Side::Above, Message::new(header, Vec::new()))?;
/// assert_eq!(above.receive(Side::Below)?.header.kind, Kind::Close);
/// drop(below);
/// assert!(matches!(above.receive(Side::Below), Err(Error::Neighbour { stage: 1, above: false })));
/// # Ok::<(), Error>(())
/// ```
pub fn links(stages: usize, credits: usize, patience: Duration) -> Vec<InProcess> {
    let mut below = None;
    let mut ends = Vec::new();
    for stage in 0..stages {
        let (above, next) = if stage + 1 < stages {
            let (up, from_below) = mpsc::sync_channel(credits);
            let (down, from_above) = mpsc::sync_channel(room_down(stages, credits));
            let above = End { sender: up, receiver: from_above };
            (Some(above), Some(End { sender: down, receiver: from_below }))
        } else {
            (None, None)
        };
        ends.push(InProcess::new(stage, patience, below, above, Vec::new()));
        below = next;
    }
    ends
}

/// The ends of several rows side by side, one row after the other; the same stages of all rows are linked to each other.
pub(crate) fn replicated(
    replicas: usize,
    stages: usize,
    credits: usize,
    patience: Duration,
) -> Vec<InProcess> {
    let mut ends: Vec<InProcess> = (0..replicas).flat_map(|_| links(stages, credits, patience)).collect();
    for stage in 0..stages {
        for first in 0..replicas {
            for second in first + 1..replicas {
                let (forth, from_first) = mpsc::sync_channel(REPLICA_CREDITS);
                let (back, from_second) = mpsc::sync_channel(REPLICA_CREDITS);
                // In the order of replicas on both sides, since pairs are met in that order.
                ends[first * stages + stage].peers.push(End { sender: forth, receiver: from_second });
                ends[second * stages + stage].peers.push(End { sender: back, receiver: from_first });
            }
        }
    }
    ends
}

impl Transport for InProcess {
    fn send(&mut self, to: Side, mut message: Message) -> Result<()> {
        let (stage, above) = (self.stage, to == Side::Above);
        let end = self.end(to)?;
        let start = Instant::now();
        loop {
            match end.sender.try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => return Err(Error::Neighbour { stage, above }),
                Err(TrySendError::Full(_)) if start.elapsed() > self.patience => {
                    return Err(Error::Stalled { stage, above, waited: self.patience });
                }
                Err(TrySendError::Full(back)) => message = back,
            }
            thread::sleep(PAUSE);
        }
    }

    fn gather(&mut self, replica: usize, message: Message) -> Result<Vec<Message>> {
        let stage = self.stage;
        for peer in &self.peers {
            // There is room: this one has heard what the peer said last, so that the peer is at most about to hear it.
            let sent = peer.sender.try_send(message.clone());
            sent.map_err(|_| Error::Replica { stage, waited: None })?;
        }
        let mut all = Vec::with_capacity(self.peers.len() + 1);
        for peer in &self.peers {
            let heard = peer.receiver.recv_timeout(self.patience);
            all.push(heard.map_err(|error| Error::Replica {
                stage,
                waited: (error == RecvTimeoutError::Timeout).then_some(self.patience),
            })?);
        }
        all.insert(replica, message);
        Ok(all)
    }

    fn receive(&mut self, from: Side) -> Result<Message> {
        let (stage, above) = (self.stage, from == Side::Above);
        self.end(from)?.receiver.recv_timeout(self.patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => Error::Stalled { stage, above, waited: self.patience },
            RecvTimeoutError::Disconnected => Error::Neighbour { stage, above },
        })
    }
}
