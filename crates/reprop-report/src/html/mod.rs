//! The report: one file with no outside parts, for screens, printers and screen readers.

mod figures;
mod lanes;
mod text;

pub(crate) use figures::ladder;

use std::fmt::Write as _;

use crate::chart::{Chart, marker, table};
use crate::{CELLS, Peers, Results, cells, escape, human};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The whole page.
pub(crate) fn page(results: &Results, peers: Option<&Peers>) -> String {
    let sections = [
        ("throughput", "Throughput", text::THROUGHPUT, charts("t", &figures::throughput(results))),
        ("memory", "Memory", text::MEMORY, charts("m", &figures::memory(results))),
        ("ladder", "Time against memory", text::LADDER, charts("l", &ladder(results, peers))),
        ("timeline", "Inside one step", text::TIMELINE, lanes::figures(&results.timelines)),
        ("peers", "Beside another framework", text::PEERS, peers.map(peer_table).unwrap_or_default()),
        ("runs", "All runs", text::RUNS, run_table(results)),
        ("machine", "Machine", "", machine(results)),
    ];
    let mut contents = String::new();
    let mut body = String::new();
    for (id, title, lead, inner) in sections.iter().filter(|(.., inner)| !inner.is_empty()) {
        let _ = write!(contents, "<li><a href=\"#{id}\">{title}</a></li>");
        let lead = if lead.is_empty() { String::new() } else { format!("<p class=\"lead\">{lead}</p>") };
        let _ = write!(
            body,
            "<section id=\"{id}\" aria-labelledby=\"{id}-head\"><h2 id=\"{id}-head\">{title}</h2>{lead}{inner}</section>"
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>reprop bench: {models}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">\
         <style>{STYLE}</style></head><body><a class=\"skip\" href=\"#content\">To the content</a>\
         <header><p class=\"name\">reprop bench</p><h1>{models}</h1><p>{summary}</p>{headline}{legend}\
         <nav aria-label=\"Sections\"><ul>{contents}</ul></nav></header><main id=\"content\">{body}</main>\
         <footer><p>Made by reprop {version}. Shapes and colours stand for strategies on every chart; every chart has its \
         table.</p></footer><script>{SCRIPT}</script></body></html>\n",
        models = escape(&figures::models(results).join(", ")),
        summary = escape(&text::summary(results)),
        headline = headline(results),
        legend = legend(results, peers),
        version = escape(&results.machine.version),
    )
}

fn charts(prefix: &str, charts: &[Chart]) -> String {
    if charts.is_empty() {
        return String::new();
    }
    let figures: String =
        charts.iter().enumerate().map(|(index, chart)| chart.figure(&format!("{prefix}{index}"))).collect();
    format!("<div class=\"grid-of-charts\">{figures}</div>")
}

/// What recomputing saves and costs, at the largest configuration of each network.
fn headline(results: &Results) -> String {
    let mut cards = String::new();
    for card in text::cards(results) {
        let _ = write!(
            cards,
            "<div class=\"card\"><dt>{}</dt><dd><strong>{}</strong> {}</dd></div>",
            escape(&card.title),
            escape(&card.number),
            escape(&card.rest)
        );
    }
    if cards.is_empty() { cards } else { format!("<dl class=\"cards\">{cards}</dl>") }
}

fn legend(results: &Results, peers: Option<&Peers>) -> String {
    let mut entries: Vec<(String, String)> =
        figures::strategies(results).into_iter().map(|name| (name.clone(), name)).collect();
    if let Some(peers) = peers {
        entries.push(("peer".to_owned(), peers.peer.clone()));
    }
    let items: Vec<String> = entries
        .iter()
        .map(|(style, name)| {
            format!(
                "<li><svg viewBox=\"-8 -8 16 16\" width=\"16\" height=\"16\" aria-hidden=\"true\">\
                 <g class=\"series {}\">{}</g></svg>{}</li>",
                escape(style),
                marker(style),
                escape(name)
            )
        })
        .collect();
    format!("<ul class=\"legend\" aria-label=\"Legend\">{}</ul>", items.concat())
}

fn peer_table(peers: &Peers) -> String {
    let heads = ["", &peers.peer, "reprop", "ratio"].map(escape);
    let rows: Vec<String> = peers
        .units()
        .iter()
        .map(|unit| {
            format!(
                "<tr><th scope=\"row\">{}</th><td>{:.1} ms</td><td>{:.1} ms</td><td>{:.2}</td></tr>",
                escape(&unit.name),
                unit.peer.median,
                unit.ours.median,
                unit.ratio
            )
        })
        .collect();
    table("Ratios", &heads, &rows.concat())
}

fn run_table(results: &Results) -> String {
    let cell = |(index, cell): (usize, String)| match (index, escape(&cell)) {
        (0, cell) => format!("<th scope=\"row\">{cell}</th>"),
        (10, cell) => format!("<td><code>{cell}</code></td>"),
        (_, cell) => format!("<td>{cell}</td>"),
    };
    let row = |run| {
        let cells: Vec<String> = cells(run).into_iter().enumerate().map(cell).collect();
        format!("<tr>{}</tr>", cells.concat())
    };
    let rows: Vec<String> = results.runs.iter().map(row).collect();
    table("All runs", &CELLS.map(str::to_owned), &rows.concat()).replacen(
        "<table>",
        "<table class=\"sortable\">",
        1,
    )
}

fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let rows = [
        ("processor", machine.processor.clone()),
        ("cores", machine.cores.to_string()),
        ("memory", human(machine.memory_bytes)),
        ("system", machine.system.clone()),
        ("reprop", machine.version.clone()),
    ];
    let rows = rows.map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>", escape(&value)));
    format!("<dl class=\"facts\">{}</dl>", rows.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run;
    use crate::{Run, Timeline, TimelineSpan};

    fn sample() -> Results {
        let mut runs = Vec::new();
        for batch in [1, 2, 4] {
            for (strategy, bytes) in [("stored", 9 << 20), ("reprop", 2 << 20), ("pareprop", 3 << 20)] {
                let time = 0.1 * batch as f64;
                runs.push(Run {
                    activation_peak_bytes: bytes,
                    ..run(strategy, batch, &[time, time, 2.0 * time])
                });
            }
        }
        let span = |activity: &str, worker| TimelineSpan {
            activity: activity.to_owned(),
            place: 1,
            worker,
            begin: 0.1,
            seconds: 0.2,
        };
        let timelines = vec![Timeline {
            model: "rev-vit-s".to_owned(),
            strategy: "pareprop".to_owned(),
            spans: vec![span("grads", 0), span("recover", 1)],
            ..Timeline::default()
        }];
        Results { runs, timelines, ..Results::default() }
    }

    #[test]
    fn every_chart_has_a_title_a_description_and_a_table() {
        let page = page(&sample(), None);
        let count = |part: &str| page.matches(part).count();
        let charts = count("role=\"img\"");
        assert_eq!(charts, 4, "throughput, memory by batch, ladder, timeline");
        assert_eq!([count("<desc "), count("<figcaption>"), count("<details>")], [charts; 3]);
    }

    #[test]
    fn the_page_asks_the_network_for_nothing() {
        let page = page(&sample(), None);
        for part in ["http://", "https://", "@import", "url(", "<link rel=\"stylesheet\"", "src="] {
            assert!(!page.contains(part), "{part}");
        }
    }

    #[test]
    fn names_cannot_break_the_page() {
        let mut results = sample();
        results.runs[0].model = "<script>alert(\"1\")</script>".to_owned();
        results.machine.processor = "a & b".to_owned();
        let page = page(&results, None);
        assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert(&quot;1&quot;)"));
        assert!(page.contains("a &amp; b"));
    }

    #[test]
    fn one_run_alone_is_a_page_too() {
        let results = Results { runs: vec![run("stored", 1, &[0.1])], ..Results::default() };
        let page = page(&results, None);
        assert!(page.contains("id=\"throughput\"") && !page.contains("id=\"timeline\""), "{page}");
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}
