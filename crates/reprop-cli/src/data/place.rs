//! Where data sets live.

use std::env;
use std::path::PathBuf;

use crate::failure::Failure;

/// The folder of a data set: under `REPROP_DATA`, or else where the user's data are.
pub fn default_folder(name: &str) -> Result<PathBuf, Failure> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("REPROP_DATA")
        .or_else(|| variable("XDG_DATA_HOME").map(|folder| folder.join("reprop")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".local/share/reprop")));
    let base = base.ok_or_else(|| {
        Failure::new("there is no home folder to keep data sets in").hint("set REPROP_DATA to a folder")
    })?;
    Ok(base.join(name))
}
