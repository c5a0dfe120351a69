//! One stage at work.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Tensor, TensorData};
use reprop::{Entry, Gradients, Holder, Input, Keep, Meter, Pass, Saved, Stage, Statistics, Target, Trail};

use crate::align::Aligning;
use crate::stash::{Flight, Memory, Stash};
use crate::{
    Error, Job, Kind, Message, Method, Order, Orders, Piped, Queue, Report, Result, Settings, Summary,
    Transport, Turn, parameters, part,
};

/// One stage at work: its parameters, its optimizer, its batches in flight, its neighbours.
pub struct Worker<'j, const D: usize, N: Piped<D>, J: Job<D, N>, T: Transport> {
    pub(crate) job: &'j J,
    pub(crate) settings: &'j Settings,
    pub(crate) transport: T,
    pub(crate) index: usize,
    pub(crate) replica: usize,
    pub(crate) network: N,
    pub(crate) optimizer: ModuleOptimizer,
    pub(crate) order: Order,
    pub(crate) stash: Stash<D, N>,
    pub(crate) gradients: Gradients,
    /// Updates that the parameters have seen.
    pub(crate) updates: u64,
    /// Parameters that this stage changes, as far as it has met them.
    pub(crate) own: HashSet<ParamId>,
    /// Messages from below that a record took out of the link before their turn.
    pub(crate) pending: VecDeque<Message>,
    pub(crate) meter: Meter,
    /// The last record that this stage, and that all stages above, have saved; and the last that was committed.
    pub(crate) saved: Option<u64>,
    pub(crate) saved_above: Option<u64>,
    pub(crate) committed: Option<u64>,
    /// The last record that all replicas of this stage have saved, where there are several.
    pub(crate) saved_by_replicas: Option<u64>,
    /// Batches whose gradients are being compared with the true ones.
    pub(crate) aligning: VecDeque<Aligning<D, N>>,
    pub(crate) waited_micros: u64,
    /// Test samples so far, in the last stage.
    pub(crate) tested: crate::Score,
    /// The last test's result, in the first stage.
    pub(crate) last_score: Option<crate::Score>,
}

/// How a pipeline ended.
pub struct Outcome<N> {
    /// The network with the parameters of all stages; in the first stage.
    pub network: N,
    /// What each stage held, from the first to the last; in the first stage.
    pub stages: Vec<Summary>,
    /// The last test's result, if there was one; in the first stage.
    pub score: Option<crate::Score>,
    /// Batches whose backward this stage has done.
    pub batches: u64,
}

impl<'j, const D: usize, N: Piped<D>, J: Job<D, N>, T: Transport> Worker<'j, D, N, J, T> {
    /// Worker `worker`, from the record that the job has, or from the beginning. Workers are counted through the stages of
    /// the first replica, then those of the next.
    ///
    /// # Errors
    ///
    /// Stages that do not fit the network, or a record that is damaged.
    pub fn new(network: N, worker: usize, settings: &'j Settings, job: &'j J, transport: T) -> Result<Self> {
        settings.check(&network)?;
        let (replica, index) = (worker / settings.stages.len(), worker % settings.stages.len());
        let meter = Meter::new();
        let made = Self {
            job,
            settings,
            transport,
            index,
            replica,
            network,
            optimizer: job.optimizer(),
            order: Order::new(settings.warm_up(index), settings.batches),
            stash: Stash::new(),
            gradients: Gradients::new(&meter),
            updates: 0,
            own: HashSet::new(),
            pending: VecDeque::new(),
            meter,
            saved: None,
            saved_above: None,
            committed: None,
            saved_by_replicas: None,
            aligning: VecDeque::new(),
            waited_micros: 0,
            tested: crate::Score::default(),
            last_score: None,
        };
        match job.load(worker).map_err(|message| Error::Job { stage: index, message })? {
            Some(record) => made.restore(&record),
            None => Ok(made),
        }
    }

    /// Does all batches, or all up to an order to stop; then tests, and gathers all parameters in the first stage.
    ///
    /// # Errors
    ///
    /// The first thing that goes wrong here, or the news that a neighbour stopped.
    pub fn run(mut self) -> Result<Outcome<N>> {
        while let Some(turn) = self.order.next() {
            match turn {
                Turn::Forward(batch) => self.forward(batch)?,
                Turn::Backward(batch) => {
                    let orders = self.backward(batch)?;
                    if orders.record {
                        self.save(batch)?;
                    }
                    if self.settings.aligns(batch) && self.begins() && self.leads() {
                        self.align(batch)?;
                    }
                    if orders.evaluate && !orders.stop && self.begins() && self.leads() {
                        self.test()?;
                    }
                    if orders.stop {
                        break;
                    }
                }
            }
        }
        self.finish()
    }

    pub(crate) fn begins(&self) -> bool {
        self.index == 0
    }

