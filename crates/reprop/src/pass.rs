//! One pass through a network: its randomness, side inputs, arithmetic and meter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{Device, Tensor};

use crate::{
    Activity, Arithmetic, Error, Held, Holder, Kernels, Key, Meter, Precision, Result, Saved, Side, Spill,
    Storage, Storing, Trace, Workspace,
};

/// The settings of one forward and of the backward that belongs to it.
///
/// ```
/// use reprop::{Arithmetic, Pass};
///
/// // The third forward of step 10; its masks differ from those of any other forward.
/// let pass = Pass::training(42).step(10).call(2);
/// // Float streams, for comparison with another framework.
/// let float = Pass::evaluation().arithmetic(Arithmetic::Float);
/// ```
#[derive(Clone, Debug)]
pub struct Pass {
    training: bool,
    seed: u64,
    step: u64,
    call: u64,
    arithmetic: Arithmetic,
    precision: Precision,
    kernels: Kernels,
    workspace: Workspace,
    loss_weight: f64,
    recompute_transitions: bool,
    keep_probabilities: bool,
    storage: Storage,
    side: Side,
    meter: Meter,
    trace: Option<Trace>,
    spill: Option<Spill>,
    /// Whether a stream was written, since the pass was made, of which nobody knows whether it is inside its range.
    unwatched: Arc<AtomicBool>,
}

impl Pass {
    /// A training pass: dropout and drop-path are on, with masks from `seed`.
    pub fn training(seed: u64) -> Self {
        Self {
            training: true,
            seed,
            step: 0,
            call: 0,
            arithmetic: Arithmetic::default(),
            precision: Precision::default(),
            kernels: Kernels::default(),
            workspace: Workspace::shared(),
            loss_weight: 1.0,
            recompute_transitions: false,
            keep_probabilities: false,
            storage: Storage::default(),
            side: Side::new(),
            meter: Meter::new(),
            trace: None,
            spill: None,
            unwatched: Arc::default(),
        }
    }

    /// An evaluation pass: no randomness.
    pub fn evaluation() -> Self {
        Self { training: false, ..Self::training(0) }
    }

    /// The optimizer step this pass belongs to; part of every mask's key.
    pub fn step(self, step: u64) -> Self {
        Self { step, ..self }
    }

    /// Which of several forwards of one step; part of every mask's key.
    pub fn call(self, call: u64) -> Self {
        Self { call, ..self }
    }

    /// The arithmetic of the streams.
    pub fn arithmetic(self, arithmetic: Arithmetic) -> Self {
        Self { arithmetic, ..self }
    }

    /// The precision in which F and G compute.
    pub fn precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The kernels that the layers compute with.
    pub fn kernels(self, kernels: Kernels) -> Self {
        Self { kernels, ..self }
    }

    /// The memory of fused kernels; the process's own by default.
    pub fn workspace(self, workspace: &Workspace) -> Self {
        Self { workspace: workspace.clone(), ..self }
    }

    /// A factor on the loss's gradient: `1 / k` when `k` passes are accumulated, or a scale for half precision.
    pub fn loss_weight(self, loss_weight: f64) -> Self {
        Self { loss_weight, ..self }
    }

    /// Keeps of each transition its input alone, which a block below it needs in any case, and computes what it saves
    /// again in the backward pass: less memory, for one more forward of each transition. Gradients have the same bits.
    pub fn recompute_transitions(self) -> Self {
        Self { recompute_transitions: true, ..self }
    }

    /// Keeps attention's probabilities of a block that is recovered until its gradients are done, instead of computing them again there. A
    /// coupling that is [reversed](crate::Block::reverse) on fused kernels does neither. One product and softmax less, for the memory of `heads x tokens x tokens` floats a sample. Gradients
    /// have the same bits.
    pub fn keep_probabilities(self) -> Self {
        Self { keep_probabilities: true, ..self }
    }

