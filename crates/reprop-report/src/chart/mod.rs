//! Charts of points and lines, each with a table that says the same.

mod draw;
mod scale;

use std::fmt::Write as _;

use crate::escape;
pub use draw::marker;
pub use scale::{Kind, Scale};

/// How a number is written.
pub type Write = fn(f64) -> String;

/// One direction of a chart.
#[derive(Clone, Copy)]
pub struct Axis {
    /// What is laid out, with its unit.
    pub label: &'static str,
    pub kind: Kind,
    /// Numbers beside the axis.
    pub tick: Write,
    /// Numbers in the table.
    pub cell: Write,
}

/// A place on a chart, with the quartiles of what was measured.
#[derive(Clone, Copy)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub spread: Option<(f64, f64)>,
}

/// Points of one kind.
pub struct Series {
    /// In the legend and in the table.
    pub name: String,
    /// Its colour and shape: a strategy's name, or `peer`.
    pub style: String,
    pub points: Vec<Point>,
    /// What was foretold, as a line.
    pub foretold: Vec<(f64, f64)>,
    /// Whether points are joined.
    pub joined: bool,
}

/// What is drawn.
pub struct Chart {
    pub title: String,
    pub description: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// The best that can be had, from left to right.
    pub frontier: Vec<(f64, f64)>,
    /// Whether names stand beside points, where no legend does.
    pub labelled: bool,
}

impl Chart {
    /// The chart with its table behind it.
    pub fn figure(&self, id: &str) -> String {
        format!(
            "<figure><figcaption>{}</figcaption>{}\
             <details><summary>Table<span class=\"hidden\">: {}</span></summary>{}</details></figure>",
            escape(&self.title),
            self.svg(id),
            escape(&self.title),
            self.table()
        )
    }

    /// One row a point.
    fn table(&self) -> String {
        let mut rows = String::new();
        for series in &self.series {
            for point in &series.points {
                let spread = point.spread.map_or_else(String::new, |(low, high)| {
                    format!("{} to {}", (self.y.cell)(low), (self.y.cell)(high))
                });
                let cells = [(self.x.cell)(point.x), (self.y.cell)(point.y), spread];
                let _ = write!(
                    rows,
                    "<tr><th scope=\"row\">{}</th>{}</tr>",
                    escape(&series.name),
                    cells.map(|cell| format!("<td>{}</td>", escape(&cell))).concat()
                );
            }
        }
        let heads = ["", self.x.label, self.y.label, "middle half"].map(escape);
        table(&self.title, &heads, &rows)
    }
}

/// A table that scrolls in its own box, by keyboard too.
pub fn table(name: &str, heads: &[String], rows: &str) -> String {
    let heads: String = heads
        .iter()
        .map(|head| {
            if head.is_empty() {
                "<th scope=\"col\"><span class=\"hidden\">name</span></th>".to_owned()
            } else {
                format!("<th scope=\"col\">{head}</th>")
            }
        })
        .collect();
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table><thead><tr>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table></div>",
        escape(name)
    )
}
