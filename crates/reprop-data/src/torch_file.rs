//! Files that PyTorch's `save` writes: a zip archive of a pickle and of the bytes of its tensors.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use flate2::Crc;

use crate::error::unreadable;
use crate::pickle::{self, Value};
use crate::{Error, Result};

/// Tensors by name, each by its shape and values.
pub type NamedTensors = BTreeMap<String, Shaped>;

/// Shape and values, the last axis fastest.
type Shaped = (Vec<usize>, Vec<f32>);

/// Names under which training programs keep the weights, beside what else they save.
const INSIDE: [&str; 3] = ["state_dict", "model_state", "model"];

/// The floating-point tensors of the state dictionary in the file at `path`. Counters and other whole numbers are left out.
///
/// ```
/// let error = reprop_data::torch_weights(std::path::Path::new("/no/such/file.pt")).unwrap_err();
/// assert!(error.to_string().contains("/no/such/file.pt"));
/// ```
///
/// # Errors
///
/// A file that cannot be read, is damaged, or holds something else.
pub fn torch_weights(path: &Path) -> Result<NamedTensors> {
    let file = fs::read(path).map_err(|error| unreadable(path, &error))?;
    tensors(&file).map_err(|reason| Error::Damaged { path: path.into(), reason })
}

fn tensors(file: &[u8]) -> std::result::Result<NamedTensors, String> {
    let entries = entries(file).ok_or("not a whole zip archive as PyTorch writes it since version 1.6")?;
    let name = entries.keys().find(|name| name.ends_with("/data.pkl")).ok_or("it has no data.pkl")?;
    let folder = name.trim_end_matches("data.pkl");
    let mut value = &pickle::read(entries[name])?;
    while let Some(inner) =
        INSIDE.iter().find_map(|name| value.get(name)).filter(|v| matches!(v, Value::Dict(_)))
    {
        value = inner;
    }
    let Value::Dict(pairs) = value else { return Err("it holds no state dictionary".into()) };
    let mut found = NamedTensors::new();
    for (name, value) in pairs {
        let name = name.text().ok_or("a tensor without a name")?;
        let tensor = tensor(value, |key| entries.get(format!("{folder}data/{key}").as_str()).copied());
        if let Some(tensor) = tensor.map_err(|reason| format!("`{name}`: {reason}"))? {
            found.insert(name.to_owned(), tensor);
        }
    }
    Ok(found)
}

/// A tensor, or nothing for one of whole numbers.
fn tensor<'f>(
    value: &Value,
    storage: impl Fn(&str) -> Option<&'f [u8]>,
) -> std::result::Result<Option<Shaped>, String> {
    if let Some(([data, ..], _)) = value.call("torch._utils _rebuild_parameter") {
        return tensor(data, storage);
    }
    let strange = || "not a tensor".to_owned();
    let (arguments, _) = value.call("torch._utils _rebuild_tensor_v2").ok_or_else(strange)?;
    let [Value::Persistent(place), offset, shape, strides, ..] = arguments else { return Err(strange()) };
    let [_, Value::Global(kind), key, ..] = place.items().ok_or_else(strange)? else { return Err(strange()) };
    let key = key.text().ok_or_else(strange)?;
    let bytes = storage(key).ok_or_else(|| format!("its bytes, {key}, are not in the file"))?;
    let values: Vec<f32> = match kind.as_str() {
        "torch FloatStorage" => {
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
        "torch DoubleStorage" => {
            bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect()
        }
        "torch LongStorage" | "torch IntStorage" | "torch BoolStorage" | "torch ByteStorage" => {
            return Ok(None);
        }
        other => {
            return Err(format!("numbers of the kind `{other}` are not read here: save them as float()"));
        }
    };
    let numbers = |value: &Value| -> Option<Vec<usize>> {
        value.items()?.iter().map(|number| usize::try_from(number.int()?).ok()).collect()
    };
    let (shape, strides) = numbers(shape).zip(numbers(strides)).ok_or_else(strange)?;
    let offset = offset.int().and_then(|offset| usize::try_from(offset).ok()).ok_or_else(strange)?;
    let gathered = gather(&values, offset, &shape, &strides);
    let gathered =
        gathered.ok_or_else(|| format!("{} values are fewer than {shape:?} needs", values.len()))?;
    Ok(Some((shape, gathered)))
}

/// The values of a view, the last axis fastest.
fn gather(values: &[f32], offset: usize, shape: &[usize], strides: &[usize]) -> Option<Vec<f32>> {
    let Some((&count, inner)) = shape.split_first() else {
        return values.get(offset).map(|&value| vec![value]);
    };
    let (&stride, strides) = strides.split_first()?;
    // A view of a damaged file may claim more than there is.
    if count.checked_mul(inner.iter().product())? > values.len() {
        return None;
    }
    let mut gathered = Vec::new();
    for index in 0..count {
        let start = offset.checked_add(index.checked_mul(stride)?)?;
        gathered.extend(gather(values, start, inner, strides)?);
    }
    Some(gathered)
}

/// Names and bytes of the entries of an archive, which are stored as they are; nothing if one of them is damaged.
fn entries(file: &[u8]) -> Option<BTreeMap<&str, &[u8]>> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = file.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    };
    let end = file.windows(4).rposition(|bytes| bytes == b"PK\x05\x06")?;
    let (count, mut at) = (number(end + 10, 2)?, number(end + 16, 4)?);
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let [method, name, extra, comment] = [10, 28, 30, 32].map(|field| number(at + field, 2));
        let (size, local) = (number(at + 20, 4)?, number(at + 42, 4)?);
        let name = file.get(at + 46..at + 46 + name?)?;
        let start = local + 30 + number(local + 26, 2)? + number(local + 28, 2)?;
        if method? != 0 || !file.get(at..)?.starts_with(b"PK\x01\x02") {
            return None;
        }
        let bytes = file.get(start..start.checked_add(size)?)?;
        let mut sum = Crc::new();
        sum.update(bytes);
        if sum.sum() as usize != number(at + 16, 4)? {
            return None;
        }
        entries.insert(std::str::from_utf8(name).ok()?, bytes);
        at += 46 + name.len() + extra? + comment?;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `oracle/weights.py`.
    const FILE: &[u8] = include_bytes!("../tests/files/views.pt");

    #[test]
    fn tensors_come_out_by_name_and_shape_whatever_their_layout() {
        let found = tensors(FILE).unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["double", "part", "plain", "scalar", "turned"]);
        let plain: Vec<f32> = (0..6).map(|value| value as f32 * 0.5).collect();
        assert_eq!(found["plain"], (vec![2, 3], plain.clone()));
        assert_eq!(found["turned"], (vec![3, 2], [0, 3, 1, 4, 2, 5].map(|at: usize| plain[at]).to_vec()));
        assert_eq!(found["part"], (vec![3], plain[3..].to_vec()));
        assert_eq!(found["double"], (vec![2], vec![1.25, -2.5]));
        assert_eq!(found["scalar"], (vec![], vec![7.0]));
    }

    #[test]
    fn damaged_files_are_refused_and_never_panic() {
        for length in [0, 10, FILE.len() / 2, FILE.len() - 30] {
            assert!(tensors(&FILE[..length]).is_err());
        }
        let whole = tensors(FILE).unwrap();
        let mut refused = 0;
        for at in 0..FILE.len() {
            let mut file = FILE.to_vec();
            file[at] ^= 0xff;
            refused += usize::from(tensors(&file).is_err());
        }
        // What is left is padding, and fields that are not looked at.
        assert!(refused > FILE.len() / 3 && whole.len() == 5, "{refused} of {}", FILE.len());
    }
}
