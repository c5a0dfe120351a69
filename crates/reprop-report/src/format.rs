//! The formats that results are written in.

use std::path::Path;

use crate::{Peers, Results, bars, html, table};

/// A format by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Everything, for programs.
    Json,
    /// One line a run, for spreadsheets.
    Csv,
    /// A table for documents.
    Markdown,
    /// The report, in one file.
    Html,
    /// Bars of memory and throughput.
    Svg,
    /// A table for terminals.
    Text,
}

impl Format {
    /// Endings that name a format.
    pub const ENDINGS: [(&'static str, Self); 6] = [
        ("json", Self::Json),
        ("csv", Self::Csv),
        ("md", Self::Markdown),
        ("html", Self::Html),
        ("svg", Self::Svg),
        ("txt", Self::Text),
    ];

    /// The format that a file's ending names.
    ///
    /// ```
    /// use reprop_report::Format;
    ///
    /// assert_eq!(Format::of("out/report.html".as_ref()), Some(Format::Html));
    /// ```
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?;
        Self::ENDINGS.iter().find(|(name, _)| *name == ending).map(|(_, format)| *format)
    }

    /// The results in this format. Peers' times have a place in the report alone.
    pub fn render(self, results: &Results, peers: Option<&Peers>) -> String {
        match self {
            // Text, lists and finite numbers: there is nothing that could fail.
            Self::Json => serde_json::to_string_pretty(results).unwrap_or_default(),
            Self::Csv => table::csv(results),
            Self::Markdown => table::markdown(results),
            Self::Html => html::page(results, peers),
            Self::Svg => bars::svg(results),
            Self::Text => table::text(results),
        }
    }
}
