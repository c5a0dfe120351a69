//! Charts of the report as pictures for documents.

use crate::chart::Chart;
use crate::html::ladder;
use crate::{Peers, Results};

/// The page's style as far as a chart needs it, on white.
const STYLE: &str = "text{font:12.5px sans-serif;fill:#1b1d21}.tick,.label{fill:#565b65}.name{font-size:11px}\
    .grid{stroke:#e3e0da;fill:none}.axis{stroke:#565b65;fill:none}.series{--c:#5c6470}.reprop{--c:#0b6bcb}\
    .pareprop{--c:#c2410c}.auto{--c:#0f766e}.peer{--c:#8223b8}.mark{fill:var(--c)}\
    .line{fill:none;stroke:var(--c);stroke-width:1.6}.cross{fill:none;stroke:var(--c);stroke-width:2.4}.whisker{stroke:var(--c)}\
    .frontier{fill:none;stroke:#565b65;stroke-dasharray:2 3}";

/// Time against memory of the first network at its largest batch, as an SVG file; `None` where there is nothing to compare.
///
/// ```
/// use reprop_report::{Results, Run, ladder_svg};
///
/// let run = |strategy: &str, bytes| {
///     let run = Run { strategy: strategy.into(), batch: 1, activation_peak_bytes: bytes, ..Run::default() };
///     run.timed(vec![0.1])
/// };
/// let results = Results { runs: vec![run("stored", 9 << 20), run("reprop", 2 << 20)], ..Results::default() };
/// assert!(ladder_svg(&results, None).is_some_and(|svg| svg.starts_with("<svg xmlns=")));
/// ```
pub fn ladder_svg(results: &Results, peers: Option<&Peers>) -> Option<String> {
    let mut chart = ladder(results, peers).into_iter().next()?;
    chart.labelled = true;
    Some(picture(&chart, "ladder"))
}

/// A chart as a file of its own.
pub(crate) fn picture(chart: &Chart, id: &str) -> String {
    // Behind the description, and so in front of everything that is drawn.
    let ground = format!("</desc><style>{STYLE}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
    let svg = chart.svg(id).replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"620\" ", 1);
    svg.replacen("</desc>", &ground, 1) + "\n"
}
