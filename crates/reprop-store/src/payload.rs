//! What a snapshot holds: bytes, and what kind of numbers they are.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::buffer::{AlignedBuffer, Spare};

/// What the bytes of a snapshot are.
///
/// It is written into the header and checked on reading; and the width of an element tells the shuffling codec
/// how to sort the bytes. A snapshot of several kinds at once is [`Dtype::Bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Dtype {
    Bytes = 0,
    F16 = 1,
    BF16 = 2,
    F32 = 3,
    F64 = 4,
    I8 = 5,
    I16 = 6,
    I32 = 7,
    I64 = 8,
    U8 = 9,
    U16 = 10,
    U32 = 11,
    U64 = 12,
    Bool = 13,
}

impl Dtype {
    const ALL: [Self; 14] = [
        Self::Bytes,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
    ];

    /// Bytes of one element.
    pub fn width(self) -> usize {
        match self {
            Self::Bytes | Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// The number written into a header.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// The name of a header's number, if it is one.
    pub(crate) fn name_of(code: u8) -> String {
        Self::ALL
            .get(usize::from(code))
            .map_or_else(|| format!("unknown ({code})"), |dtype| format!("{dtype:?}"))
    }
}

/// The content of a snapshot. A clone shares the bytes: it costs nothing.
///
/// ```
/// use reprop_store::{Dtype, Payload};
///
/// let state: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let payload = Payload::new(Dtype::F32, state.clone());
/// assert_eq!(payload.len(), 8);
/// assert_eq!(payload.clone().into_bytes(), state);
/// ```
#[derive(Clone)]
pub struct Payload {
    dtype: Dtype,
    /// A read leaves the payload where it came in, between header and padding.
    memory: Arc<Memory>,
    window: Range<usize>,
}

/// Memory that goes back to where it came from.
struct Memory {
    bytes: Vec<u8>,
    home: Option<Arc<Spare>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.give(std::mem::take(&mut self.bytes));
        }
    }
}

impl Payload {
    /// Bytes of elements of kind `dtype`.
    pub fn new(dtype: Dtype, bytes: Vec<u8>) -> Self {
        let window = 0..bytes.len();
        Self { dtype, memory: Arc::new(Memory { bytes, home: None }), window }
    }

    /// The `length` bytes of `buffer` from `start` on. Its memory goes to `home` when nobody needs it any more.
    pub(crate) fn read(
        dtype: Dtype,
        buffer: AlignedBuffer,
        (start, length): (usize, usize),
        home: Arc<Spare>,
    ) -> Self {
        let (bytes, first) = buffer.into_memory();
        let window = first + start..first + start + length;
        Self { dtype, memory: Arc::new(Memory { bytes, home: Some(home) }), window }
    }

    /// The kind of elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes[self.window.clone()]
    }

    /// The bytes by value, in the same memory if nobody else holds this payload.
    pub fn into_bytes(self) -> Vec<u8> {
        let Self { memory, window, .. } = self;
        match Arc::try_unwrap(memory) {
            Ok(mut memory) => {
                let mut bytes = std::mem::take(&mut memory.bytes);
                bytes.truncate(window.end);
                bytes.drain(..window.start);
                bytes
            }
            Err(shared) => shared.bytes[window].to_vec(),
        }
    }
}

/// Same kind, same bytes.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.bytes() == other.bytes()
    }
}

impl Eq for Payload {}

/// Megabytes of numbers help nobody in a message.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({:?}, {} bytes)", self.dtype, self.len())
    }
}
