//! Turns: the sub-blocks of a coupling taken back one after the other, so that what one saved is gone before the next is
//! recovered.

use crate::couple::branches;
use crate::{Context, Couple, Footprint, Residual};

/// A sub-block that is recovered and differentiated before the other one is.
pub(crate) struct Turn<'p> {
    pub context: Context<'p>,
    /// What it saves.
    pub saved: u64,
    /// Temporaries of its recovery, the change that is added in place among them, or of its gradients.
    pub scratch: u64,
}

impl<'p> Turn<'p> {
    /// Of `residual`, on streams of shape `dims`.
    fn of<const D: usize>(
        residual: &impl Residual<D>,
        dims: [usize; D],
        context: Context<'p>,
    ) -> Option<Self> {
        let stream = dims.iter().product::<usize>() as u64 * size_of::<f32>() as u64;
        let Footprint { saved, forward, vjp, .. } = residual.footprint(dims, &context)?;
        Some(Self { context, saved, scratch: (stream + forward).max(vjp) })
    }

    /// All that it needs beside the streams.
    pub fn bytes(&self) -> u64 {
        self.saved + self.scratch
    }
}

/// The turns of F and of G. A sub-block saves what is quick to compute again only if it then needs no more than the other one
/// does, or than the `room` that there is.
pub(crate) fn turns<'p, const D: usize>(
    couple: &impl Couple<D>,
    dims: [usize; D],
    context: &Context<'p>,
    room: u64,
) -> Option<[Turn<'p>; 2]> {
    let turns = |context: &Context<'p>| {
        let [in_f, in_g] = branches(context);
        Some([Turn::of(couple.f(), dims, in_f)?, Turn::of(couple.g(), dims, in_g)?])
    };
    let lean = turns(&context.recovering())?;
    let allowed = lean.iter().map(Turn::bytes).fold(room, u64::max);
    let [plain_f, plain_g] = turns(context)?;
    let [lean_f, lean_g] = lean;
    let choose = |plain: Turn<'p>, lean| if plain.bytes() <= allowed { plain } else { lean };
    Some([choose(plain_f, lean_f), choose(plain_g, lean_g)])
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use burn::tensor::{Device, Tensor, TensorData};

    use super::*;
    use crate::{Block, Gradients, Holder, Meter, Pass, Streams};

    const WIDTH: usize = 8;
    const BYTES: u64 = (WIDTH * size_of::<f32>()) as u64;

    /// `F(x) = 2 x`, which saves `tables` tensors, or none where it is to be lean.
    #[derive(Default)]
    struct Double {
        tables: usize,
        /// Tensors that were saved so far.
        saved: AtomicUsize,
    }

    impl Double {
        fn tables(&self, context: &Context<'_>) -> usize {
            if context.is_lean() { 0 } else { self.tables }
        }
    }

    impl Residual<1> for Double {
        type Saved = Vec<Tensor<1>>;

        fn forward_saving(&self, x: Tensor<1>, context: &Context<'_>) -> (Tensor<1>, Self::Saved) {
            let tables = vec![x.clone(); self.tables(context)];
            self.saved.fetch_add(tables.len(), Ordering::Relaxed);
            (x * 2.0, tables)
        }

        fn vjp(&self, _: Self::Saved, dy: Tensor<1>, _: &Context<'_>, _: &mut Gradients) -> Tensor<1> {
            dy * 2.0
        }

        fn footprint(&self, _: [usize; 1], context: &Context<'_>) -> Option<Footprint> {
            Some(Footprint { saved: self.tables(context) as u64 * BYTES, ..Footprint::default() })
        }
    }

    struct Pair {
        f: Double,
        g: Double,
    }

    impl Couple<1> for Pair {
        type F = Double;
        type G = Double;

        fn f(&self) -> &Double {
            &self.f
        }

        fn g(&self) -> &Double {
            &self.g
        }
    }

    /// Tensors that F and G save in a reverse with room for so many, and the most that were held.
    fn reversed(room: u64) -> ([usize; 2], u64) {
        let with = |tables| Double { tables, ..Double::default() };
        let pair = Pair { f: with(3), g: with(5) };
        let meter = Meter::new();
        drop(meter.hold(Holder::Scratch, room * BYTES));
        let pass = Pass::training(0).meter(meter.clone());
        let ones = || Tensor::ones([WIDTH], &Device::flex());
        let streams = || Streams::new(ones(), ones());
        let (x, _) = pair.reverse(streams(), streams(), &pass.context(0), &mut Gradients::new(&meter));
        // X2 = 1 - 2, X1 = 1 - 2 X2.
        assert_eq!(
            [x.x1, x.x2].map(Tensor::into_data),
            [3.0_f32, -1.0].map(|x| TensorData::from([x; WIDTH]))
        );
        let saved = [&pair.f, &pair.g].map(|of| of.saved.load(Ordering::Relaxed));
        (saved, meter.report().activation_peak / BYTES)
    }

    #[test]
    fn a_reverse_saves_what_is_quick_to_compute_where_there_is_room() {
        // The change that is added in place takes one tensor.
        assert_eq!(reversed(0), ([0, 0], 1));
        assert_eq!(reversed(3), ([0, 0], 3));
        assert_eq!(reversed(4), ([3, 0], 4));
        assert_eq!(reversed(6), ([3, 5], 6));
    }
}
