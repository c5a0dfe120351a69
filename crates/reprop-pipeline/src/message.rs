//! What stages send each other, with a header and a checksum.

use burn::tensor::{Bytes, DType, TensorData};
use xxhash_rust::xxh3::Xxh3;

use crate::{Error, Result};

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Activations and labels on their way up.
    Forward,
    /// Activations and gradients on their way down.
    Backward,
    /// Activations and labels of a test batch on their way up.
    Evaluate,
    /// How many test samples were classified rightly, on its way down.
    Evaluated,
    /// One parameter, by name; in a record, beside the number of its owner.
    Parameter,
    /// One parameter's gradients that wait for their update; in records only.
    Gradient,
    /// One parameter of an older version, which a batch in flight belongs to; in records only.
    Version,
    /// An input that waits for its backward; in records only.
    Input,
    /// The optimizer's state; in records only.
    Optimizer,
    /// Numbers about a stage.
    Summary,
    /// The last message in its direction.
    Close,
    /// Activations and labels on their way up, for true gradients to compare with.
    Probe,
    /// True gradients on their way down.
    Probed,
    /// What replicas of a stage tell each other.
    Replica,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::Forward,
        Self::Backward,
        Self::Evaluate,
        Self::Evaluated,
        Self::Parameter,
        Self::Gradient,
        Self::Version,
        Self::Input,
        Self::Optimizer,
        Self::Summary,
        Self::Close,
        Self::Probe,
        Self::Probed,
        Self::Replica,
    ];
}

/// What a message says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The run it belongs to.
    pub run: u64,
    /// The epoch of its batch.
    pub epoch: u64,
    /// Its batch, or another number that its kind calls for.
    pub batch: u64,
    /// What it is.
    pub kind: Kind,
    /// Orders that travel with it.
    pub flags: u8,
    /// A parameter's name, where it is one.
    pub label: String,
}

/// A header, tensors, and a checksum over both.
///
/// ```
/// use burn::tensor::TensorData;
/// use reprop_pipeline::{Header, Kind, Message};
///
/// let header = Header { run: 7, epoch: 0, batch: 3, kind: Kind::Forward, flags: 0, label: String::new() };
/// let message = Message::new(header, vec![TensorData::from([1.0_f32, 2.0])]);
/// assert!(message.verify(0).is_ok());
/// assert_eq!(Message::decode(&message.encode()), Some(message));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What it says of itself.
    pub header: Header,
    /// Shapes, types and values.
    pub tensors: Vec<TensorData>,
    /// Of everything above.
    pub checksum: u64,
}

/// Element types that travel.
const TYPES: [DType; 6] = [DType::F32, DType::I32, DType::I64, DType::U8, DType::F16, DType::BF16];

impl Message {
    /// A message with its checksum.
    pub fn new(header: Header, tensors: Vec<TensorData>) -> Self {
        let mut message = Self { header, tensors, checksum: 0 };
        message.checksum = message.compute();
        message
    }

    /// Bytes of its tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|data| data.as_bytes().len() as u64).sum()
    }

    /// An error if it is not what was sent; `stage` is who received it.
    ///
    /// # Errors
    ///
    /// [`Error::Checksum`] with both checksums.
    pub fn verify(&self, stage: usize) -> Result<()> {
        let (expected, found) = (self.checksum, self.compute());
        if expected == found {
            return Ok(());
        }
        Err(Error::Checksum { stage, bytes: self.bytes(), expected, found })
    }

    fn compute(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.head());
        for data in &self.tensors {
            hash.update(data.as_bytes());
        }
        hash.digest()
    }

    /// Everything but checksum and values.
    fn head(&self) -> Vec<u8> {
        let Header { run, epoch, batch, kind, flags, label } = &self.header;
        let mut bytes = Vec::new();
        for number in [*run, *epoch, *batch, label.len() as u64, self.tensors.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([*kind as u8, *flags]);
        bytes.extend(label.as_bytes());
        for data in &self.tensors {
            let number = TYPES.iter().position(|known| *known == data.dtype());
            let number =
                number.unwrap_or_else(|| unreachable!("tensors of {:?} do not travel", data.dtype()));
            bytes.extend([number as u8, data.shape().len() as u8]);
            bytes.extend(data.shape().iter().flat_map(|side| (*side as u64).to_le_bytes()));
        }
        bytes
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes() as usize + 256);
        bytes.extend(self.checksum.to_le_bytes());
        bytes.extend(self.head());
        for data in &self.tensors {
            bytes.extend_from_slice(data.as_bytes());
        }
        bytes
    }

    /// From bytes; nothing if they are not a message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let message = Self::take(&mut rest)?;
        rest.is_empty().then_some(message)
    }

    /// The first of several messages; `bytes` goes on behind it.
    pub fn take(bytes: &mut &[u8]) -> Option<Self> {
        let checksum = number(bytes)?;
        let [run, epoch, batch] = [number(bytes)?, number(bytes)?, number(bytes)?];
        let [label, count] = [number(bytes)? as usize, number(bytes)? as usize];
        let kind = *Kind::ALL.get(usize::from(byte(bytes)?))?;
        let flags = byte(bytes)?;
        let label = String::from_utf8(slice(bytes, label)?.to_vec()).ok()?;
        let mut shapes = Vec::new();
        for _ in 0..count {
            let dtype = *TYPES.get(usize::from(byte(bytes)?))?;
            let rank = byte(bytes)?;
            let shape =
                (0..rank).map(|_| number(bytes).map(|side| side as usize)).collect::<Option<Vec<_>>>()?;
            shapes.push((dtype, shape));
        }
        let mut tensors = Vec::new();
        for (dtype, shape) in shapes {
            let elements = shape.iter().try_fold(dtype.size(), |product, side| product.checked_mul(*side))?;
            let values = Bytes::from_bytes_vec(slice(bytes, elements)?.to_vec());
            tensors.push(TensorData::from_bytes(values, shape, dtype));
        }
        let header = Header { run, epoch, batch, kind, flags, label };
        Some(Self { header, tensors, checksum })
    }
}

fn slice<'b>(bytes: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    slice(bytes, 1).map(|taken| taken[0])
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    slice(bytes, 8).map(|taken| u64::from_le_bytes(taken.try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let header =
            Header { run: 1, epoch: 2, batch: 3, kind: Kind::Backward, flags: 1, label: "a.b".to_owned() };
        let tensors = vec![
            TensorData::new(vec![1.0_f32, -2.5, 3.0, 0.25, 5.0, 6.0], [2, 3]),
            TensorData::new(vec![7_i64], [1]),
            TensorData::new(Vec::<u8>::new(), [0]),
        ];
        Message::new(header, tensors)
    }

    #[test]
    fn a_message_comes_back_from_its_bytes() {
        let bytes = message().encode();
        let decoded = Message::decode(&bytes).unwrap();
        assert_eq!(decoded, message());
        assert!(decoded.verify(0).is_ok());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = message().encode();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = Message::decode(&damaged).map(|message| message.verify(4));
            assert!(
                matches!(found, None | Some(Err(Error::Checksum { stage: 4, .. }))),
                "bit {bit}: {found:?}"
            );
        }
    }

    #[test]
    fn a_cut_message_is_none() {
        let bytes = message().encode();
        assert!((0..bytes.len()).all(|length| Message::decode(&bytes[..length]).is_none()));
    }
}
