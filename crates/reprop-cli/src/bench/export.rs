//! Results in files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use reprop_report::{Format, Peers, Results};

use crate::failure::Failure;
use crate::whole_file::write_whole;

use super::options::OutputOptions;

/// Files to write, and what goes beside the results in them.
pub struct Output {
    files: Vec<(PathBuf, Format)>,
    peers: Option<Peers>,
}

impl Output {
    /// An error if an ending names no format, or if the peers' file is none.
    pub fn new(options: &OutputOptions) -> Result<Self, Failure> {
        let files = options.export.iter().map(|path| Ok((path.clone(), format_of(path)?)));
        let peers = options.peers.as_deref().map(|path| read(path, Peers::parse)).transpose()?;
        Ok(Self { files: files.collect::<Result<_, Failure>>()?, peers })
    }

    /// Whether a timeline has a place in any of the files.
    pub fn shows_timelines(&self) -> bool {
        self.files.iter().any(|(_, format)| matches!(format, Format::Html | Format::Json))
    }

    /// Writes all files.
    pub fn write(&self, results: &Results) -> Result<(), Failure> {
        for (path, format) in &self.files {
            write_whole(path, format.render(results, self.peers.as_ref()).as_bytes())?;
        }
        Ok(())
    }
}

fn format_of(path: &Path) -> Result<Format, Failure> {
    Format::of(path).ok_or_else(|| {
        Failure::usage(format!("{} ends in no format that results can be written in", path.display()))
            .hint("end it in .json, .csv, .md, .html, .svg or .txt")
    })
}

/// What a file holds.
pub fn read<T>(path: &Path, parse: fn(&str) -> Result<T, reprop_report::Error>) -> Result<T, Failure> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(parse(&text).with_context(|| format!("{} cannot be used", path.display()))?)
}
