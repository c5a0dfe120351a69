//! The test set through the pipeline.

use reprop::Entry;

use crate::report::numbers;
use crate::{Error, Header, Job, Kind, Message, Piped, Result, Score, Side, Transport, Wire, Worker};

/// On the last batch of a test.
const LAST: u8 = 4;

impl<const D: usize, N: Piped<D>, J: Job<D, N>, T: Transport> Worker<'_, D, N, J, T> {
    /// Sends the test set up, from the first stage.
    pub(crate) fn test(&mut self) -> Result<()> {
        let mut next = self.job.test_batch(0);
        let mut position = 0;
        while let Some((input, target)) = next {
            next = self.job.test_batch(position + 1);
            let last = if next.is_none() { LAST } else { 0 };
            self.evaluate_entry(Entry::Input(input), target, position, last)?;
            position += 1;
        }
        Ok(())
    }

    /// A test batch from below.
    pub(crate) fn evaluate(&mut self, message: Message) -> Result<()> {
        let Header { flags, batch: position, .. } = message.header;
        let (streams, target) = self.unpack_up(message)?;
        self.evaluate_entry(Entry::Streams(streams), target, position, flags)
    }

    fn evaluate_entry(
        &mut self,
        entry: Entry<D, N>,
        target: reprop::Target<D, N>,
        position: u64,
        flags: u8,
    ) -> Result<()> {
        let pass = self.job.evaluation_pass(position);
        let stage = self.stage(&self.network)?;
        let index = self.index;
        let failed = |error| Error::Pass { stage: index, batch: position, error };
        if !self.ends() {
            let streams = stage.forward(entry, &pass).map_err(failed)?;
            let mut tensors = Vec::new();
            Wire::pack(streams, &mut tensors);
            Wire::pack(target, &mut tensors);
            let header = Header { flags, ..self.header(Kind::Evaluate, position) };
            return self.send(Side::Above, Message::new(header, tensors));
        }
        let output = stage.predict(entry, &pass).map_err(failed)?;
        let Score { right, seen } = self.job.score(output, target);
        self.tested = Score { right: self.tested.right + right, seen: self.tested.seen + seen };
        if flags & LAST != 0 {
            let Score { right, seen } = std::mem::take(&mut self.tested);
            let tensors = vec![numbers(&[right as i64, seen as i64])];
            let message = Message::new(self.header(Kind::Evaluated, 0), tensors);
            self.pass_down(message)?;
        }
        Ok(())
    }

    /// Hands a test's result down, or to the job.
    pub(crate) fn pass_down(&mut self, message: Message) -> Result<()> {
        if !self.begins() {
            return self.send(Side::Below, message);
        }
        let values: Vec<u64> =
            message.tensors.iter().flat_map(|data| data.iter::<i64>()).map(|n| n as u64).collect();
        let [right, seen] = values[..] else { return Err(self.strange("a test's result", &message)) };
        let score = Score { right, seen };
        self.last_score = Some(score);
        self.job.evaluated(score).map_err(self.job_failed())
    }
}
