//! Draws who works on what, and when: `schedule 4 10 petra > docs/petra.svg`. The last stage is never idle after its first batch.
//!
//! Stages follow their `Order`; a forward takes 1, a backward 3 (recovery and gradients), a message nothing.

use std::collections::HashMap;
use std::fmt::Write as _;

use reprop_pipeline::{Method, Order, Turn};

const FORWARD: f64 = 1.0;
const BACKWARD: f64 = 3.0;
/// Pixels a unit of time, and a row.
const UNIT: f64 = 14.0;
const ROW: f64 = 30.0;
const LEFT: f64 = 60.0;

/// What a stage did from when to when.
struct Span {
    stage: usize,
    turn: Turn,
    begin: f64,
    end: f64,
}

/// When each turn of each stage runs: as soon as the stage is free and what it needs is there.
fn simulate(method: Method, stages: usize, batches: u64, depth: f64) -> Vec<Span> {
    let mut orders: Vec<_> = (0..stages)
        .map(|stage| Order::new(method.warm_up(stage, stages, depth), batches).peekable())
        .collect();
    let mut free = vec![0.0_f64; stages];
    let mut done: HashMap<(usize, Key), f64> = HashMap::new();
    let mut spans = Vec::new();
    loop {
        let mut moved = false;
        for stage in 0..stages {
            let Some(&turn) = orders[stage].peek() else { continue };
            let (needs, seconds) = match turn {
                Turn::Forward(batch) => (stage.checked_sub(1).map(|below| (below, (false, batch))), FORWARD),
                Turn::Backward(batch) => {
                    ((stage + 1 < stages).then_some((stage + 1, (true, batch))), BACKWARD)
                }
            };
            let ready = match needs {
                None => Some(0.0),
                Some(key) => done.get(&key).copied(),
            };
            let Some(ready) = ready else { continue };
            let begin = free[stage].max(ready);
            let end = begin + seconds;
            free[stage] = end;
            done.insert((stage, key_of(turn)), end);
            spans.push(Span { stage, turn, begin, end });
            orders[stage].next();
            moved = true;
        }
        if !moved {
            return spans;
        }
    }
}

/// Whether it is a backward, and of which batch.
type Key = (bool, u64);

fn key_of(turn: Turn) -> Key {
    match turn {
        Turn::Forward(batch) => (false, batch),
        Turn::Backward(batch) => (true, batch),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default).max(1)
    };
    let (stages, batches) = (number(0, 4), number(1, 8) as u64);
    let method = arguments.get(2).and_then(|name| name.parse().ok()).unwrap_or(Method::Petra);
    let spans = simulate(method, stages, batches, 2.0);
    let length = spans.iter().map(|span| span.end).fold(0.0, f64::max);
    let (width, height) = (LEFT + UNIT * length + 10.0, ROW * stages as f64 + 50.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"4\" y=\"16\">{method}, {stages} stages, {batches} batches: forward blue, backward orange</text>\n"
    );
    for stage in 0..stages {
        let y = 40.0 + ROW * (stages - 1 - stage) as f64;
        let _ = writeln!(svg, "<text x=\"4\" y=\"{}\">stage {stage}</text>", y + 14.0);
    }
    for Span { stage, turn, begin, end } in spans {
        let (backward, batch) = key_of(turn);
        let x = LEFT + UNIT * begin;
        let y = 30.0 + ROW * (stages - 1 - stage) as f64;
        let colour = if backward { "#f4a259" } else { "#8cb8e8" };
        let span = UNIT * (end - begin);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{span}\" height=\"24\" fill=\"{colour}\" stroke=\"white\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{batch}</text>",
            x + span / 2.0,
            y + 16.0
        );
    }
    println!("{svg}</svg>");
}
