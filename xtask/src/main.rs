//! The project's own commands:
//!
//! - `check`: the one gate, cheapest step first; with `--device NAME`, the laws on that device;
//! - `features`: whether the library compiles for each family of devices;
//! - `docs`: tables and pictures of documents, made from archived runs;
//! - `curves`: what archived runs learned, as a picture; `alignment`: how well the stages of a pipeline agreed with true
//!   gradients;
//! - `python`: the Python package's wheel and tests;
//! - `sanitize`: the kernels' unsafe code under Miri and an address sanitizer;
//! - `neon`: the kernels' tests on NEON, emulated where this CPU has none.

mod curves;
mod device;
mod docs;
mod features;
mod gate;
mod kernels;
mod learning;
mod neon;
mod python;
mod sanitize;

use std::env;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => gate::check(&root),
        ["check", "--device", device] => device::check(&root, device),
        ["features"] => features::check(&root),
        ["docs"] => match docs::write(&root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        ["sanitize"] => sanitize::run(&root),
        ["neon"] => neon::run(&root),
        ["python"] if python::check() == python::Verdict::Passed => ExitCode::SUCCESS,
        ["python"] => ExitCode::FAILURE,
        ["curves", picture, ref metrics @ ..] if !metrics.is_empty() => curves::draw(picture, metrics),
        ["alignment", picture, metrics] => curves::draw_alignment(picture, metrics),
        _ => {
            eprintln!(
                "usage: cargo xtask check [--device NAME], features, docs, python, sanitize, neon, curves PICTURE.svg METRICS.jsonl..., or alignment PICTURE.svg METRICS.jsonl"
            );
            ExitCode::from(2)
        }
    }
}
