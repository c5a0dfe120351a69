//! What happens after the last batch.

use std::collections::HashMap;

use burn::module::ParamId;

use crate::parameters::{self, Named};
use crate::{
    Error, Header, Job, Kind, Message, Outcome, Piped, Report, Result, Side, Summary, Transport, Worker,
};

impl<const D: usize, N: Piped<D>, J: Job<D, N>, T: Transport> Worker<'_, D, N, J, T> {
    /// Tells the job about a batch that every stage has done.
    pub(crate) fn tell(&mut self, report: &Report) -> Result<()> {
        if !self.leads() {
            return Ok(());
        }
        self.job.report(report).map_err(self.job_failed())?;
        self.commit()
    }

    /// The last record that this stage and all above have saved.
    pub(crate) fn saved_here_and_above(&self) -> Option<u64> {
        let saved = self.saved_here();
        if self.ends() { saved } else { saved.min(self.saved_above) }
    }

    fn commit(&mut self) -> Result<()> {
        let saved = self.saved_here_and_above();
        if let Some(batch) = saved
            && self.leads()
            && saved > self.committed
        {
            self.job.commit(batch).map_err(self.job_failed())?;
            self.committed = saved;
        }
        Ok(())
    }

    /// After the last batch: the test goes up; parameters, summaries and the test's result come down.
    pub(crate) fn finish(mut self) -> Result<Outcome<N>> {
        self.part_from_replicas()?;
        if self.begins() {
            if self.leads() {
                self.test()?;
            }
        } else {
            loop {
                let message = self.receive(Side::Below)?;
                match message.header.kind {
                    Kind::Evaluate => self.evaluate(message)?,
                    Kind::Probe => self.align_up(message)?,
                    Kind::Close => break,
                    _ => return Err(self.strange("the end", &message)),
                }
            }
        }
        if !self.ends() {
            self.send(Side::Above, Message::new(self.header(Kind::Close, 0), Vec::new()))?;
        }
        let mut owners: HashMap<String, usize> = HashMap::new();
        let mut gathered = Vec::new();
        let mut stages = vec![self.summary()];
        let own = parameters::named(&self.network, &self.own);
        for Named { name, id, data } in own {
            owners.insert(name.clone(), self.index);
            self.hand_over(name, id, data, self.index)?;
        }
        if !self.begins() {
            let summary = Message::new(self.header(Kind::Summary, 0), vec![stages[0].pack()]);
            self.send(Side::Below, summary)?;
        }
        while !self.ends() {
            let message = self.receive(Side::Above)?;
            match message.header.kind {
                Kind::Close => {
                    let told = message.tensors.first().and_then(|data| Report::unpack(0, data));
                    self.saved_above = told.and_then(|report| report.saved).or(self.saved_above);
                    break;
                }
                Kind::Evaluated => self.pass_down(message)?,
                Kind::Probed => self.align_down(message)?,
                Kind::Parameter | Kind::Summary if !self.begins() => {
                    self.send(Side::Below, message)?;
                }
                Kind::Summary => {
                    let summary = message.tensors.first().and_then(Summary::unpack);
                    stages.push(summary.ok_or_else(|| self.strange("a summary", &message))?);
                }
                Kind::Parameter => gathered.push(self.accept(message, &mut owners)?),
                _ => return Err(self.strange("parameters", &message)),
            }
        }
        let batches = self.order.backwards();
        if self.begins() {
            self.commit()?;
            let stage = self.index;
            let loaded = parameters::load(self.network, gathered, false);
            let network = loaded.map_err(|what| Error::Record { stage, what })?;
            return Ok(Outcome { network, stages, score: self.last_score, batches });
        }
        let report = Report { saved: self.saved_here_and_above(), ..Report::default() };
        let close = Message::new(self.header(Kind::Close, 0), vec![report.pack()]);
        self.send(Side::Below, close)?;
        Ok(Outcome { network: self.network, stages, score: None, batches })
    }

    /// Sends one of this stage's parameters down, unless this is the first stage.
    fn hand_over(
        &mut self,
        name: String,
        id: ParamId,
        data: burn::tensor::TensorData,
        stage: usize,
    ) -> Result<()> {
        if self.begins() {
            return Ok(());
        }
        let _ = id;
        let header = Header { label: name, ..self.header(Kind::Parameter, stage as u64) };
        self.send(Side::Below, Message::new(header, vec![data]))
    }

    /// A parameter of a stage above, in the first stage.
    fn accept(&self, message: Message, owners: &mut HashMap<String, usize>) -> Result<Named> {
        let Header { label: name, batch: stage, .. } = message.header.clone();
        if let Some(first) = owners.insert(name.clone(), stage as usize) {
            return Err(Error::Tied { name, first, second: stage as usize });
        }
        match message.tensors.into_iter().next() {
            Some(data) => Ok(Named { name, id: ParamId::from(0), data }),
            None => Err(Error::Unexpected {
                stage: self.index,
                expected: format!("the values of {name}"),
                found: "none".to_owned(),
            }),
        }
    }

    fn summary(&self) -> Summary {
        let own = parameters::named(&self.network, &self.own);
        let parameter_bytes = own.iter().map(|named| named.data.as_bytes().len() as u64).sum();
        Summary {
            stage: self.index,
            parameter_bytes,
            input_bytes: self.stash.most_input_bytes,
            version_bytes: self.stash.most_versions * parameter_bytes,
            activation_peak: self.meter.report().activation_peak,
            waited_micros: self.waited_micros,
        }
    }
}
