//! The picture for a terminal.

use std::fmt::Write;

use super::Picture;
use crate::Slot;

/// Rows of the upper part at most.
const TALLEST: usize = 40;
const LABEL: usize = 10;

/// A canvas of characters, the origin below left.
struct Canvas {
    rows: Vec<Vec<char>>,
    time: f64,
    steps: f64,
}

impl Canvas {
    fn column(&self, time: f64) -> usize {
        let last = self.rows[0].len() - 1;
        ((time * self.time).floor().max(0.0) as usize).min(last)
    }

    fn row(&self, step: f64) -> usize {
        let last = self.rows.len() - 1;
        ((step * self.steps).floor() as usize).min(last)
    }

    fn put(&mut self, column: usize, row: usize, sign: char) {
        self.rows[row][column] = sign;
    }
}

/// Draws the schedule with characters, at most `width` columns wide. `/` is a forward step, `\` a reverse
/// step, `o` a snapshot taken, `^` a state that comes back.
pub fn text(picture: &Picture, width: usize) -> String {
    let room = width.saturating_sub(LABEL + 2).max(10);
    let span = picture.makespan.max(f64::MIN_POSITIVE);
    let columns = if span.fract() == 0.0 && span <= room as f64 { span as usize } else { room };
    let height = picture.steps.min(TALLEST);
    let mut canvas = Canvas {
        rows: vec![vec![' '; columns]; height],
        time: columns as f64 / span,
        steps: height as f64 / picture.steps as f64,
    };
    paint_moves(picture, &mut canvas);
    let mut out = format!("{}, makespan {}\n", picture.title, picture.makespan);
    for (row, signs) in canvas.rows.iter().enumerate().rev() {
        let step = (row as f64 / canvas.steps).ceil() as usize;
        line(&mut out, &format!("step {step}"), signs);
    }
    for slot in picture.slots() {
        line(&mut out, &slot.to_string(), &slot_row(picture, slot, &canvas));
    }
    if !picture.hauls.is_empty() {
        line(&mut out, "transfers", &haul_row(picture, &canvas));
    }
    out.push_str("/ forward   \\ reverse   o snapshot taken   ^ state comes back");
    out.push_str(if picture.hauls.is_empty() { "\n" } else { "   W write   R read\n" });
    out
}

fn line(out: &mut String, label: &str, signs: &[char]) {
    let signs: String = signs.iter().collect();
    let _ = writeln!(out, "{label:>LABEL$} |{}", signs.trim_end());
}

fn paint_moves(picture: &Picture, canvas: &mut Canvas) {
    for step in &picture.moves {
        let low = step.from.min(step.to);
        let count = step.from.abs_diff(step.to);
        let sign = if step.reverse { '\\' } else { '/' };
        let each = (step.end - step.start) / count as f64;
        for index in 0..count {
            // The middle of the step, so that rounding cannot move it to a neighbour.
            let time = step.start + (index as f64 + 0.5) * each;
            let (column, row) = (canvas.column(time), canvas.row((low + index) as f64));
            canvas.put(column, row, sign);
        }
    }
    for mark in &picture.marks {
        let (column, row) = (canvas.column(mark.at), canvas.row(mark.step as f64));
        // A state that comes back for its reverse step is seen by that step; do not hide it.
        if canvas.rows[row][column] != '\\' {
            canvas.put(column, row, if mark.save { 'o' } else { '^' });
        }
    }
}

/// A band `4===` for the time that the slot holds `x_4`.
fn slot_row(picture: &Picture, slot: Slot, canvas: &Canvas) -> Vec<char> {
    let mut row = vec![' '; canvas.rows[0].len()];
    for hold in picture.holds.iter().filter(|hold| hold.slot == slot) {
        band(&mut row, canvas, (hold.start, hold.end), &hold.step.to_string(), '=');
    }
    row
}

fn haul_row(picture: &Picture, canvas: &Canvas) -> Vec<char> {
    let mut row = vec![' '; canvas.rows[0].len()];
    for haul in &picture.hauls {
        let label = format!("{}{}", if haul.write { 'W' } else { 'R' }, haul.step);
        band(&mut row, canvas, (haul.start, haul.end), &label, if haul.write { '>' } else { '<' });
    }
    row
}

fn band(row: &mut [char], canvas: &Canvas, (start, end): (f64, f64), label: &str, sign: char) {
    if end <= start {
        return;
    }
    // The column in which a band ends belongs to the next one, unless the band has no other.
    let (first, end) = (canvas.column(start), (end * canvas.time).floor() as usize);
    let last = end.saturating_sub(1).clamp(first, row.len() - 1);
    // Half a number would be another number.
    let label = if label.len() > last - first + 1 { "" } else { label };
    for (offset, cell) in row[first..=last].iter_mut().enumerate() {
        *cell = label.chars().nth(offset).unwrap_or(sign);
    }
}