    /// What saved tensors are kept in until the backward pass: [`Storage::F32`], as they are, by default. Where F and G compute in
    /// half precision they are in 16 bits already, and this changes nothing.
    pub fn saved_in(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// Side inputs, passed to every block.
    pub fn side(self, side: Side) -> Self {
        Self { side, ..self }
    }

    /// The meter that counts this pass's activations.
    pub fn meter(self, meter: Meter) -> Self {
        Self { meter, ..self }
    }

    /// The trace that this pass is noted in.
    pub fn trace(self, trace: &Trace) -> Self {
        Self { trace: Some(trace.clone()), ..self }
    }

    /// A disk that inputs of transitions may go to, so that plans may use it. None by default.
    pub fn spill(self, spill: &Spill) -> Self {
        Self { spill: Some(spill.clone()), ..self }
    }

    pub(crate) fn spilling(&self) -> Option<&Spill> {
        self.spill.as_ref()
    }

    /// Runs `work`, noted in the trace if there is one.
    pub(crate) fn note<T>(&self, activity: Activity, place: usize, work: impl FnOnce() -> T) -> T {
        match &self.trace {
            Some(trace) => trace.note(activity, place, work),
            None => work(),
        }
    }

    /// The context of the block in place `block`.
    pub fn context(&self, block: usize) -> Context<'_> {
        Context { pass: self, block: block as u64, branch: 0, recovering: false }
    }

    pub(crate) fn step_number(&self) -> u64 {
        self.step
    }

    pub(crate) fn recomputes_transitions(&self) -> bool {
        self.recompute_transitions
    }

    /// What the time of a step depends on.
    pub(crate) fn settings(&self) -> String {
        let Self { training, arithmetic, precision, kernels, .. } = self;
        let Self { recompute_transitions, keep_probabilities, spill, .. } = self;
        let storage = self.storage;
        format!(
            "{training} {arithmetic:?} {precision:?} {kernels} {recompute_transitions} {keep_probabilities} {spill:?} {storage}"
        )
    }

    /// Whether what is saved is kept in other than what it was computed in.
    pub(crate) fn stores(&self) -> bool {
        self.storage != Storage::F32 && self.precision == Precision::F32
    }

    /// `saved` as it is kept.
    pub(crate) fn store<S: Saved>(&self, mut saved: S) -> S {
        if self.stores() {
            saved.store(&Storing::new(self.storage, &self.workspace));
        }
        saved
    }

    /// `saved` as the derivative needs it, from what [`Self::store`] gave.
    pub(crate) fn restore<S: Saved>(&self, mut saved: S) -> S {
        if self.stores() {
            saved.store(&Storing::new(Storage::F32, &self.workspace));
        }
        saved
    }

    /// Whether layers run on fused kernels where they can.
    pub(crate) fn may_fuse(&self) -> bool {
        self.kernels == Kernels::Auto && self.precision == Precision::F32
    }

    pub(crate) fn weight_of_loss(&self) -> f64 {
        self.loss_weight
    }

    pub(crate) fn arithmetic_of_streams(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Whether what lies on `device` is computed on fused kernels.
    pub(crate) fn fuses(&self, device: &Device) -> bool {
        self.kernels == Kernels::Auto && self.precision == Precision::F32 && *device == Device::flex()
    }

    /// An error if F and G cannot compute in this precision on `device`, or what they save cannot be kept there as asked for.
    pub(crate) fn check_precision(&self, device: &Device) -> Result<()> {
        let Self { precision, storage, .. } = *self;
        if precision != Precision::F32 && !device.supports_dtype(precision.dtype()) {
            return Err(Error::Precision { precision, device: format!("{device:?}") });
        }
        // On the CPU the kernels here do it.
        if self.stores() && *device != Device::flex() && !device.supports_dtype(storage.dtype()) {
            return Err(Error::Storage { storage, device: format!("{device:?}") });
        }
        Ok(())
    }

    /// Whether all who promised to look at the streams that they write did so, and found them inside their range.
    pub(crate) fn is_watched(&self) -> bool {
        !self.unwatched.load(Ordering::Relaxed)
    }

    pub(crate) fn pool(&self) -> &Workspace {
        &self.workspace
    }

    pub(crate) fn metering(&self) -> &Meter {
        &self.meter
    }
}

/// What a sub-block sees of its pass, and where in the network it stands.
#[derive(Clone, Copy, Debug)]
pub struct Context<'p> {
    pass: &'p Pass,
    block: u64,
    branch: u64,
    recovering: bool,
}

impl<'p> Context<'p> {
    /// Whether this is a training pass.
    pub fn is_training(&self) -> bool {
        self.pass.training
    }

