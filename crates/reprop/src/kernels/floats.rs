//! The memory of CPU tensors, read and made without copies.

use std::ops::Deref;

use burn::backend::Flex;
use burn::backend::flex::{FlexTensor, Layout};
use burn::module::Param;
use burn::tensor::{Bytes, DType, Tensor};
use reprop_kernels::halves;
use reprop_kernels::heap::{MOST_BEFORE, Values, blank};

/// The values of a CPU tensor in row-major order: the tensor's own memory, or a copy if its strides are others.
pub(crate) struct Floats(FlexTensor);

impl Floats {
    /// The values of `x`.
    ///
    /// # Panics
    ///
    /// Panics if `x` is not a tensor of `f32` on the CPU, off any graph.
    pub fn of<const D: usize>(x: Tensor<D>) -> Self {
        let x = x.try_into_primitive::<Flex>().expect("fused kernels get tensors of the CPU");
        Self(if x.is_contiguous() { x } else { x.to_contiguous() })
    }

    /// The values of a parameter.
    pub fn param<const D: usize>(param: &Param<Tensor<D>>) -> Self {
        Self::of(param.val().inner())
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        self.0.as_slice().expect("contiguous values of f32")
    }
}

/// `base` as `write` leaves it, and what `write` says: in place, with nothing as the first argument, if nobody else has
/// the tensor; else `write` gets its values and fresh memory for the new ones.
pub(crate) fn update<const D: usize, R>(
    base: Tensor<D>,
    write: impl FnOnce(Option<&[f32]>, &mut [f32]) -> R,
) -> (Tensor<D>, R) {
    let shape = base.dims();
    let elements: usize = shape.iter().product();
    let Floats(mut base) = Floats::of(base);
    let before = base.layout().start_offset();
    // A view of a larger tensor would keep all of that alive.
    if before <= MOST_BEFORE
        && let Some(values) = base.try_storage_mut::<f32>()
        && values.len() == before + elements
    {
        let result = write(None, &mut values[before..]);
        return (Tensor::from_primitive::<Flex>(base), result);
    }
    let mut values = blank(elements);
    let result = write(Some(&Floats(base)), &mut values);
    (tensor(values, shape), result)
}

/// `x` as `change` leaves it, and what `change` says: in place if nobody else has the tensor.
pub(crate) fn modify<const D: usize, R>(
    x: Tensor<D>,
    change: impl FnOnce(&mut [f32]) -> R,
) -> (Tensor<D>, R) {
    update(x, |old, values| {
        if let Some(old) = old {
            values.copy_from_slice(old);
        }
        change(values)
    })
}

/// `x` on cache lines: as it is, or moved there. For what lives for many steps, such as parameters, which Burn has made.
pub(crate) fn on_lines<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let shape = x.dims();
    let x = Floats::of(x);
    if Values::lie_well(&x) {
        return Tensor::from_primitive::<Flex>(x.0);
    }
    let mut values = blank(x.len());
    values.copy_from_slice(&x);
    tensor(values, shape)
}

/// The first `left` of the last axis, and the others.
pub(crate) fn split(x: Tensor<4>, left: usize) -> (Tensor<4>, Tensor<4>) {
    let [batch, height, width, all] = x.dims();
    let pixels = batch * height * width;
    let (mut a, mut b) = (blank(pixels * left), blank(pixels * (all - left)));
    halves::split(&Floats::of(x), left, &mut a, &mut b);
    (tensor(a, [batch, height, width, left]), tensor(b, [batch, height, width, all - left]))
}

/// Undoes [`split`].
pub(crate) fn join(a: Tensor<4>, b: Tensor<4>) -> Tensor<4> {
    let [batch, height, width, left] = a.dims();
    let all = left + b.dims()[3];
    let mut x = blank(batch * height * width * all);
    halves::join(&Floats::of(a), &Floats::of(b), left, &mut x);
    tensor(x, [batch, height, width, all])
}

/// A CPU tensor of `values`.
pub(crate) fn tensor<const D: usize>(values: impl Into<Values>, shape: [usize; D]) -> Tensor<D> {
    let (memory, start) = values.into().into_parts();
    let elements: usize = shape.iter().product();
    assert_eq!(memory.len() - start, elements, "values do not fit the shape {shape:?}");
    let strides = Layout::contiguous(shape.into()).strides().to_vec();
    let layout = Layout::new(shape.into(), strides, start);
    Tensor::from_primitive::<Flex>(FlexTensor::new(Bytes::from_elems(memory), layout, DType::F32))
}
