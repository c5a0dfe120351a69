//! `cargo xtask check`: the one gate, cheapest step first. `cargo xtask docs`: tables and pictures of documents, made from
//! archived runs. `cargo xtask curves`: what archived runs learned, as a picture. `cargo xtask alignment`: how well the stages of a
//! pipeline agreed with true gradients. `cargo xtask python`: the Python package's wheel and tests. `cargo xtask sanitize`: the
//! kernels' unsafe code under Miri and an address sanitizer.

mod curves;
mod docs;
mod gate;
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
        ["docs"] => match docs::write(&root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        ["sanitize"] => sanitize::run(&root),
        ["python"] if python::check() == python::Verdict::Passed => ExitCode::SUCCESS,
        ["python"] => ExitCode::FAILURE,
        ["curves", picture, ref metrics @ ..] if !metrics.is_empty() => curves::draw(picture, metrics),
        ["alignment", picture, metrics] => curves::draw_alignment(picture, metrics),
        _ => {
            eprintln!(
                "usage: cargo xtask check, docs, python, sanitize, curves PICTURE.svg METRICS.jsonl..., or alignment PICTURE.svg METRICS.jsonl"
            );
            ExitCode::from(2)
        }
    }
}
