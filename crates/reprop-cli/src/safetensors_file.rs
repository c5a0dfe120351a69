//! Tensors by name in a safetensors file, written whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use burn::tensor::{DType, TensorData};
use safetensors::tensor::{Dtype, TensorView};

use crate::failure::Failure;

/// Writes `tensors` to `path`.
pub fn write(path: &Path, tensors: &[(String, TensorData)]) -> Result<(), Failure> {
    let views = tensors
        .iter()
        .map(|(name, data)| {
            let dtype = match data.dtype() {
                DType::F32 => Dtype::F32,
                DType::I32 => Dtype::I32,
                DType::I64 => Dtype::I64,
                other => anyhow::bail!("{name}: {other:?} has no place in a safetensors file here"),
            };
            Ok((name.as_str(), TensorView::new(dtype, data.shape().to_vec(), data.as_bytes())?))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    write_whole(path, &safetensors::serialize(views, None)?)
}

/// Writes a file so that a reader sees the old one or the new one, never a part: into a file beside it, then to disk,
/// then in its place.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {} ({} bytes)", path.display(), bytes.len())).map_err(
        |error| {
            // What cannot be written whole is not left behind in part.
            let _ = fs::remove_file(&beside);
            Failure::from(error)
        },
    )
}
