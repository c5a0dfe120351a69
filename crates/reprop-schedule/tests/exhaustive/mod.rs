//! The exact optimum of small asynchronous cases, by search over all orders of all actions.
//!
//! Time goes in unit steps: all prices are whole numbers, so nothing is gained by starting between two units. A
//! state being written stays in its memory slot until it is on disk; a state being read holds its slot from the
//! start. A transfer between the working state and the disk needs no slot, and stops the computation. The disk is
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

/// A small case with whole prices.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// At most 14.
    pub steps: u8,
    pub slots: u32,
    /// Prices, at most 15 each.
    pub forward: u8,
    pub backward: u8,
    pub write: u8,
    pub read: u8,
    /// Whether reads and writes share a channel.
    pub shared: bool,
}

impl Case {
    /// Unit steps, equal transfers on one channel.
    pub fn unit(steps: u8, slots: u32, w: u8) -> Self {
        Self { steps, slots, forward: 1, backward: 1, write: w, read: w, shared: true }
    }
}

/// What the computation is busy with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    Nothing,
    Step,
    /// Waits while the working state is written.
    Writing,
    /// Waits for a state read into the working state.
    Reading,
}

/// A state under way and the time that it still takes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Transfer {
    step: u8,
    left: u8,
}

const IDLE: Transfer = Transfer { step: NOWHERE, left: 0 };

impl Transfer {
    fn runs(self) -> bool {
        self.step != NOWHERE
    }

    /// One unit later; `None` if it has ended and nobody took note.
    fn later(self) -> Option<Self> {
        match self {
            IDLE => Some(IDLE),
            Self { left: 0, .. } => None,
            Self { step, left } => Some(Self { step, left: left - 1 }),
        }
    }
}

#[derive(Clone, Copy)]
struct State {
    /// Steps below are not reversed yet.
    front: u8,
    /// The working state, once the computation is no longer busy.
    at: u8,
    busy: Busy,
    /// Time that the step under way still takes.
    left: u8,
    /// Sets of states, one bit each.
    memory: u16,
    disk: u16,
    writing: Transfer,
    reading: Transfer,
}

impl State {
    fn key(self) -> u64 {
        let busy = self.busy as u8;
        let (w, r) = (self.writing, self.reading);
        [(self.at, 4), (busy, 2), (self.left, 4), (w.step, 4), (w.left, 4), (r.step, 4), (r.left, 4)]
            .iter()
            .fold(u64::from(self.front), |key, &(value, bits)| (key << bits) | u64::from(value))
            << 28
            | u64::from(self.memory) << 14
            | u64::from(self.disk)
    }

    fn unpack(key: u64) -> Self {
        let field = |shift: u32, bits: u32| ((key >> shift) & ((1 << bits) - 1)) as u16;
        let small = |shift: u32| field(shift, 4) as u8;
        Self {
            front: small(54),
            at: small(50),
            busy: [Busy::Nothing, Busy::Step, Busy::Writing, Busy::Reading][usize::from(field(48, 2))],
            left: small(44),
            writing: Transfer { step: small(40), left: small(36) },
            reading: Transfer { step: small(32), left: small(28) },
            memory: field(14, 14),
            disk: field(0, 14),
        }
    }

    /// Forgets what no step still to be reversed can use, so that equal futures are one state.
    fn tidy(mut self) -> Self {
        let live = (1 << self.front) - 1;
        self.memory &= live;
        self.disk &= live;
        if self.at >= self.front {
            self.at = NOWHERE;
        }
        for transfer in [&mut self.writing, &mut self.reading] {
            if transfer.step >= self.front {
                *transfer = IDLE;
            }
        }
        self
    }

    /// At least this much time is left: each step is reversed, and each state that is nowhere is recomputed.
    fn least_left(self, case: &Case) -> usize {
        let mut there = self.memory | self.disk;
        for step in [self.at, self.reading.step] {
            if step != NOWHERE {
                there |= 1 << step;
            }
        }
        let (front, there) = (usize::from(self.front), there.count_ones() as usize);
        front * usize::from(case.backward)
            + (front - there) * usize::from(case.forward)
            + usize::from(self.left)
    }

    /// The states with one memory slot free: this one, or each with one snapshot dropped that is not being
    /// written.
    fn with_room(self, slots: u32) -> Vec<Self> {
        let reserved = u32::from(self.reading.runs() && self.busy != Busy::Reading);
        if self.memory.count_ones() + reserved < slots {
            return vec![self];
        }
        let pinned =
            if self.writing.runs() && self.busy != Busy::Writing { 1 << self.writing.step } else { 0 };
        let droppable = self.memory & !pinned;
        (0..self.front)
            .filter(|&step| droppable >> step & 1 == 1)
            .map(|step| Self { memory: self.memory & !(1 << step), ..self })
            .collect()
    }

