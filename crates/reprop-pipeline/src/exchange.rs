//! What a stage says to its neighbours, and hears from them.

use std::ops::Range;
use std::time::Instant;

use burn::tensor::TensorData;
use reprop::{Activity, Descent, Streams, Target};

use crate::{
    Error, Header, Job, Kind, Message, Orders, Piped, Report, Result, Settings, Side, Transport, Wire, Worker,
};

impl<const D: usize, N: Piped<D>, J: Job<D, N>, T: Transport> Worker<'_, D, N, J, T> {
    /// The next training batch from below; other batches on the way are passed on.
    pub(crate) fn next_forward(&mut self) -> Result<Message> {
        loop {
            let message = self.receive(Side::Below)?;
            match message.header.kind {
                Kind::Forward => return Ok(message),
                Kind::Evaluate => self.evaluate(message)?,
                Kind::Probe => self.align_up(message)?,
                _ => return Err(self.strange("a batch", &message)),
            }
        }
    }

    /// What comes from above, if this is not the last stage.
    pub(crate) fn descend(&mut self, batch: u64) -> Result<(Option<Descent<D>>, Option<Report>)> {
        if self.ends() {
            return Ok((None, None));
        }
        let message = loop {
            let message = self.receive(Side::Above)?;
            match message.header.kind {
                Kind::Backward if message.header.batch == batch => break message,
                Kind::Evaluated => self.pass_down(message)?,
                Kind::Probed => self.align_down(message)?,
                _ => return Err(self.strange(&format!("gradients of batch {batch}"), &message)),
            }
        };
        let found = describe(&message);
        let device = self.job.device();
        let mut tensors = message.tensors.into_iter();
        let unpacked = tensors.next().and_then(|data| Report::unpack(batch, &data)).and_then(|report| {
            let gradients = Streams::unpack(&mut tensors, &device)?;
            let streams =
                if tensors.len() > 0 { Some(Streams::unpack(&mut tensors, &device)?) } else { None };
            Some((Some(Descent { streams, gradients }), Some(report)))
        });
        unpacked.ok_or_else(|| self.unexpected("a report and streams", found))
    }

    pub(crate) fn header(&self, kind: Kind, batch: u64) -> Header {
        let Settings { run, .. } = *self.settings;
        Header { run, epoch: self.job.epoch(batch), batch, kind, flags: 0, label: String::new() }
    }

    pub(crate) fn send_up(
        &mut self,
        kind: Kind,
        batch: u64,
        orders: Orders,
        streams: Streams<D>,
        target: Target<D, N>,
    ) -> Result<()> {
        let mut tensors = Vec::new();
        streams.pack(&mut tensors);
        target.pack(&mut tensors);
        let header = Header { flags: orders.flags(), ..self.header(kind, batch) };
        self.send(Side::Above, Message::new(header, tensors))
    }

    pub(crate) fn send_down(
        &mut self,
        batch: u64,
        Descent { streams, gradients }: Descent<D>,
        report: Report,
    ) -> Result<()> {
        let mut tensors: Vec<TensorData> = vec![report.pack()];
        gradients.pack(&mut tensors);
        if let Some(streams) = streams {
            streams.pack(&mut tensors);
        }
        self.send(Side::Below, Message::new(self.header(Kind::Backward, batch), tensors))
    }

    pub(crate) fn unpack_up(&self, message: Message) -> Result<(Streams<D>, Target<D, N>)> {
        let found = describe(&message);
        let device = self.job.device();
        let mut tensors = message.tensors.into_iter();
        let unpacked = Streams::unpack(&mut tensors, &device)
            .and_then(|streams| Some((streams, Target::<D, N>::unpack(&mut tensors, &device)?)));
        unpacked.ok_or_else(|| self.unexpected("streams and targets", found))
    }

    /// Sends, and waits while the link has no room.
    pub(crate) fn send(&mut self, to: Side, message: Message) -> Result<()> {
        let start = Instant::now();
        self.transport.send(to, message)?;
        self.note_message(self.border(to), start);
        Ok(())
    }

    /// The place above the border to a neighbour.
    fn border(&self, side: Side) -> usize {
        let Range { start, end } = self.places();
        if side == Side::Below { start } else { end }
    }

    /// Notes a message that was begun at `start` and is done now.
    pub(crate) fn note_message(&self, place: usize, start: Instant) {
        if let Some(trace) = self.job.trace(self.worker()) {
            trace.since(Activity::Message, place, start);
        }
    }

    /// The next message from a neighbour, if it is whole and of this run.
    pub(crate) fn receive(&mut self, from: Side) -> Result<Message> {
        let start = Instant::now();
        let message = self.transport.receive(from)?;
        self.waited_micros += start.elapsed().as_micros() as u64;
        self.note_message(self.border(from), start);
        message.verify(self.index)?;
        if message.header.run != self.settings.run {
            let expected = format!("a message of run {:016x}", self.settings.run);
            return Err(self.unexpected(&expected, format!("one of run {:016x}", message.header.run)));
        }
        Ok(message)
    }

    pub(crate) fn strange(&self, expected: &str, message: &Message) -> Error {
        self.unexpected(expected, describe(message))
    }

    pub(crate) fn unexpected(&self, expected: &str, found: String) -> Error {
        Error::Unexpected { stage: self.index, expected: expected.to_owned(), found }
    }
}

pub(crate) fn describe(message: &Message) -> String {
    let shapes: Vec<&[usize]> = message.tensors.iter().map(|data| &data.shape()[..]).collect();
    format!("{:?} of batch {} with tensors {shapes:?}", message.header.kind, message.header.batch)
}