    pub(crate) fn ends(&self) -> bool {
        self.index + 1 == self.settings.stages.len()
    }

    pub(crate) fn places(&self) -> Range<usize> {
        self.settings.stages[self.index].clone()
    }

    pub(crate) fn stage<'n>(&self, network: &'n N) -> Result<Stage<'n, D, N>> {
        Stage::new(network, self.places()).map_err(|error| Error::Pass { stage: self.index, batch: 0, error })
    }

    /// The pass of a batch, counted by this stage's meter.
    pub(crate) fn pass(&self, batch: u64) -> Pass {
        let weight = 1.0 / (self.settings.accumulate * self.settings.replicas as u64) as f64;
        let pass = self.job.pass(self.worker(), self.number(batch));
        let pass = pass.meter(self.meter.clone()).loss_weight(weight);
        match self.job.trace(self.worker()) {
            Some(trace) => pass.trace(trace),
            None => pass,
        }
    }

    /// Gradients of one block beside the recovery of another, if there is a thread for each.
    pub(crate) fn overlap(&self) -> bool {
        self.settings.method.recovers() && rayon::current_num_threads() > 1
    }

    /// What is kept where the trail of a forward is kept.
    pub(crate) fn keep(&self) -> Keep {
        if self.settings.method.recovers() { Keep::Inputs } else { Keep::Everything }
    }

    pub(crate) fn failed(&self, batch: u64) -> impl Fn(reprop::Error) -> Error + use<D, N, J, T> {
        let stage = self.index;
        move |error| Error::Pass { stage, batch, error }
    }

    /// The forward of a batch: from below (or the data) to above (or the loss).
    fn forward(&mut self, batch: u64) -> Result<()> {
        let (entry, target, orders) = self.enter(batch)?;
        let bytes = match &entry {
            Entry::Input(input) => input.bytes(),
            Entry::Streams(streams) => streams.bytes(),
        };
        let (pass, failed, overlap) = (self.pass(batch), self.failed(batch), self.overlap());
        let stage = self.stage(&self.network)?;
        let mut report = Report { batch, ..Report::default() };
        let method = self.settings.method;
        let (memory, bytes, up) = if self.ends() {
            let (loss, output, trail) =
                stage.finish(entry, target.clone(), pass, self.keep(), overlap).map_err(failed)?;
            report.loss = loss;
            report.score = self.job.score(output, target.clone());
            (Memory::Trail(trail), 0, None)
        } else if matches!(method, Method::Delayed | Method::Dsp) {
            let streams = stage.forward(entry.clone(), &pass).map_err(failed)?;
            let version = (method == Method::Delayed).then(|| self.network.clone());
            (Memory::Input { entry, version }, bytes, Some(streams))
        } else {
            let input = match &entry {
                Entry::Input(input) => Some(input.clone()),
                Entry::Streams(_) => None,
            };
            let (streams, trail) = stage.record(entry, pass, self.keep(), overlap).map_err(failed)?;
            let input_bytes = if input.is_some() { bytes } else { 0 };
            if !method.recovers() {
                (Memory::Trail(trail), 0, Some(streams))
            } else if self.settings.queue == Queue::F32 || trail.stream_bytes() == 0 {
                let kept = trail.stream_bytes() + input_bytes;
                (Memory::Trail(trail), kept, Some(streams))
            } else {
                let mut tensors = Vec::new();
                trail.inputs().for_each(|input| self.settings.queue.pack(input.clone(), &mut tensors));
                drop(trail);
                let kept = tensors.iter().map(|data| data.as_bytes().len() as u64).sum();
                let held = self.meter.hold(Holder::Streams, kept);
                (Memory::Packed { input, tensors, held }, kept + input_bytes, Some(streams))
            }
        };
        let flight = Flight { batch, memory, orders, bytes, updates: self.updates, report };
        self.stash.push(flight, self.updates);
        match up {
            Some(streams) => self.send_up(Kind::Forward, batch, orders, streams, target),
            None => Ok(()),
        }
    }

    /// What the forward of a batch is given.
    fn enter(&mut self, batch: u64) -> Result<(Entry<D, N>, Target<D, N>, Orders)> {
        if self.begins() {
            let (input, target) = self.job.batch(self.number(batch));
            return Ok((Entry::Input(input), target, self.common_orders(batch)?));
        }
        let message = match self.pending.pop_front() {
            Some(message) => message,
            None => self.next_forward()?,
        };
        if message.header.batch != batch {
            return Err(self.strange(&format!("batch {batch}"), &message));
        }
        let orders = Orders::from_flags(message.header.flags);
        let (streams, target) = self.unpack_up(message)?;
        Ok((Entry::Streams(streams), target, orders))
    }

    /// The backward of a batch: from above (or the loss) to below. Every so many of them, an update.
    fn backward(&mut self, batch: u64) -> Result<Orders> {
        let (above, told) = self.descend(batch)?;
        let Some(flight) = self.stash.flights.pop_front().filter(|flight| flight.batch == batch) else {
            unreachable!("the order does every forward before its backward")
        };
        let (overlap, failed) = (self.overlap(), self.failed(batch));
        let (trail, version) = match flight.memory {
            Memory::Trail(trail) => (trail, None),
            Memory::Packed { input, tensors, held } => {
                drop(held);
                (self.unpack_trail(batch, input, tensors)?, None)
            }
            Memory::Input { entry, version } => {
                let parameters = version.as_ref().unwrap_or(&self.network);
                let stage = self.stage(parameters)?;
                let again = stage.record(entry, self.pass(batch), Keep::Everything, overlap);
                (again.map_err(failed)?.1, version)
            }
        };
        let network = version.as_ref().unwrap_or(&self.network);
        let stage = Stage::new(network, self.places()).map_err(self.failed(batch))?;
        let hand_down = self.hands_down(network, batch)?;
        let compares = self.settings.aligns(batch) && self.leads();
        let mut apart = Gradients::new(&self.meter);
        let gradients = if compares { &mut apart } else { &mut self.gradients };
        let descent = stage.backward(trail, above, hand_down, gradients);
        let statistics = gradients.take_statistics();
        if compares {
            let found = apart.into_params();
            self.gradients.add_all(&self.network, copied(&self.network, &found));
            self.keep_for_alignment(batch, found);
        }

        let peak = self.meter.report().activation_peak;
        let mut report = told.unwrap_or(flight.report);
        self.saved_above = report.saved.or(self.saved_above);
        report.activation_peak = report.activation_peak.max(peak);
        report.saved = self.saved_here_and_above();
        match descent {
            Some(descent) => self.send_down(batch, descent, report)?,
            None => self.tell(&report)?,
        }
        self.update(batch, statistics)?;
        Ok(flight.orders)
    }

    /// Whether the stage below has to be given the streams that come out here.
    pub(crate) fn hands_down(&self, network: &N, batch: u64) -> Result<bool> {
        match self.index.checked_sub(1) {
            Some(below) if self.settings.method.recovers() => {
                let stage = Stage::new(network, self.settings.stages[below].clone());
                Ok(stage.map_err(self.failed(batch))?.needs_streams())
            }
            _ => Ok(false),
        }
    }

    /// The trail of a batch whose inputs waited in fewer bits.
    fn unpack_trail(
        &self,
        batch: u64,
        input: Option<Input<D, N>>,
        tensors: Vec<TensorData>,
    ) -> Result<Trail<D, N>> {
        let pass = self.pass(batch);
        let (arithmetic, device) = (pass.context(0).arithmetic(), self.job.device());
        let mut tensors = tensors.into_iter();
        let mut inputs = Vec::new();
        while tensors.len() > 0 {
            let streams = self.settings.queue.unpack(&mut tensors, arithmetic, &device);
            inputs.push(streams.ok_or_else(|| self.unexpected("a queue of streams", "others".to_owned()))?);
        }
        let trail = self.stage(&self.network)?.trail(input, inputs, pass, self.overlap());
        trail.map_err(self.failed(batch))
    }

    /// Moves running statistics, and parameters if enough gradients have come together.
    fn update(&mut self, batch: u64, statistics: Statistics) -> Result<()> {
        self.own.extend(parameters::observed(&self.network, &statistics));
        self.network = statistics.apply(self.network.clone());
        if (batch + 1).is_multiple_of(self.settings.accumulate) {
            let gradients = std::mem::replace(&mut self.gradients, Gradients::new(&self.meter)).into_params();
            self.own.extend(part::with_gradient(&self.network, &gradients));
            let gradients = self.sum(gradients)?;
            let gradients = self.job.shape(&self.network, gradients);
            let network = self.network.clone();
            self.network = part::step(&mut self.optimizer, self.job.rate(batch), network, gradients);
            self.updates += 1;
        }
        Ok(())
    }

    pub(crate) fn job_failed(&self) -> impl Fn(String) -> Error + use<D, N, J, T> {
        let stage = self.index;
        move |message| Error::Job { stage, message }
    }

    /// The network's input of a batch, from the data.
    pub(crate) fn input(&self, batch: u64) -> Input<D, N> {
        self.job.batch(self.number(batch)).0
    }
}

/// The same gradients once more.
fn copied<M: Module>(module: &M, gradients: &GradientsParams) -> GradientsParams {
    struct Copy<'g>(&'g GradientsParams, GradientsParams);
    impl ModuleVisitor for Copy<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id) {
                self.1.register(param.id, gradient);
            }
        }
    }
    let mut copy = Copy(gradients, GradientsParams::new());
    module.visit(&mut copy);
    copy.1
}
