//! Charts as SVG. Colours come from the page's style, so that they follow light and dark.

use std::fmt::Write as _;

use super::{Chart, Point, Scale, Series};
use crate::escape;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// Half of a marker's side.
const SIZE: f64 = 4.5;

impl Chart {
    /// The drawing; `id` tells its title and description from those of other charts.
    pub fn svg(&self, id: &str) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let foretold = || self.series.iter().flat_map(|series| series.foretold.iter());
        let xs = points().map(|point| point.x).chain(foretold().map(|(x, _)| *x));
        let ys = points()
            .map(|point| point.spread.map_or(point.y, |(_, high)| high.max(point.y)))
            .chain(foretold().map(|(_, y)| *y));
        let x = Scale::new(self.x.kind, xs, LEFT, WIDTH - RIGHT);
        let y = Scale::new(self.y.kind, ys, HEIGHT - BOTTOM, TOP);
        let mut body = self.axes(&x, &y);
        if self.frontier.len() > 1 {
            body.push_str(&line("frontier", self.frontier.iter().copied(), &x, &y));
        }
        for series in &self.series {
            body.push_str(&draw(self, series, &x, &y));
        }
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-title {id}-text\">\
             <title id=\"{id}-title\">{}</title><desc id=\"{id}-text\">{}</desc>{body}</svg>",
            escape(&self.title),
            escape(&self.description)
        )
    }

    fn axes(&self, x: &Scale, y: &Scale) -> String {
        let mut svg = String::new();
        for tick in y.ticks() {
            let place = y.place(tick);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {place:.1}H{}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 7.0,
                place + 4.0,
                escape(&(self.y.tick)(tick))
            );
        }
        for tick in x.ticks() {
            let place = x.place(tick);
            let _ = write!(
                svg,
                "<path class=\"axis\" d=\"M{place:.1} {}v4\"/><text class=\"tick\" x=\"{place:.1}\" y=\"{}\" \
                 text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 17.0,
                escape(&(self.x.tick)(tick))
            );
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {}H{}\"/>\
             <text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"label\" transform=\"translate(13 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM,
            WIDTH - RIGHT,
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 8.0,
            escape(self.x.label),
            f64::midpoint(TOP, HEIGHT - BOTTOM),
            escape(self.y.label)
        );
        svg
    }
}

fn draw(chart: &Chart, series: &Series, x: &Scale, y: &Scale) -> String {
    let mut svg = format!("<g class=\"series {}\">", escape(&series.style));
    if series.foretold.len() > 1 {
        svg.push_str(&line("foretold", series.foretold.iter().copied(), x, y));
    }
    if series.joined && series.points.len() > 1 {
        svg.push_str(&line("line", series.points.iter().map(|point| (point.x, point.y)), x, y));
    }
    for point in &series.points {
        let Point { x: across, y: up, spread } = *point;
        if let Some((low, high)) = spread {
            let _ = write!(
                svg,
                "<path class=\"whisker\" d=\"M{:.1} {:.1}V{:.1}\"/>",
                x.place(across),
                y.place(low),
                y.place(high)
            );
        }
        let name = if chart.labelled { label(series, x.place(across)) } else { String::new() };
        let _ = write!(
            svg,
            "<g transform=\"translate({:.1} {:.1})\">{}{name}<title>{}: {}, {}</title></g>",
            x.place(across),
            y.place(up),
            marker(&series.style),
            escape(&series.name),
            escape(&(chart.x.cell)(across)),
            escape(&(chart.y.cell)(up))
        );
    }
    svg.push_str("</g>");
    svg
}

/// A name beside a point: neighbours on a curve of budgets slant out of each other's way, `reprop` stands
/// below, the rest above on the side with more room.
fn label(series: &Series, across: f64) -> String {
    let place = match series.style.as_str() {
        "auto" => "x=\"9\" y=\"4\" transform=\"rotate(75)\"",
        "reprop" => "y=\"19\" text-anchor=\"middle\"",
        _ if across > 0.6 * WIDTH => "x=\"-4\" y=\"-10\" text-anchor=\"end\"",
        _ => "x=\"4\" y=\"-10\"",
    };
    format!("<text class=\"name\" {place}>{}</text>", escape(&series.name))
}

fn line(class: &str, points: impl Iterator<Item = (f64, f64)>, x: &Scale, y: &Scale) -> String {
    let points: Vec<String> =
        points.map(|(across, up)| format!("{:.1},{:.1}", x.place(across), y.place(up))).collect();
    format!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "))
}

/// The shape of a style, around the origin: shapes tell what colours tell.
pub fn marker(style: &str) -> String {
    let s = SIZE;
    match style {
        "stored" => "<rect class=\"mark\" x=\"-4\" y=\"-4\" width=\"8\" height=\"8\"/>".to_owned(),
        "reprop" => format!("<circle class=\"mark\" r=\"{s}\"/>"),
        "pareprop" => {
            format!("<path class=\"mark\" d=\"M0 {}L{} {}H{}Z\"/>", -1.2 * s, 1.1 * s, 0.9 * s, -1.1 * s)
        }
        "auto" => format!("<path class=\"mark\" d=\"M0 {0}L{1} 0L0 {1}L{0} 0Z\"/>", -1.2 * s, 1.2 * s),
        _ => {
            format!("<path class=\"mark cross\" d=\"M{0} {0}L{1} {1}M{0} {1}L{1} {0}\"/>", -0.9 * s, 0.9 * s)
        }
    }
}
