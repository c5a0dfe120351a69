//! Where measured costs are kept.

use std::env;
use std::path::PathBuf;

/// The file of measured costs: under `REPROP_CACHE`, or else where the user's caches are. `None` if there is no home.
pub fn costs_file() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable("REPROP_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("reprop")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/reprop")));
    folder.map(|folder| folder.join("costs.json"))
}
