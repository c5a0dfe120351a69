//! Pipelines side by side: what the replicas of a stage tell each other.
//!
//! Replica `r` of `R` works on batches `r`, `R + r`, ... Before an update the replicas of a stage tell each other their
//! gradients, and each adds them up in the order of replicas, so that all have the same bits and stay equal. Running
//! statistics of batch norms are each replica's own, as are the messages; the first replica's are kept at the end.

use std::collections::HashMap;
use std::time::Instant;

use burn::optim::GradientsParams;
use reprop::{Gradients, named_gradients};

use crate::report::numbers;
use crate::{Job, Kind, Message, Orders, Piped, Result, Transport, Worker, parameters};

impl<const D: usize, N: Piped<D>, J: Job<D, N>, T: Transport> Worker<'_, D, N, J, T> {
    /// Whether this worker belongs to the pipeline that tests, tells and writes.
    pub(crate) fn leads(&self) -> bool {
        self.replica == 0
    }

    /// The number of this worker among all stages and replicas.
    pub(crate) fn worker(&self) -> usize {
        self.replica * self.settings.stages.len() + self.index
    }

    /// The number of a batch of this pipeline among those of all.
    pub(crate) fn number(&self, batch: u64) -> u64 {
        batch * self.settings.replicas as u64 + self.replica as u64
    }

    /// Gradients summed over the replicas.
    pub(crate) fn sum(&mut self, gradients: GradientsParams) -> Result<GradientsParams> {
        if self.settings.replicas == 1 {
            return Ok(gradients);
        }
        let (names, mut tensors): (Vec<String>, Vec<_>) =
            named_gradients(&self.network, &gradients).into_iter().unzip();
        tensors.push(self.saved_number());
        let all = self.gather(Kind::Replica, 0, tensors)?;
        let mut sum = Gradients::new(&self.meter);
        let device = self.job.device();
        for message in all {
            let mut tensors = message.tensors;
            tensors.pop();
            let values: HashMap<_, _> = names.iter().cloned().zip(tensors).collect();
            parameters::add_gradients(&self.network, values, &device, &mut sum)
                .map_err(|misfit| self.unexpected("gradients of a replica", misfit))?;
        }
        Ok(sum.into_params())
    }

    /// The first replica's orders, which all follow.
    pub(crate) fn common_orders(&mut self, batch: u64) -> Result<Orders> {
        if self.settings.replicas == 1 {
            return Ok(self.job.orders(batch));
        }
        let mine = if self.leads() { self.job.orders(batch) } else { Orders::default() };
        let saved = self.saved_number();
        let all = self.gather(Kind::Replica, mine.flags(), vec![saved])?;
        Ok(Orders::from_flags(all[0].header.flags))
    }

    /// The last words between replicas.
    pub(crate) fn part_from_replicas(&mut self) -> Result<()> {
        if self.settings.replicas > 1 {
            let saved = self.saved_number();
            self.gather(Kind::Close, 0, vec![saved])?;
        }
        Ok(())
    }

    fn saved_number(&self) -> burn::tensor::TensorData {
        numbers(&[self.saved.map_or(-1, |batch| batch as i64)])
    }

    /// What all replicas of this stage say, in their order; the last number of each is its last record.
    fn gather(
        &mut self,
        kind: Kind,
        flags: u8,
        tensors: Vec<burn::tensor::TensorData>,
    ) -> Result<Vec<Message>> {
        let header = crate::Header { flags, ..self.header(kind, self.updates) };
        let start = Instant::now();
        let all = self.transport.gather(self.replica, Message::new(header, tensors))?;
        self.note_message(self.places().start, start);
        let mut saved = Some(u64::MAX);
        for message in &all {
            message.verify(self.index)?;
            if (message.header.kind, message.header.run, message.header.batch)
                != (kind, self.settings.run, self.updates)
            {
                return Err(self.strange("the same update of a replica", message));
            }
            let number = message.tensors.last().and_then(|data| data.iter::<i64>().next());
            saved = saved.min(number.and_then(|number| u64::try_from(number).ok()));
        }
        self.saved_by_replicas = saved.filter(|batch| *batch != u64::MAX);
        Ok(all)
    }

    /// The last record that this stage has saved in all replicas, as far as is known.
    pub(crate) fn saved_here(&self) -> Option<u64> {
        if self.settings.replicas == 1 { self.saved } else { self.saved_by_replicas }
    }
}