    /// What can be done in no time: transfers begun and ended, saves and loads in memory, steps begun and ended.
    fn instantly(self, case: &Case, next: &mut Vec<Self>) {
        self.transfers(case, next);
        match self.busy {
            Busy::Step if self.left == 0 => next.push(Self { busy: Busy::Nothing, ..self }),
            Busy::Nothing => self.computation(case, next),
            _ => {}
        }
    }

    fn transfers(self, case: &Case, next: &mut Vec<Self>) {
        let (writes, reads) = (self.writing.runs(), self.reading.runs());
        if writes && self.writing.left == 0 {
            let busy = if self.busy == Busy::Writing { Busy::Nothing } else { self.busy };
            next.push(Self { disk: self.disk | 1 << self.writing.step, writing: IDLE, busy, ..self });
        }
        if reads && self.reading.left == 0 {
            let step = self.reading.step;
            next.push(if self.busy == Busy::Reading {
                Self { at: step, reading: IDLE, busy: Busy::Nothing, ..self }
            } else {
                Self { memory: self.memory | 1 << step, reading: IDLE, ..self }
            });
        }
        let free = !(case.shared && (writes || reads));
        for step in 0..self.front {
            let (held, on_disk) = (self.memory >> step & 1 == 1, self.disk >> step & 1 == 1);
            if held && !on_disk && !writes && free {
                next.push(Self { writing: Transfer { step, left: case.write }, ..self });
            }
            if on_disk && !held && !reads && free {
                let reading = Transfer { step, left: case.read };
                next.extend(self.with_room(case.slots).into_iter().map(|s| Self { reading, ..s }));
                if self.busy == Busy::Nothing {
                    next.push(Self { reading, busy: Busy::Reading, at: NOWHERE, ..self });
                }
            }
        }
        if self.busy == Busy::Nothing
            && self.at != NOWHERE
            && !writes
            && free
            && self.disk >> self.at & 1 == 0
        {
            let writing = Transfer { step: self.at, left: case.write };
            next.push(Self { writing, busy: Busy::Writing, ..self });
        }
    }

    fn computation(self, case: &Case, next: &mut Vec<Self>) {
        for step in (0..self.front).filter(|&step| self.memory >> step & 1 == 1 && step != self.at) {
            next.push(Self { at: step, ..self });
        }
        if self.at == NOWHERE {
            return;
        }
        if self.memory >> self.at & 1 == 0 {
            let room = self.with_room(case.slots).into_iter();
            next.extend(room.map(|s| Self { memory: s.memory | 1 << s.at, ..s }));
        }
        next.push(if self.at + 1 < self.front {
            Self { at: self.at + 1, busy: Busy::Step, left: case.forward, ..self }
        } else {
            let at = NOWHERE;
            Self { front: self.front - 1, at, busy: Busy::Step, left: case.backward, ..self }
        });
    }

    /// One unit of time later, if nothing is due before.
    fn in_one_unit(self) -> Option<Self> {
        let (writing, reading) = (self.writing.later()?, self.reading.later()?);
        let goes_on = self.writing.runs() || self.reading.runs() || self.busy == Busy::Step;
        let left = if self.busy == Busy::Step { self.left.checked_sub(1)? } else { 0 };
        goes_on.then_some(Self { left, writing, reading, ..self })
    }
}

/// The least makespan. `known` is a makespan that some schedule reaches: nothing longer is looked at.
pub fn optimum(case: &Case, known: usize) -> usize {
    let start = State {
        front: case.steps,
        at: 0,
        busy: Busy::Nothing,
        left: 0,
        memory: 0,
        disk: 0,
        writing: IDLE,
        reading: IDLE,
    };
    let mut seen = Seen::default();
    seen.insert(start.key(), 0);
    // A* with a bucket for each total: time so far plus the least that is left.
    let mut buckets: Vec<Vec<(u64, u8)>> = vec![vec![]; known + 1];
    buckets[start.least_left(case)].push((start.key(), 0));
    let mut next = vec![];
    for total in 0..=known {
        while let Some((key, time)) = buckets[total].pop() {
            if seen[&key] < time {
                continue;
            }
            let state = State::unpack(key);
            if state.front == 0 && state.left == 0 {
                return total;
            }
            state.instantly(case, &mut next);
            let instant = next.drain(..).map(|next| (next, time));
            let later = state.in_one_unit().into_iter().map(|next| (next, time + 1));
            for (next, time) in instant.chain(later) {
                let next = next.tidy();
                let (key, total) = (next.key(), usize::from(time) + next.least_left(case));
                if total <= known && seen.get(&key).is_none_or(|&earlier| time < earlier) {
                    seen.insert(key, time);
                    buckets[total].push((key, time));
                }
            }
        }
    }
    known
}
