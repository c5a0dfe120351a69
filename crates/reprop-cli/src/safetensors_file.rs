//! Tensors by name in a safetensors file, written whole or not at all.

use std::path::Path;

use burn::tensor::{DType, TensorData};
use safetensors::tensor::{Dtype, TensorView};

use crate::failure::Failure;
use crate::whole_file::write_whole;

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
