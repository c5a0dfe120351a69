//! The borders of intervals.

use std::collections::VecDeque;

/// The first state of an interval, on disk or on its way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Border {
    pub step: usize,
    /// The memory slot that it still is in, too.
    pub memory: Option<usize>,
}

/// All borders, from the first on. There may be a great many, and of all but the last few only the step is of interest: they have
/// left memory.
#[derive(Default)]
pub(super) struct Borders {
    steps: Vec<usize>,
    /// Where the last ones are in memory, and whether they have been waited for.
    recent: VecDeque<(Option<usize>, bool)>,
}

impl Borders {
    /// Those of states that are on disk.
    pub fn on_disk(steps: &[usize]) -> Self {
        Self { steps: steps.to_vec(), recent: VecDeque::new() }
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// One more, in a memory slot.
    pub fn push(&mut self, step: usize, memory: usize) {
        while self.recent.front().is_some_and(|(memory, _)| memory.is_none()) {
            self.recent.pop_front();
        }
        self.steps.push(step);
        self.recent.push_back((Some(memory), false));
    }

    pub fn pop(&mut self) -> Option<Border> {
        let last = self.last();
        self.steps.pop();
        self.recent.pop_back();
        last
    }

    pub fn last(&self) -> Option<Border> {
        self.len().checked_sub(1).map(|place| self.get(place))
    }

    /// That of a place, which there has to be.
    pub fn get(&self, place: usize) -> Border {
        let memory = self.recent_place(place).and_then(|recent| self.recent[recent].0);
        Border { step: self.steps[place], memory }
    }

    pub fn iter(&self) -> impl Iterator<Item = Border> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// The steps alone.
    pub fn steps(&self) -> &[usize] {
        &self.steps
    }

    /// Takes those from a place on away.
    pub fn split_off(&mut self, place: usize) -> Vec<Border> {
        let mut taken: Vec<Border> = (place..self.len()).map_while(|_| self.pop()).collect();
        taken.reverse();
        taken
    }

    /// Lets a border leave memory; gives the slot that it was in.
    pub fn leave_memory(&mut self, place: usize) -> Option<usize> {
        let recent = self.recent_place(place)?;
        self.recent[recent].0.take()
    }

    /// Notes that a border is waited for; gives whether it was before.
    pub fn wait_for(&mut self, place: usize) -> bool {
        self.recent_place(place).is_none_or(|recent| std::mem::replace(&mut self.recent[recent].1, true))
    }

    fn recent_place(&self, place: usize) -> Option<usize> {
        place.checked_sub(self.len() - self.recent.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_border_that_left_memory_is_forgotten_but_for_its_step() {
        let mut borders = Borders::on_disk(&[0]);
        for place in 1..100 {
            borders.push(10 * place, place % 3);
            assert!(place == 1 || !borders.wait_for(place - 1) && borders.wait_for(place - 1));
            if place > 2 {
                assert_eq!(borders.leave_memory(place - 2), Some((place - 2) % 3));
            }
        }
        assert!(borders.recent.len() <= 3);
        assert_eq!(borders.get(50), Border { step: 500, memory: None });
        assert_eq!(borders.last(), Some(Border { step: 990, memory: Some(0) }));
        let taken = borders.split_off(98);
        assert_eq!(taken[0], Border { step: 980, memory: Some(2) });
        assert_eq!((taken.len(), borders.len()), (2, 98));
        assert!(borders.iter().map(|border| border.step).eq((0..98).map(|place| 10 * place)));
        while let Some(border) = borders.pop() {
            assert!(border.memory.is_none());
        }
        assert!(borders.is_empty() && borders.steps().is_empty());
    }
}
