//! Measurements as people and programs read them: results of `reprop bench`, their comparison, and the formats they are
//! written in. No tensors: documents are made from archived runs without building a network.
//!
//! ```
//! use reprop_report::{Format, Machine, Results, Run};
//!
//! let run = Run { model: "rev-vit-s".into(), batch: 2, depth: 6, strategy: "reprop".into(), ..Run::default() };
//! let results = Results { runs: vec![run.timed(vec![0.3, 0.1, 0.2])], ..Results::default() };
//! assert_eq!(results.runs[0].median_seconds, 0.2);
//! assert!(Format::Markdown.render(&results, None).contains("| rev-vit-s | 2 | 6 | reprop |"));
//! ```

mod bars;
mod bytes;
mod chains;
mod chart;
mod compare;
mod error;
mod format;
mod html;
mod machine;
mod peers;
mod picture;
mod results;
mod spread;
mod table;
mod timeline;

pub use bytes::human;
pub use chains::Chains;
pub use compare::{Comparison, Pair, Verdict};
pub use error::Error;
pub use format::Format;
pub use machine::Machine;
pub use peers::{PeerUnit, Peers};
pub use picture::ladder_svg;
pub use results::{Results, Run};
pub use spread::Spread;
pub use table::{CELLS, cells};
pub use timeline::{Timeline, TimelineSpan};

/// Text as it stands in HTML and SVG, in attributes too.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
