//! How well the gradients of a pipeline agree with the true ones.
//!
//! All stages go backward through a batch with the parameters of the same number of updates, though not at the same time.
//! The true gradients of the batch are those of the whole network with just these parameters. Each stage keeps them, with the
//! batch's gradients as it found them; then the batch goes up and down once more, beside the others.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use reprop::{Descent, Entry, Gradients, Meter, Stage, Streams, Target, Trail};

use crate::report::numbers;
use crate::{Header, Job, Kind, Message, Piped, Result, Side, Transport, Wire, Worker};

/// A batch whose gradients are compared.
pub(crate) struct Aligning<const D: usize, N: Piped<D>> {
    batch: u64,
    /// With the parameters that the backward was done with.
    network: N,
    /// As the pipeline found them.
    found: GradientsParams,
    /// Of the second forward.
    trail: Option<Trail<D, N>>,
}

impl<const D: usize, N: Piped<D>, J: Job<D, N>, T: Transport> Worker<'_, D, N, J, T> {
    /// Keeps what a comparison needs.
    pub(crate) fn keep_for_alignment(&mut self, batch: u64, found: GradientsParams) {
        let network = self.network.clone();
        self.aligning.push_back(Aligning { batch, network, found, trail: None });
    }

    /// Sends a batch up once more, from the first stage.
    pub(crate) fn align(&mut self, batch: u64) -> Result<()> {
        let (input, target) = self.job.batch(self.number(batch));
        self.align_entry(batch, Entry::Input(input), target)
    }

    /// A batch from below that goes up once more.
    pub(crate) fn align_up(&mut self, message: Message) -> Result<()> {
        let batch = message.header.batch;
        let (streams, target) = self.unpack_up(message)?;
        self.align_entry(batch, Entry::Streams(streams), target)
    }

    fn align_entry(&mut self, batch: u64, entry: Entry<D, N>, target: Target<D, N>) -> Result<()> {
        // What is kept for a comparison is not what training keeps.
        let pass = self.pass(batch).meter(Meter::new());
        let (keep, overlap, failed) = (self.keep(), self.overlap(), self.failed(batch));
        let Some(at) = self.aligning.iter().position(|kept| kept.batch == batch) else {
            return Err(self.unexpected("a batch to compare", format!("batch {batch}")));
        };
        let stage = Stage::new(&self.aligning[at].network, self.places()).map_err(&failed)?;
        if self.ends() {
            let (_, _, trail) = stage.finish(entry, target, pass, keep, overlap).map_err(failed)?;
            self.aligning[at].trail = Some(trail);
            return self.align_back(at, None, Vec::new());
        }
        let (streams, trail) = stage.record(entry, pass, keep, overlap).map_err(failed)?;
        self.aligning[at].trail = Some(trail);
        let mut tensors = Vec::new();
        streams.pack(&mut tensors);
        target.pack(&mut tensors);
        self.send(Side::Above, Message::new(self.header(Kind::Probe, batch), tensors))
    }

    /// True gradients from above.
    pub(crate) fn align_down(&mut self, message: Message) -> Result<()> {
        let batch = message.header.batch;
        let found = crate::exchange::describe(&message);
        let device = self.job.device();
        let mut tensors = message.tensors.into_iter();
        let unpacked = tensors.next().and_then(|data| {
            let cosines: Vec<f64> = data.iter::<i64>().map(|bits| f64::from_bits(bits as u64)).collect();
            let gradients = Streams::unpack(&mut tensors, &device)?;
            let streams =
                if tensors.len() > 0 { Some(Streams::unpack(&mut tensors, &device)?) } else { None };
            let at = self.aligning.iter().position(|kept| kept.batch == batch)?;
            Some((at, Descent { streams, gradients }, cosines))
        });
        let Some((at, descent, cosines)) = unpacked else {
            return Err(self.unexpected("true gradients", found));
        };
        self.align_back(at, Some(descent), cosines)
    }

    /// The backward of the batch at `at`, and its comparison; `cosines` are those of the stages above, the last first.
    fn align_back(&mut self, at: usize, above: Option<Descent<D>>, mut cosines: Vec<f64>) -> Result<()> {
        let Some(Aligning { batch, network, found, trail: Some(trail) }) = self.aligning.remove(at) else {
            return Err(self.unexpected("a forward before its backward", "none".to_owned()));
        };
        let hand_down = self.hands_down(&network, batch)?;
        let stage = Stage::new(&network, self.places()).map_err(self.failed(batch))?;
        let mut gradients = Gradients::new(&Meter::new());
        let descent = stage.backward(trail, above, hand_down, &mut gradients);
        cosines.push(cosine(&network, &found, &gradients.into_params()));
        let Some(Descent { streams, gradients }) = descent else {
            cosines.reverse();
            return self.job.aligned(batch, &cosines).map_err(self.job_failed());
        };
        let bits: Vec<i64> = cosines.iter().map(|cosine| cosine.to_bits() as i64).collect();
        let mut tensors: Vec<TensorData> = vec![numbers(&bits)];
        gradients.pack(&mut tensors);
        if let Some(streams) = streams {
            streams.pack(&mut tensors);
        }
        let header: Header = self.header(Kind::Probed, batch);
        self.send(Side::Below, Message::new(header, tensors))
    }
}

/// The cosine of the angle between two gradients of a module's parameters, or 0 if one of them is 0.
fn cosine<M: Module>(module: &M, a: &GradientsParams, b: &GradientsParams) -> f64 {
    struct Products<'g> {
        a: &'g GradientsParams,
        b: &'g GradientsParams,
        sums: [f64; 3],
    }
    impl ModuleVisitor for Products<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let values = |gradients: &GradientsParams| -> Vec<f64> {
                let data = gradients.get::<D>(param.id).map(Tensor::into_data);
                data.iter().flat_map(|data| data.iter::<f64>().collect::<Vec<_>>()).collect()
            };
            let (a, b) = (values(self.a), values(self.b));
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            for (sum, term) in self.sums.iter_mut().zip([dot(&a, &b), dot(&a, &a), dot(&b, &b)]) {
                *sum += term;
            }
        }
    }
    let mut products = Products { a, b, sums: [0.0; 3] };
    module.visit(&mut products);
    let [both, a, b] = products.sums;
    let norms = (a * b).sqrt();
    if norms > 0.0 { both / norms } else { 0.0 }
}
