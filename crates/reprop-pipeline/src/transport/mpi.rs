//! Stages as ranks of an MPI job.
//!
//! Each direction of each link has a thread of its own, so that messages move while the stage computes, and so that a
//! buffer is lent to MPI for the length of one call only. A receiving thread has its next receive posted whenever the
//! stage has room for what comes. Sends are synchronous: they end when the other side has taken the message, so that
//! nothing piles up in MPI's own buffers. Both poll with a pause, because a wait inside MPI would burn a core.
//!
//! MPI never tells that a link is dead. The stage notices, because it waits no longer than its patience.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::request::{self, LocalScope, Request};
use mpi::topology::{Process, SimpleCommunicator};
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

use super::in_process::{End, InProcess, REPLICA_CREDITS};
use super::{Side, Transport, credits, room_down};
use crate::{Kind, Message, Result, Settings};

/// Between two looks at a request: short at first, longer while nothing happens.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// MPI counts with 32 bits: larger messages go in pieces.
const PIECE: usize = 1 << 30;
/// Messages on their way up, and down.
const TAGS: [i32; 2] = [1, 2];
/// Messages between replicas.
const ACROSS: i32 = 4;
/// Messages outside of the pipeline.
const SHARED: i32 = 3;
/// Messages whose way is timed.
const PINGS: usize = 5;

/// The MPI job that this process belongs to.
pub struct Universe {
    _universe: mpi::environment::Universe,
    world: SimpleCommunicator,
}

impl Universe {
    /// Joins the job; nothing if MPI cannot be called from several threads, or was started before.
    pub fn start() -> Option<Self> {
        let (universe, threading) = mpi::initialize_with_threading(Threading::Multiple)?;
        (threading == Threading::Multiple)
            .then(|| Self { _universe: universe, world: SimpleCommunicator::world() })
    }

    /// The number of this process in the job.
    pub fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    /// Processes in the job.
    pub fn size(&self) -> usize {
        self.world.size() as usize
    }

    /// What every rank says, in the order of ranks.
    pub fn gather(&self, mine: u64) -> Vec<u64> {
        let mut all = vec![0; self.size()];
        self.world.all_gather_into(&mine, &mut all[..]);
        all
    }

    /// What the first rank says, on every rank. The others rest while they wait.
    pub fn share(&self, mine: &[u8]) -> Vec<u8> {
        if self.rank() == 0 {
            for peer in 1..self.size() {
                send_bytes(self.world.process_at_rank(peer as i32), mine, SHARED);
            }
            return mine.to_vec();
        }
        receive_bytes(self.world.process_at_rank(0), SHARED)
    }

    /// How long a message of so many bytes is on its way from the first rank to the second; zero where there is none. All
    /// ranks have to ask.
    pub fn latency(&self, bytes: usize) -> Duration {
        let (rank, peer) = (self.rank(), i32::from(self.rank() == 0));
        if self.size() < 2 || rank > 1 {
            return Duration::ZERO;
        }
        let (process, message) = (self.world.process_at_rank(peer), vec![0_u8; bytes]);
        let mut least = Duration::MAX;
        for _ in 0..PINGS {
            let start = Instant::now();
            if rank == 0 {
                send_bytes(process, &message, SHARED);
                receive_bytes(process, SHARED);
            } else {
                receive_bytes(process, SHARED);
                send_bytes(process, &message, SHARED);
            }
            least = least.min(start.elapsed() / 2);
        }
        least
    }

    /// Ends the whole job.
    pub fn abort(&self) -> ! {
        self.world.abort(1)
    }

    /// What each rank says, on the first; nothing on the others.
    pub fn collect(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        if self.rank() > 0 {
            send_bytes(self.world.process_at_rank(0), mine, SHARED);
            return Vec::new();
        }
        let others =
            (1..self.size()).map(|peer| receive_bytes(self.world.process_at_rank(peer as i32), SHARED));
        [mine.to_vec()].into_iter().chain(others).collect()
    }

