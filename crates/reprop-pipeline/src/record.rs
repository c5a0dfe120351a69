//! Records: a stage's parameters, optimizer, gradients, batches in flight and messages in flight, after one batch.
//!
//! All stages save after the backward of the same batch. Stage `j` has then done `w_j` forwards more, and has sent what
//! stage `j + 1` has not yet taken: `w_j - w_(j+1)` messages, which are all on their way already. Stage `j + 1` takes them
//! out of the link before their turn and saves them with its own state. Nothing is on its way down, since stage `j` has
//! just used what was. So the parts fit together, though no stage waited for another.
//!
//! A part is a row of messages, each with its checksum.

use std::collections::HashMap;

use burn::module::ParamId;
use burn::optim::OptimizerRecord;
use burn::tensor::{Bytes, TensorData};
use reprop::{Entry, Gradients, Holder, Streams, named_gradients};

use crate::parameters::{self, Named};
use crate::report::numbers;
use crate::stash::{Flight, Memory};
use crate::{
    Error, Header, Job, Kind, Message, Method, Orders, Piped, Queue, Report, Result, Transport, Wire, Worker,
};

impl<const D: usize, N: Piped<D>, J: Job<D, N>, T: Transport> Worker<'_, D, N, J, T> {
    /// Saves this stage's part of the record after `batch`.
    pub(crate) fn save(&mut self, batch: u64) -> Result<()> {
        self.take_messages_in_flight(batch)?;
        let record = self.record(batch)?;
        self.job.save(self.worker(), batch, record).map_err(self.job_failed())?;
        self.saved = Some(batch);
        Ok(())
    }

    fn take_messages_in_flight(&mut self, batch: u64) -> Result<()> {
        if let Some(below) = self.index.checked_sub(1) {
            let sent = (batch + 1 + self.settings.warm_up(below)).min(self.settings.batches);
            while self.order.forwards() + (self.pending.len() as u64) < sent {
                let message = self.next_forward()?;
                self.pending.push_back(message);
            }
        }
        Ok(())
    }

    fn record(&mut self, batch: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut put = |message: Message| bytes.extend(message.encode());
        let summary = numbers(&[self.updates as i64, self.index as i64, self.settings.stages.len() as i64]);
        put(Message::new(self.header(Kind::Summary, batch), vec![summary]));
        // A number beside its name: the optimizer knows parameters by their numbers.
        let parameter = |kind, number: u64, Named { name, data, .. }: Named| {
            Message::new(Header { label: name, ..self.header(kind, number) }, vec![data])
        };
        for named in parameters::named(&self.network, &self.own) {
            put(parameter(Kind::Parameter, named.id.val(), named));
        }
        let optimizer = self.optimizer.to_record().into_bytes();
        let optimizer =
            optimizer.map_err(|error| self.damaged(format!("the optimizer cannot be saved: {error}")))?;
        let state = TensorData::new(optimizer.to_vec(), [optimizer.len()]);
        put(Message::new(self.header(Kind::Optimizer, batch), vec![state]));

        let gradients = std::mem::replace(&mut self.gradients, Gradients::new(&self.meter)).into_params();
        for (name, data) in named_gradients(&self.network, &gradients) {
            put(Message::new(Header { label: name, ..self.header(Kind::Gradient, batch) }, vec![data]));
        }
        let again = &mut Gradients::new(&self.meter);
        again.add_all(&self.network, gradients);
        std::mem::swap(&mut self.gradients, again);

        let mut versions: Vec<u64> = self.stash.versions(self.updates).into_iter().collect();
        versions.sort_unstable();
        for number in versions {
            let version = self.stash.flights.iter().find_map(|flight| match &flight.memory {
                Memory::Input { version: Some(version), .. } if flight.updates == number => Some(version),
                _ => None,
            });
            for named in version.into_iter().flat_map(|version| parameters::named(version, &self.own)) {
                put(Message::new(
                    Header { label: named.name, ..self.header(Kind::Version, number) },
                    vec![named.data],
                ));
            }
        }
        for flight in &self.stash.flights {
            let mut tensors = vec![numbers(&[flight.updates as i64, i64::from(flight.orders.flags())])];
            match &flight.memory {
                // The data has it.
                Memory::Input { entry: Entry::Input(_), .. } => {}
                Memory::Input { entry: Entry::Streams(streams), .. } => streams.clone().pack(&mut tensors),
                Memory::Packed { tensors: packed, .. } => tensors.extend(packed.iter().cloned()),
                Memory::Trail(trail) => trail.inputs().for_each(|streams| streams.clone().pack(&mut tensors)),
            }
            put(Message::new(self.header(Kind::Input, flight.batch), tensors));
        }
        for message in &self.pending {
            put(message.clone());
        }
        Ok(bytes)
    }

    /// This worker, as it was when it saved `record`.
    pub(crate) fn restore(mut self, record: &[u8]) -> Result<Self> {
        let mut rest = record;
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let message =
                Message::take(&mut rest).ok_or_else(|| self.damaged("it is cut short".to_owned()))?;
            message.verify(self.index).map_err(|error| self.damaged(error.to_string()))?;
            messages.push(message);
        }
        let mut messages = messages.into_iter();
        let first = messages.next().filter(|message| message.header.kind == Kind::Summary);
        let first = first.ok_or_else(|| self.damaged("it has no beginning".to_owned()))?;
        let facts: Vec<i64> = first.tensors.iter().flat_map(|data| data.iter::<i64>()).collect();
        let expected = [self.index as i64, self.settings.stages.len() as i64];
        if facts.get(1..) != Some(&expected[..]) || first.header.run != self.settings.run {
            return Err(self.damaged("it belongs to another run or stage".to_owned()));
        }
        self.updates = facts[0] as u64;
        self.order = self.order.after(first.header.batch);

        let mut own = Vec::new();
        let mut gradients = HashMap::new();
        let mut versions: HashMap<u64, Vec<Named>> = HashMap::new();
        let mut inputs = Vec::new();
        for mut message in messages {
            let Header { kind, batch: number, label: name, .. } = message.header.clone();
            if kind == Kind::Forward {
                self.pending.push_back(message);
                continue;
            }
            if kind == Kind::Input {
                inputs.push(message);
                continue;
            }
            let data = message.tensors.pop().ok_or_else(|| self.damaged(format!("{name} has no values")))?;
            let named = |data| Named { name: name.clone(), id: ParamId::from(number), data };
            match kind {
                Kind::Parameter => own.push(named(data)),
                Kind::Gradient => drop(gradients.insert(name, data)),
                Kind::Version => versions.entry(number).or_default().push(named(data)),
                Kind::Optimizer => {
                    let state = OptimizerRecord::from_bytes(Bytes::from_bytes_vec(data.as_bytes().to_vec()));
                    let state = state.map_err(|error| self.damaged(error.to_string()))?;
                    self.optimizer = self.optimizer.load_record(state);
                }
                other => return Err(self.damaged(format!("{other:?} has no place in it"))),
            }
        }
        let stage = self.index;
        let misfit = |what| Error::Record { stage, what };
        self.own = own.iter().map(|named| named.id).collect();
        self.network = parameters::load(self.network, own, true).map_err(misfit)?;
        parameters::add_gradients(&self.network, gradients, &self.job.device(), &mut self.gradients)
            .map_err(misfit)?;
        let mut older = HashMap::new();
        for (number, named) in versions {
            older.insert(number, parameters::load(self.network.clone(), named, false).map_err(misfit)?);
        }
        for message in inputs {
            let flight = self.flight(message, &older)?;
            self.stash.push(flight, self.updates);
        }
        Ok(self)
    }

    /// A batch in flight.
    fn flight(&self, message: Message, older: &HashMap<u64, N>) -> Result<Flight<D, N>> {
        let batch = message.header.batch;
        let bytes = message.bytes();
        let device = self.job.device();
        let mut tensors = message.tensors.into_iter();
        let facts: Vec<i64> =
            tensors.next().iter().flat_map(|data| data.iter::<i64>().collect::<Vec<_>>()).collect();
        let [updates, flags] = facts[..] else {
            return Err(self.damaged(format!("batch {batch} has no beginning")));
        };
        let (updates, orders) = (updates as u64, Orders::from_flags(flags as u8));
        let report = Report { batch, ..Report::default() };
        let method = self.settings.method;
        if method.recovers() && self.settings.queue != Queue::F32 && tensors.len() > 0 {
            let (input, tensors) = (self.begins().then(|| self.input(batch)), tensors.collect());
            let held = self.meter.hold(Holder::Streams, bytes);
            let memory = Memory::Packed { input, tensors, held };
            return Ok(Flight { batch, memory, orders, bytes, updates, report });
        }
        let mut streams = Vec::new();
        while tensors.len() > 0 {
            let pair = Streams::unpack(&mut tensors, &device);
            streams.push(pair.ok_or_else(|| self.damaged(format!("batch {batch} is of another shape")))?);
        }
        let input = self.begins().then(|| self.input(batch));
        let memory = if matches!(method, Method::Delayed | Method::Dsp) {
            let entry = input.map(Entry::Input).or_else(|| streams.pop().map(Entry::Streams));
            let entry = entry.ok_or_else(|| self.damaged(format!("batch {batch} has no input")))?;
            let version = older.get(&updates).unwrap_or(&self.network);
            Memory::Input { entry, version: (method == Method::Delayed).then(|| version.clone()) }
        } else {
            let trail = self.stage(&self.network)?.trail(input, streams, self.pass(batch), self.overlap());
            Memory::Trail(trail.map_err(|error| self.damaged(error.to_string()))?)
        };
        Ok(Flight { batch, memory, orders, bytes, updates, report })
    }

    fn damaged(&self, what: String) -> Error {
        Error::Record { stage: self.index, what }
    }
}
