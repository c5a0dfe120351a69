//! Timelines: one lane a worker.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::chart::table;
use crate::{Timeline, escape};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 66.0;
const LANE: f64 = 34.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 26.0;
/// A box as wide as this has room for its number.
const ROOM: f64 = 18.0;

/// All timelines; those of one configuration have one clock, so that their lengths compare.
pub fn figures(timelines: &[Timeline]) -> String {
    if timelines.is_empty() {
        return String::new();
    }
    let key =
        |timeline: &Timeline| (timeline.model.clone(), timeline.depth, timeline.batch, timeline.threads);
    let figures: String = timelines
        .iter()
        .enumerate()
        .map(|(index, timeline)| {
            let alike = timelines.iter().filter(|other| key(other) == key(timeline));
            figure(index, timeline, alike.map(Timeline::seconds).fold(f64::MIN_POSITIVE, f64::max))
        })
        .collect();
    let swatch = |name: &str| format!("<li><span class=\"swatch {name}\"></span>{name}</li>");
    format!(
        "<ul class=\"legend\" aria-label=\"Activities\">{}</ul>{figures}",
        ["forward", "recover", "grads"].map(swatch).concat()
    )
}

fn figure(index: usize, timeline: &Timeline, longest: f64) -> String {
    let workers: BTreeSet<usize> = timeline.spans.iter().map(|span| span.worker).collect();
    let height = TOP + LANE * workers.len() as f64 + BOTTOM;
    let scale = (WIDTH - LEFT - 8.0) / longest;
    let mut body = String::new();
    for (lane, worker) in workers.iter().enumerate() {
        let y = TOP + LANE * lane as f64;
        let _ = write!(
            body,
            "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">worker {worker}</text>\
             <path class=\"grid\" d=\"M{LEFT} {:.1}H{WIDTH}\"/>",
            LEFT - 8.0,
            y + LANE / 2.0 + 4.0,
            y + LANE - 2.0
        );
        for span in timeline.spans.iter().filter(|span| span.worker == *worker) {
            let (x, width) = (LEFT + scale * span.begin, (scale * span.seconds).max(0.7));
            let activity = escape(&span.activity);
            let _ = write!(
                body,
                "<g class=\"span {activity}\"><rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\"/>",
                y + 3.0,
                LANE - 8.0
            );
            if width > ROOM {
                let _ = write!(
                    body,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    x + width / 2.0,
                    y + LANE / 2.0 + 3.0,
                    span.place
                );
            }
            let _ = write!(
                body,
                "<title>{activity} of place {}: {:.2} ms from {:.2} ms on</title></g>",
                span.place,
                1e3 * span.seconds,
                1e3 * span.begin
            );
        }
    }
    let _ = write!(
        body,
        "<text class=\"tick\" x=\"{LEFT}\" y=\"{0:.1}\">0 ms</text>\
         <text class=\"tick\" x=\"{1}\" y=\"{0:.1}\" text-anchor=\"end\">{2:.1} ms</text>",
        height - 8.0,
        WIDTH - 8.0,
        1e3 * longest
    );
    let Timeline { model, depth, batch, strategy, .. } = timeline;
    let title = escape(&format!("{strategy}: {model}, depth {depth}, batch {batch}"));
    format!(
        "<figure class=\"wide\"><figcaption>{title}</figcaption><div class=\"scroll\" role=\"region\" tabindex=\"0\" \
         aria-label=\"{title}\"><svg class=\"lanes\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"lane{index}-title lane{index}-text\"><title id=\"lane{index}-title\">Timeline, {title}</title>\
         <desc id=\"lane{index}-text\">{}</desc>{body}</svg></div><details><summary>Table<span class=\"hidden\">: {title}\
         </span></summary>{}</details></figure>",
        words(timeline),
        summary(timeline)
    )
}

/// What the lanes show, in a sentence.
fn words(timeline: &Timeline) -> String {
    let (recover, overlap) = (timeline.busy("recover"), timeline.overlap());
    let whole = 1e3 * timeline.seconds();
    if recover > 0.0 {
        let part = 100.0 * overlap / recover;
        format!("One step of {whole:.1} ms; {part:.0} % of the time spent recovering runs beside gradients.")
    } else {
        format!("One step of {whole:.1} ms; nothing is recovered apart from gradients.")
    }
}

fn summary(timeline: &Timeline) -> String {
    let mut rows = String::new();
    for activity in ["forward", "recover", "grads"] {
        let count = timeline.spans.iter().filter(|span| span.activity == activity).count();
        let _ = write!(
            rows,
            "<tr><th scope=\"row\">{activity}</th><td>{count}</td><td>{:.2} ms</td></tr>",
            1e3 * timeline.busy(activity)
        );
    }
    let _ = write!(
        rows,
        "<tr><th scope=\"row\">recover beside grads</th><td></td><td>{:.2} ms</td></tr>\
         <tr><th scope=\"row\">the whole step</th><td></td><td>{:.2} ms</td></tr>",
        1e3 * timeline.overlap(),
        1e3 * timeline.seconds()
    );
    table("Times of one step", &["", "pieces", "time"].map(str::to_owned), &rows)
}
