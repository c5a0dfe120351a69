//! The exact optimum of small asynchronous cases, by search over all orders of all actions.
//!
//! Time goes in unit steps: a forward or a reverse step takes 1, a transfer `w` (write and read alike), one
//! channel, whole numbers, so nothing is gained by starting between two units. A state being written stays in
//! its memory slot until it is on disk; a state being read holds its slot from the start. The disk is
//! unlimited.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keys are packed states: one multiplication mixes them well enough.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are whole words")
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = (key ^ (key >> 23)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

type Seen = HashMap<u64, u8, BuildHasherDefault<Mix>>;

const NOWHERE: u8 = 15;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Idle,
    Writing { step: u8, left: u8 },
    Reading { step: u8, left: u8 },
}

#[derive(Clone, Copy)]
struct State {
    /// Steps below are not reversed yet.
    front: u8,
    /// The working state.
    at: u8,
    /// Sets of states, one bit each.
    memory: u16,
    disk: u16,
    channel: Channel,
}

impl State {
    fn key(self) -> u64 {
        let (kind, step, left) = match self.channel {
            Channel::Idle => (0, 0, 0),
            Channel::Writing { step, left } => (1, step, left),
            Channel::Reading { step, left } => (2, step, left),
        };
        [(self.at, 4), (kind, 2), (step, 4), (left, 4)]
            .iter()
            .fold(u64::from(self.front), |key, &(value, bits)| (key << bits) | u64::from(value))
            << 32
            | u64::from(self.memory) << 16
            | u64::from(self.disk)
    }

    fn unpack(key: u64) -> Self {
        let field = |shift: u32, bits: u32| ((key >> shift) & ((1 << bits) - 1)) as u8;
        let (left, step) = (field(32, 4), field(36, 4));
        let channel = match field(40, 2) {
            0 => Channel::Idle,
            1 => Channel::Writing { step, left },
            _ => Channel::Reading { step, left },
        };
        let (memory, disk) = ((key >> 16) as u16, key as u16);
        Self { front: field(46, 4), at: field(42, 4), memory, disk, channel }
    }

    /// Forgets what no step still to be reversed can use, so that equal futures are one state.
    fn tidy(mut self) -> Self {
        let live = (1 << self.front) - 1;
        self.memory &= live;
        self.disk &= live;
        if self.at >= self.front {
            self.at = NOWHERE;
        }
        if let Channel::Writing { step, .. } | Channel::Reading { step, .. } = self.channel
            && step >= self.front
        {
            self.channel = Channel::Idle;
        }
        self
    }

    /// At least this much time is left: each step is reversed, and each state that is nowhere is recomputed.
    fn least_left(self) -> usize {
        let mut there = self.memory | self.disk;
        if self.at != NOWHERE {
            there |= 1 << self.at;
        }
        if let Channel::Reading { step, .. } = self.channel {
            there |= 1 << step;
        }
        usize::from(self.front) + usize::from(self.front) - there.count_ones() as usize
    }

    fn reserved(self) -> u32 {
        u32::from(matches!(self.channel, Channel::Reading { .. }))
    }

    /// The states with one memory slot free: this one, or each with one snapshot dropped that is not being
    /// written.
    fn with_room(self, slots: u32) -> Vec<Self> {
        if self.memory.count_ones() + self.reserved() < slots {
            return vec![self];
        }
        let pinned = if let Channel::Writing { step, .. } = self.channel { 1 << step } else { 0 };
        let droppable = self.memory & !pinned;
        (0..self.front)
            .filter(|&step| droppable >> step & 1 == 1)
            .map(|step| Self { memory: self.memory & !(1 << step), ..self })
            .collect()
    }

    /// What can be done in no time.
    fn instantly(self, slots: u32, w: u8) -> Vec<Self> {
        let mut next = vec![];
        if self.at != NOWHERE && self.memory >> self.at & 1 == 0 {
            next.extend(
                self.with_room(slots).into_iter().map(|s| Self { memory: s.memory | 1 << s.at, ..s }),
            );
        }
        for step in (0..self.front).filter(|&step| self.memory >> step & 1 == 1 && step != self.at) {
            next.push(Self { at: step, ..self });
        }
        match self.channel {
            Channel::Idle => {
                for step in 0..self.front {
                    let (held, on_disk) = (self.memory >> step & 1 == 1, self.disk >> step & 1 == 1);
                    if held && !on_disk {
                        next.push(Self { channel: Channel::Writing { step, left: w }, ..self });
                    }
                    if on_disk && !held {
                        let reading = Channel::Reading { step, left: w };
                        next.extend(
                            self.with_room(slots).into_iter().map(|s| Self { channel: reading, ..s }),
                        );
                    }
                }
            }
            Channel::Writing { step, left: 0 } => {
                next.push(Self { disk: self.disk | 1 << step, channel: Channel::Idle, ..self });
            }
            Channel::Reading { step, left: 0 } => {
                next.push(Self { memory: self.memory | 1 << step, channel: Channel::Idle, ..self });
            }
            _ => {}
        }
        next
    }

    /// What can be done in one unit of time.
    fn in_one_unit(self) -> Vec<Self> {
        let channel = match self.channel {
            Channel::Idle => Channel::Idle,
            Channel::Writing { left: 0, .. } | Channel::Reading { left: 0, .. } => return vec![],
            Channel::Writing { step, left } => Channel::Writing { step, left: left - 1 },
            Channel::Reading { step, left } => Channel::Reading { step, left: left - 1 },
        };
        let later = Self { channel, ..self };
        let mut next = vec![];
        if self.at != NOWHERE && self.at + 1 < self.front {
            next.push(Self { at: self.at + 1, ..later });
        }
        if self.at != NOWHERE && self.at + 1 == self.front {
            next.push(Self { front: self.front - 1, at: NOWHERE, ..later });
        }
        if channel != Channel::Idle {
            next.push(later);
        }
        next
    }
}

/// The least makespan for `steps <= 10`. `known` is a makespan that some schedule reaches: nothing longer is
/// looked at.
pub fn optimum(steps: u8, slots: u32, w: u8, known: usize) -> usize {
    let start = State { front: steps, at: 0, memory: 0, disk: 0, channel: Channel::Idle };
    let mut seen = Seen::default();
    seen.insert(start.key(), 0);
    // A* with a bucket for each total: time so far plus the least that is left.
    let mut buckets: Vec<Vec<(u64, u8)>> = vec![vec![]; known + 1];
    buckets[start.least_left()].push((start.key(), 0));
    for total in 0..=known {
        while let Some((key, time)) = buckets[total].pop() {
            if seen[&key] < time {
                continue;
            }
            let state = State::unpack(key);
            if state.front == 0 {
                return total;
            }
            let instantly = state.instantly(slots, w).into_iter().map(|next| (next, time));
            let later = state.in_one_unit().into_iter().map(|next| (next, time + 1));
            for (next, time) in instantly.chain(later) {
                let next = next.tidy();
                let (key, total) = (next.key(), usize::from(time) + next.least_left());
                if total <= known && seen.get(&key).is_none_or(|&earlier| time < earlier) {
                    seen.insert(key, time);
                    buckets[total].push((key, time));
                }
            }
        }
    }
    known
}
