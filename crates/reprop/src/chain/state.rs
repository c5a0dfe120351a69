//! States as bytes and back, bit for bit.

use thiserror::Error;

use super::Departure;

/// Bytes that do not make the state they should.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a state of {wanted} more bytes was expected where {found} are left")]
pub struct Unreadable {
    /// Bytes that the state needs.
    pub wanted: usize,
    /// Bytes that are left.
    pub found: usize,
}

/// What goes from step to step of a chain, and can leave memory: it turns into bytes and back, bit for bit.
///
/// Implemented for numbers, arrays and vectors of numbers, Burn's tensors, vectors of tensors, and tuples of all these.
///
/// ```
/// use reprop::chain::State;
///
/// let state = (vec![1.5f32, f32::NAN, -0.0], 7u64);
/// let mut bytes = vec![];
/// state.write(&mut bytes);
/// assert_eq!(bytes.len(), state.bytes());
/// let again = state.empty().read(&mut &bytes[..])?;
/// assert_eq!(again.0.map(f32::to_bits), state.0.map(f32::to_bits));
/// # trait Map { fn map(&self, f: fn(f32) -> u32) -> Vec<u32>; }
/// # impl Map for Vec<f32> { fn map(&self, f: fn(f32) -> u32) -> Vec<u32> { self.iter().map(|&x| f(x)).collect() } }
/// # Ok::<(), reprop::chain::Unreadable>(())
/// ```
pub trait State: Clone + Send + 'static {
    /// How many bytes [`Self::write`] appends.
    fn bytes(&self) -> usize;

    /// Bytes of one number in it, for codecs that sort bytes by their place in a number.
    fn element_bytes(&self) -> usize {
        4
    }

    /// Appends its bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// As [`Self::write`], without a wait: what lies on a device is asked for, and comes when the device has done it.
    fn depart(&self, out: &mut Departure) {
        self.write(out.bytes());
    }

    /// A state of this one's kind (its device and type, not its values) from the front of `bytes`, which moves on.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if there are too few bytes.
    fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable>;

    /// A state of this one's kind that holds next to nothing, for [`Self::read`].
    fn empty(&self) -> Self {
        self.clone()
    }
}

/// Takes `count` bytes off the front.
pub(super) fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Result<&'b [u8], Unreadable> {
    let (taken, rest) =
        bytes.split_at_checked(count).ok_or(Unreadable { wanted: count, found: bytes.len() })?;
    *bytes = rest;
    Ok(taken)
}

/// Appends a length.
pub(super) fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}

/// Takes a length off the front; one that more than the bytes left could not hold is refused.
pub(super) fn read_length(bytes: &mut &[u8], element: usize) -> Result<usize, Unreadable> {
    let mut length = [0; LENGTH];
    length.copy_from_slice(take(bytes, LENGTH)?);
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    let wanted = length.saturating_mul(element);
    if wanted > bytes.len() {
        return Err(Unreadable { wanted, found: bytes.len() });
    }
    Ok(length)
}

/// Bytes of a length.
pub(super) const LENGTH: usize = size_of::<u64>();

/// A number with a fixed number of bytes.
pub trait Number: Copy + Send + Default + 'static {
    /// Its bytes, the least first.
    fn put(self, out: &mut [u8]);
    /// The number of these bytes.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($($type:ty)+) => {$(
        impl Number for $type {
            fn put(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(bytes);
                Self::from_le_bytes(own)
            }
        }

        impl State for $type {
            fn bytes(&self) -> usize {
                size_of::<$type>()
            }

            fn element_bytes(&self) -> usize {
                size_of::<$type>()
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable> {
                Ok(Self::get(take(bytes, size_of::<$type>())?))
            }
        }
    )+};
}
number!(f32 f64 u8 u32 u64 i32 i64);

fn write_numbers<N: Number>(numbers: &[N], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + size_of_val(numbers), 0);
    for (to, &number) in out[start..].chunks_exact_mut(size_of::<N>()).zip(numbers) {
        number.put(to);
    }
}

impl<N: Number> State for Vec<N> {
    fn bytes(&self) -> usize {
        LENGTH + size_of_val(&self[..])
    }

    fn element_bytes(&self) -> usize {
        size_of::<N>()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_length(self.len(), out);
        write_numbers(self, out);
    }

    fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable> {
        let length = read_length(bytes, size_of::<N>())?;
        Ok(take(bytes, length * size_of::<N>())?.chunks_exact(size_of::<N>()).map(N::get).collect())
    }

    fn empty(&self) -> Self {
        Vec::new()
    }
}

impl<N: Number, const L: usize> State for [N; L] {
    fn bytes(&self) -> usize {
        size_of_val(self)
    }

    fn element_bytes(&self) -> usize {
        size_of::<N>()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_numbers(self, out);
    }

    fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable> {
        let mut numbers = [N::default(); L];
        for (to, from) in numbers.iter_mut().zip(take(bytes, size_of_val(self))?.chunks_exact(size_of::<N>()))
        {
            *to = N::get(from);
        }
        Ok(numbers)
    }
}

impl State for () {
    fn bytes(&self) -> usize {
        0
    }

    fn write(&self, _: &mut Vec<u8>) {}

    fn read(&self, _: &mut &[u8]) -> Result<Self, Unreadable> {
        Ok(())
    }
}

macro_rules! tuple {
    ($($name:ident)+) => {
        #[allow(non_snake_case, reason = "the tuple's fields carry their types' names")]
        impl<$($name: State),+> State for ($($name,)+) {
            fn bytes(&self) -> usize {
                let ($($name,)+) = self;
                0 $(+ $name.bytes())+
            }

            fn element_bytes(&self) -> usize {
                self.0.element_bytes()
            }

            fn write(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.write(out);)+
            }

            fn depart(&self, out: &mut Departure) {
                let ($($name,)+) = self;
                $($name.depart(out);)+
            }

            fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable> {
                let ($($name,)+) = self;
                Ok(($($name.read(bytes)?,)+))
            }

            fn empty(&self) -> Self {
                let ($($name,)+) = self;
                ($($name.empty(),)+)
            }
        }
    };
}
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_bytes_are_an_error_and_never_a_state() {
        let state = (vec![1.0f64, 2.0], [3u32; 2]);
        let mut bytes = vec![];
        state.write(&mut bytes);
        assert_eq!(bytes.len(), state.bytes());
        assert_eq!(state.empty().read(&mut &bytes[..]), Ok(state.clone()));
        for cut in 0..bytes.len() {
            assert!(state.empty().read(&mut &bytes[..cut]).is_err(), "{cut}");
        }
        // A length that was damaged.
        bytes[7] = 0xff;
        assert!(state.read(&mut &bytes[..]).is_err());
    }
}
