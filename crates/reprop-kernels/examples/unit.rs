//! Times units A and B one step at a time, for a driver that interleaves several programs.
//!
//! Reads lines `A <batch>` or `B <channels>` and answers each with the milliseconds of one step (forward and backward with
//! all gradients). `RAYON_NUM_THREADS` sets the threads; an argument, such as `avx2+fma`, names an instruction set other than this CPU's
//! widest.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use reprop_kernels::{Isa, Workspace, pool};

mod units;

use units::{convolution, transformer};

enum Unit {
    A(transformer::Unit),
    B(convolution::Unit),
}

impl Unit {
    fn new(line: &str, ws: &Workspace) -> Option<Self> {
        let (name, size) = line.split_once(' ')?;
        let size = size.trim().parse().ok()?;
        match name {
            "A" => Some(Self::A(transformer::Unit::new(size, ws))),
            "B" => Some(Self::B(convolution::Unit::new(size, ws))),
            _ => None,
        }
    }

    fn step(&mut self, ws: &Workspace) {
        match self {
            Self::A(unit) => unit.step(ws),
            Self::B(unit) => unit.step(ws),
        }
    }

    fn flops(&self) -> f64 {
        match self {
            Self::A(unit) => unit.flops(),
            Self::B(unit) => unit.flops(),
        }
    }
}

fn main() -> std::io::Result<()> {
    pool::join_pool(None);
    let isa = match std::env::args().nth(1) {
        Some(name) => Isa::available().into_iter().find(|isa| isa.name() == name).ok_or_else(|| {
            let sets: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
            std::io::Error::other(format!("this CPU has {}, not {name}", sets.join(", ")))
        })?,
        None => Isa::detect(),
    };
    let ws = Workspace::new(isa);
    let mut units = BTreeMap::new();
    eprintln!("kernels on {}", ws.isa().name());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if !units.contains_key(&line) {
            let Some(unit) = Unit::new(&line, &ws) else {
                eprintln!("hint: a line is `A <batch>` or `B <channels>`, not `{line}`");
                continue;
            };
            eprintln!("{line}: {:.1} GFLOP", unit.flops() * 1e-9);
            units.insert(line.clone(), unit);
        }
        let unit = units.get_mut(&line).expect("made above");
        let start = Instant::now();
        unit.step(&ws);
        println!("{:.3}", start.elapsed().as_secs_f64() * 1e3);
        std::io::stdout().flush()?;
    }
    Ok(())
}