    /// The links of this rank, which is worker of that number: to the stages before and after its own, with as many messages
    /// in each direction as the depth calls for, and to its replicas.
    pub fn connect(&self, settings: &Settings) -> Ranks {
        let (stages, patience) = (settings.stages.len(), settings.patience);
        let (rank, stage) = (self.rank(), self.rank() % stages);
        let mut threads = Vec::new();
        let mut link = |peer: usize, [out, back]: [i32; 2], [room_out, room_back]: [usize; 2]| {
            let (sender, outbox) = mpsc::sync_channel(room_out);
            let (inbox, receiver) = mpsc::sync_channel(room_back);
            let peer = peer as i32;
            threads.push(thread::spawn(move || send_all(&outbox, peer, out)));
            threads.push(thread::spawn(move || receive_all(&inbox, peer, back)));
            End { sender, receiver }
        };
        let [up, down] = TAGS;
        let credits = credits(settings.depth);
        let room = room_down(stages, credits);
        let below = (stage > 0).then(|| link(rank - 1, [down, up], [room, credits]));
        let above = (stage + 1 < stages).then(|| link(rank + 1, [up, down], [credits, room]));
        let replicas = (0..settings.replicas).map(|replica| replica * stages + stage);
        let peers: Vec<End> = replicas
            .filter(|peer| *peer != rank)
            .map(|peer| link(peer, [ACROSS; 2], [REPLICA_CREDITS; 2]))
            .collect();
        let links = usize::from(below.is_some()) + usize::from(above.is_some());
        let (peered, open) = (peers.len(), 2 * (links + peers.len()));
        Ranks {
            ends: Some(InProcess::new(stage, patience, below, above, peers)),
            threads,
            open,
            peers: peered,
        }
    }
}

/// The links of one rank.
pub struct Ranks {
    ends: Option<InProcess>,
    threads: Vec<JoinHandle<()>>,
    /// Directions whose last message has not been seen.
    open: usize,
    peers: usize,
}

impl Transport for Ranks {
    fn send(&mut self, to: Side, message: Message) -> Result<()> {
        self.open -= usize::from(message.header.kind == Kind::Close);
        self.ends().send(to, message)
    }

    fn receive(&mut self, from: Side) -> Result<Message> {
        let message = self.ends().receive(from)?;
        self.open -= usize::from(message.header.kind == Kind::Close);
        Ok(message)
    }

    fn gather(&mut self, replica: usize, message: Message) -> Result<Vec<Message>> {
        let closes = message.header.kind == Kind::Close;
        let all = self.ends().gather(replica, message)?;
        self.open -= if closes { 2 * self.peers } else { 0 };
        Ok(all)
    }
}

impl Ranks {
    fn ends(&mut self) -> &mut InProcess {
        self.ends.as_mut().unwrap_or_else(|| unreachable!("taken only when dropped"))
    }
}

impl Drop for Ranks {
    /// Waits for the last messages to be taken. After a failure there is nothing to wait for: the job is aborted.
    fn drop(&mut self) {
        drop(self.ends.take());
        if self.open == 0 {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

/// Sends what the stage hands over, until the last message.
fn send_all(outbox: &Receiver<Message>, peer: i32, tag: i32) {
    let world = SimpleCommunicator::world();
    let process = world.process_at_rank(peer);
    for message in outbox {
        send_bytes(process, &message.encode(), tag);
        if message.header.kind == Kind::Close {
            return;
        }
    }
}

/// Hands what comes to the stage, until the last message.
fn receive_all(inbox: &SyncSender<Message>, peer: i32, tag: i32) {
    let world = SimpleCommunicator::world();
    let process = world.process_at_rank(peer);
    loop {
        let bytes = receive_bytes(process, tag);
        // What is no message at all, or nobody waits for any more, ends the link; the stage then says so.
        let Some(message) = Message::decode(&bytes) else { return };
        let closes = message.header.kind == Kind::Close;
        if inbox.send(message).is_err() || closes {
            return;
        }
    }
}

/// Sends the number of bytes, and the bytes.
fn send_bytes(process: Process<'_>, bytes: &[u8], tag: i32) {
    let length = [bytes.len() as u64];
    request::scope(|scope| poll(process.immediate_synchronous_send_with_tag(scope, &length[..], tag)));
    for piece in bytes.chunks(PIECE) {
        request::scope(|scope| poll(process.immediate_synchronous_send_with_tag(scope, piece, tag)));
    }
}

/// Receives what [`send_bytes`] sent.
fn receive_bytes(process: Process<'_>, tag: i32) -> Vec<u8> {
    let mut length = [0_u64];
    request::scope(|scope| poll(process.immediate_receive_into_with_tag(scope, &mut length[..], tag)));
    let mut bytes = vec![0_u8; length[0] as usize];
    for piece in bytes.chunks_mut(PIECE) {
        request::scope(|scope| poll(process.immediate_receive_into_with_tag(scope, piece, tag)));
    }
    bytes
}

/// Waits without burning a core.
fn poll<'a, B: ?Sized>(mut request: Request<'a, B, &LocalScope<'a>>) {
    let [mut pause, longest] = PAUSES;
    while let Err(again) = request.test() {
        request = again;
        thread::sleep(pause);
        pause = (2 * pause).min(longest);
    }
}