    /// The side input of type `T`, if the pass has one.
    pub fn side<T: Send + Sync + 'static>(&self) -> Option<&'p T> {
        self.pass.side.get()
    }

    /// The arithmetic of the streams.
    pub fn arithmetic(&self) -> Arithmetic {
        self.pass.arithmetic
    }

    /// Notes that a stream left the range of its grid, or was written without a look at it, by someone who
    /// [promised](crate::Residual::watches_range) one: from now on the engine itself looks at all streams of this pass.
    pub fn unwatched(&self) {
        self.pass.unwatched.store(true, Ordering::Relaxed);
    }

    /// The precision that F and G compute in.
    pub fn precision(&self) -> Precision {
        self.pass.precision
    }

    /// Whether layers whose parameters are on `device` run on fused kernels.
    pub(crate) fn fuses(&self, device: &Device) -> bool {
        self.pass.fuses(device)
    }

    /// The memory of fused kernels; that they run here is noted in the trace.
    pub(crate) fn fused(&self) -> &'p Workspace {
        if let Some(trace) = &self.pass.trace {
            trace.fused(self.block as usize);
        }
        &self.pass.workspace
    }

    /// Runs `work` of this block, noted in the trace if there is one.
    pub(crate) fn note<T>(&self, activity: Activity, work: impl FnOnce() -> T) -> T {
        self.pass.note(activity, self.block as usize, work)
    }

    /// Counts `bytes` that this block holds beside streams, in a [reverse](crate::Block::reverse).
    ///
    /// ```
    /// use reprop::{Holder, Meter, Pass};
    ///
    /// let meter = Meter::new();
    /// let pass = Pass::training(0).meter(meter.clone());
    /// drop(pass.context(0).hold(Holder::Blocks, 64));
    /// assert_eq!(meter.report().activation_peak, 64);
    /// ```
    pub fn hold(&self, holder: Holder, bytes: u64) -> Held {
        self.pass.meter.hold(holder, bytes)
    }

    /// The context of one sub-block of this block: F and G draw different masks.
    pub fn branch(&self, branch: u64) -> Self {
        Self { branch, ..*self }
    }

    /// The context of a block that is recovered: what it saves is used at once.
    pub fn recovering(&self) -> Self {
        Self { recovering: true, ..*self }
    }

    /// Whether a sub-block should rather compute again, in its derivative, what is large and quick to compute than save it.
    pub fn is_lean(&self) -> bool {
        self.recovering && !self.pass.keep_probabilities
    }

    /// Whether elements or samples are dropped at any of these rates.
    pub(crate) fn masks(&self, dropout: f64, drop_path: f64) -> bool {
        self.pass.training && (dropout > 0.0 || drop_path > 0.0)
    }

    /// The key of the random tensor at `site` of this sub-block.
    pub fn key(&self, site: u64) -> Key {
        let Pass { seed, step, call, .. } = *self.pass;
        Key { seed, step, call, block: self.block, site: (self.branch << 32) | site }
    }

    /// `x` with elements dropped at `rate` and the rest scaled up, or `x` itself in evaluation.
    ///
    /// It is linear in `x` with the same mask each time: its vjp is itself.
    pub fn dropout<const D: usize>(&self, x: Tensor<D>, rate: f64, site: u64) -> Tensor<D> {
        let shape = x.dims();
        self.masked(x, shape, rate, site)
    }

    /// `x` with whole samples (of the first axis) dropped at `rate` and the rest scaled up, or `x` itself in
    /// evaluation. Its vjp is itself.
    pub fn drop_path<const D: usize>(&self, x: Tensor<D>, rate: f64, site: u64) -> Tensor<D> {
        let mut shape = [1; D];
        shape[0] = x.dims()[0];
        self.masked(x, shape, rate, site)
    }

    fn masked<const D: usize>(&self, x: Tensor<D>, shape: [usize; D], rate: f64, site: u64) -> Tensor<D> {
        if !self.pass.training || rate == 0.0 {
            return x;
        }
        let mask = self.key(site).keep_mask(shape, rate, &x.device());
        let mask = if mask.dtype() == x.dtype() { mask } else { mask.cast(x.dtype()) };
        x * mask
    }
}
