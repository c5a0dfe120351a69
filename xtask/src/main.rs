//! `cargo xtask check`: the one gate, cheapest step first; with `--device wgpu`, the laws on that device. `cargo xtask docs`: tables and pictures of documents, made from
//! archived runs. `cargo xtask curves`: what archived runs learned, as a picture. `cargo xtask python`: the Python package's
//! wheel and tests.

mod curves;
mod device;
mod docs;
mod gate;
mod python;

use std::env;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => gate::check(&root),
        ["check", "--device", device] => device::check(&root, device),
        ["docs"] => match docs::write(&root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        ["python"] if python::check() == python::Verdict::Passed => ExitCode::SUCCESS,
        ["python"] => ExitCode::FAILURE,
        ["curves", picture, ref metrics @ ..] if !metrics.is_empty() => curves::draw(picture, metrics),
        _ => {
            eprintln!(
                "usage: cargo xtask check [--device NAME], docs, python, or curves PICTURE.svg METRICS.jsonl..."
            );
            ExitCode::from(2)
        }
    }
}
