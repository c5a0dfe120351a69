//! A network as a chain, for schedules: how few of the transitions' inputs are in memory, and when.
//!
//! A *segment* is a transition and the blocks above it; the first begins with the stem. Segments are the steps of the chain,
//! and its states are the streams between them, which are the inputs of transitions. The first state is the network's input,
//! which the caller holds anyway.

use std::ops::Range;

use reprop_schedule::{Action, Revolve, Slot};

use crate::planner::Inputs;

/// What a schedule says, from the first action to the last.
pub(super) type Schedule = Box<dyn Iterator<Item = Action> + Send>;

/// The segments of a network.
pub(super) struct Segments {
    /// Where each begins among the pieces, and the end of the last.
    borders: Vec<usize>,
}

impl Segments {
    /// Of a network whose pieces are blocks or not.
    pub fn of(is_block: &[bool]) -> Self {
        let transitions = (0..is_block.len()).filter(|&index| !is_block[index]);
        Self { borders: std::iter::once(0).chain(transitions).chain([is_block.len()]).collect() }
    }

    pub fn count(&self) -> usize {
        self.borders.len() - 1
    }

    /// The pieces of one.
    pub fn pieces(&self, segment: usize) -> Range<usize> {
        self.borders[segment]..self.borders[segment + 1]
    }

    /// Whether the segment below ends with a block, which is recovered from the streams between the two.
    pub fn hands_down(&self, segment: usize) -> bool {
        segment.checked_sub(1).is_some_and(|below| self.pieces(below).len() > usize::from(below > 0))
    }

    /// The order in which segments go forward and back, and what is kept meanwhile.
    pub fn schedule(&self, inputs: Inputs) -> Schedule {
        let slots = match inputs {
            Inputs::Spilled => return Box::new(spilled(self.count()).into_iter()),
            Inputs::Few { snapshots } => snapshots.saturating_add(1),
            Inputs::Kept => self.count(),
        };
        Box::new(Revolve::new(self.count(), slots).expect("a network has a segment, and its input a slot"))
    }
}

/// How often parts go forward.
pub(crate) struct Visits {
    /// The stem, its run for its gradients included.
    pub stem: usize,
    /// Each piece, beside what its gradients need.
    pub pieces: Vec<usize>,
}

/// How often parts go forward where transitions' inputs are not all kept.
pub(crate) fn visits(is_block: &[bool], inputs: Inputs) -> Visits {
    let segments = Segments::of(is_block);
    let mut visits = Visits { stem: 1, pieces: vec![0; is_block.len()] };
    let mut visit = |segment| {
        visits.stem += usize::from(segment == 0);
        segments.pieces(segment).for_each(|piece| visits.pieces[piece] += 1);
    };
    for action in segments.schedule(inputs) {
        if let Action::Forward { from, to } = action {
            (from..to).for_each(&mut visit);
        }
    }
    // On the way forward all go on to the head.
    visit(segments.count() - 1);
    visits
}

/// Every state goes to disk but the first, which is the network's input, and the last ones, which are wanted at once. One
/// slot of memory is filled while the other is written, or used while the other is read.
fn spilled(segments: usize) -> Vec<Action> {
    let memory = |step: usize| Slot::memory(1 + step % 2);
    let input = Slot::memory(0);
    let last = segments - 1;
    let mut actions = vec![];
    if last > 0 {
        actions.extend([Action::Save { step: 0, slot: input }, Action::Forward { from: 0, to: 1 }]);
    }
    for step in 1..last {
        actions.push(Action::Save { step, slot: memory(step) });
        if step + 2 < last {
            actions.push(Action::Copy { step, from: memory(step), to: Slot::disk(step), keep: false });
        }
        actions.push(Action::Forward { from: step, to: step + 1 });
    }
    actions.push(Action::Reverse { step: last });
    for step in (1..last).rev() {
        actions.push(Action::Load { step, slot: memory(step), keep: false });
        if let Some(ahead) = step.checked_sub(2).filter(|&ahead| ahead > 0) {
            let (from, to) = (Slot::disk(ahead), memory(ahead));
            actions.push(Action::Copy { step: ahead, from, to, keep: false });
        }
        actions.push(Action::Reverse { step });
    }
    if last > 0 {
        actions.extend([Action::Load { step: 0, slot: input, keep: false }, Action::Reverse { step: 0 }]);
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_a_transition_and_the_blocks_above_it() {
        let segments = Segments::of(&[true, true, false, false, true]);
        let pieces: Vec<_> = (0..segments.count()).map(|segment| segments.pieces(segment)).collect();
        assert_eq!(pieces, [0..2, 2..3, 3..5]);
        assert_eq!([0, 1, 2].map(|segment| segments.hands_down(segment)), [false, true, false]);
        // A plain network: the stem is a segment by itself, and nothing is recovered from anything.
        let plain = Segments::of(&[false, false]);
        assert_eq!([0, 1, 2].map(|segment| plain.pieces(segment)), [0..0, 0..1, 1..2]);
        assert!((0..3).all(|segment| !plain.hands_down(segment)));
    }

    #[test]
    fn visits_are_those_of_revolve() {
        let plain = [false; 9];
        for snapshots in 0..9 {
            let Visits { stem, pieces } = visits(&plain, Inputs::Few { snapshots });
            let all = (stem - 1 + pieces.iter().sum::<usize>() - 1) as u128;
            assert_eq!(all, reprop_schedule::advances(10, snapshots + 1), "{snapshots}");
        }
    }

    #[test]
    fn spilling_keeps_the_laws_with_two_slots_beside_the_input_and_runs_nothing_twice() {
        for segments in 1..12 {
            let counts = reprop_schedule::check(segments, &[3, usize::MAX], spilled(segments)).expect("laws");
            assert_eq!(counts.advances, segments as u128 - 1, "{segments}");
        }
    }
}
