//! The picture for a page.

use std::fmt::Write;

use super::Picture;
use crate::Slot;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const BAND: f64 = 20.0;
const FOOT: f64 = 58.0;

const FORWARD: &str = "#1f6feb";
const REVERSE: &str = "#d1451b";
const STATE: &str = "#1a7f37";
const WRITE: &str = "#8250df";
const READ: &str = "#bf8700";
const INK: &str = "#24292f";
const FAINT: &str = "#d8dee4";

/// Where time and steps are on the page.
struct Scale {
    time: f64,
    step: f64,
    floor: f64,
}

impl Scale {
    fn x(&self, time: f64) -> f64 {
        LEFT + time * self.time
    }

    fn y(&self, step: f64) -> f64 {
        self.floor - step * self.step
    }
}

/// Draws the schedule as a self-contained SVG document.
pub fn svg(picture: &Picture) -> String {
    let slots = picture.slots();
    let lanes = slots.len() + usize::from(!picture.hauls.is_empty());
    let tall = (picture.steps as f64 * 22.0).clamp(120.0, 380.0);
    let floor = TOP + tall;
    let span = picture.makespan.max(f64::MIN_POSITIVE);
    let scale = Scale { time: (WIDTH - LEFT - RIGHT) / span, step: tall / picture.steps as f64, floor };
    let height = floor + 34.0 + BAND * lanes as f64 + FOOT;
    let mut page = Page(String::new());
    page.add(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" font-family=\"system-ui, sans-serif\" font-size=\"11\" fill=\"{INK}\">"
    ));
    page.add(&format!("<rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#ffffff\"/>"));
    page.heading(picture);
    page.axes(picture, &scale);
    page.moves(picture, &scale);
    page.bands(picture, &scale, &slots);
    page.legend(height - 14.0, !picture.hauls.is_empty());
    page.add("</svg>");
    page.0
}

struct Page(String);

impl Page {
    fn add(&mut self, element: &str) {
        self.0.push_str(element);
        self.0.push('\n');
    }

    fn words(&mut self, x: f64, y: f64, style: &str, words: &str) {
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{words}</text>"));
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), style: &str) {
        self.add(&format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>"));
    }

    fn heading(&mut self, picture: &Picture) {
        self.words(LEFT, 24.0, "font-size=\"16\" font-weight=\"600\"", &picture.title);
        let advances: usize = picture.moves.iter().filter(|m| !m.reverse).map(|m| m.to - m.from).sum();
        let saves = picture.marks.iter().filter(|mark| mark.save).count();
        let summary = format!(
            "{advances} forward steps and {} reverse steps, {saves} snapshots, done at time {}",
            picture.steps, picture.makespan
        );
        self.words(LEFT, 43.0, "fill=\"#57606a\"", &summary);
    }

    fn axes(&mut self, picture: &Picture, scale: &Scale) {
        let every = picture.steps.div_ceil(14).max(1);
        for step in (0..=picture.steps).step_by(every) {
            let y = scale.y(step as f64);
            self.line((LEFT, y), (WIDTH - RIGHT, y), &format!("stroke=\"{FAINT}\""));
            self.words(LEFT - 8.0, y + 4.0, "text-anchor=\"end\"", &format!("x{step}"));
        }
        let tick = round_tick(picture.makespan / 10.0);
        let mut time = 0.0;
        while time <= picture.makespan {
            let x = scale.x(time);
            self.line((x, scale.floor), (x, scale.floor + 4.0), &format!("stroke=\"{INK}\""));
            self.words(x, scale.floor + 16.0, "text-anchor=\"middle\"", &format!("{time}"));
            time += tick;
        }
        self.line((LEFT, scale.floor), (WIDTH - RIGHT, scale.floor), &format!("stroke=\"{INK}\""));
        let middle = f64::midpoint(TOP, scale.floor);
        let upright =
            format!("text-anchor=\"middle\" fill=\"#57606a\" transform=\"rotate(-90 20 {middle:.1})\"");
        self.words(20.0, middle, &upright, "step of the chain");
        self.words(LEFT - 8.0, scale.floor + 16.0, "text-anchor=\"end\" fill=\"#57606a\"", "time");
    }

    /// The way of the working state. Dashed where it jumps: a state comes back from a slot.
    fn moves(&mut self, picture: &Picture, scale: &Scale) {
        let mut at = None;
        for step in &picture.moves {
            let here = (scale.x(step.start), scale.y(step.from as f64));
            let there = (scale.x(step.end), scale.y(step.to as f64));
            let jumps = at.filter(|&(_, y): &(f64, f64)| !step.reverse && (y - here.1).abs() > 0.5);
            if let Some(before) = jumps {
                self.line(before, here, "stroke=\"#8c959f\" stroke-dasharray=\"2 3\"");
            }
            let (colour, thick) = if step.reverse { (REVERSE, 3.5) } else { (FORWARD, 2.0) };
            let style = format!("stroke=\"{colour}\" stroke-width=\"{thick}\" stroke-linecap=\"round\"");
            self.line(here, there, &style);
            at = Some(there);
        }
        for mark in picture.marks.iter().filter(|mark| mark.save) {
            let (x, y) = (scale.x(mark.at), scale.y(mark.step as f64));
            self.add(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" fill=\"{STATE}\"/>"));
        }
    }

    fn bands(&mut self, picture: &Picture, scale: &Scale, slots: &[Slot]) {
        let top = scale.floor + 30.0;
        for (lane, slot) in slots.iter().enumerate() {
            let y = top + BAND * lane as f64;
            self.lane(y, &slot.to_string());
            for hold in picture.holds.iter().filter(|hold| hold.slot == *slot) {
                let fill = if slot.tier == 0 { STATE } else { WRITE };
                let label = format!("x{}", hold.step);
                self.band((scale.x(hold.start), scale.x(hold.end)), y, fill, 0.22, &label);
            }
        }
        if picture.hauls.is_empty() {
            return;
        }
        let y = top + BAND * slots.len() as f64;
        self.lane(y, "transfers");
        for haul in &picture.hauls {
            let (fill, word) = if haul.write { (WRITE, "write") } else { (READ, "read") };
            let label = format!("{word} x{}", haul.step);
            self.band((scale.x(haul.start), scale.x(haul.end)), y, fill, 0.45, &label);
        }
    }

    fn lane(&mut self, y: f64, name: &str) {
        self.words(LEFT - 8.0, y + 14.0, "text-anchor=\"end\"", name);
        self.line((LEFT, y + BAND), (WIDTH - RIGHT, y + BAND), &format!("stroke=\"{FAINT}\""));
    }

    fn band(&mut self, (from, to): (f64, f64), y: f64, fill: &str, opacity: f64, label: &str) {
        let wide = to - from;
        if wide <= 0.0 {
            return;
        }
        let inside = BAND - 4.0;
        let _ = writeln!(
            self.0,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{inside}\" rx=\"3\" fill=\"{fill}\" \
             fill-opacity=\"{opacity}\" stroke=\"{fill}\"><title>{label}</title></rect>",
            y + 2.0
        );
        // About six units a letter; a label that does not fit is left to the tooltip.
        let short = label.rsplit(' ').next().unwrap_or(label);
        for words in [label, short] {
            if words.len() as f64 * 6.0 + 6.0 <= wide {
                self.words(from + 4.0, y + 14.0, "", words);
                break;
            }
        }
    }

    fn legend(&mut self, y: f64, hauls: bool) {
        let mut entries = vec![
            (FORWARD, "forward: next state"),
            (REVERSE, "reverse: gradient through one step"),
            (STATE, "snapshot taken, held in a slot"),
        ];
        if hauls {
            entries.extend([(WRITE, "write, held on disk"), (READ, "read")]);
        }
        let mut x = LEFT;
        for (colour, words) in entries {
            self.add(&format!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"6\" rx=\"3\" fill=\"{colour}\"/>",
                y - 7.0
            ));
            self.words(x + 19.0, y, "", words);
            x += 34.0 + words.len() as f64 * 5.6;
        }
        self.line((LEFT, y - 22.0), (LEFT + 14.0, y - 22.0), "stroke=\"#8c959f\" stroke-dasharray=\"2 3\"");
        self.words(
            LEFT + 19.0,
            y - 18.0,
            "",
            "the working state is dropped, an older one comes back from its slot, and steps are recomputed",
        );
    }
}

/// 1, 2 or 5 times a power of ten, not below `wanted`.
fn round_tick(wanted: f64) -> f64 {
    let power = 10_f64.powf(wanted.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|lead| lead * power).find(|&tick| tick >= wanted).unwrap_or(wanted)
}
