//! `cargo xtask docs`: tables and pictures in documents, made from archived runs.

use std::fs;
use std::path::{Path, PathBuf};

use reprop_report::{Chains, Format, Peers, Results, Run, ladder_svg};

use crate::learning;

/// Documents with parts that are made.
const DOCUMENTS: [&str; 3] = ["README.md", "GUIDE.md", "docs/petra.md"];

/// What is made, and from what.
struct Runs {
    /// Strategies at two depths.
    strategies: Results,
    /// The ladder: strategies and budgets of one network.
    ladder: Results,
    /// Whole steps beside PyTorch's.
    peers: Peers,
    /// Chains under several plans.
    chains: Chains,
    /// What `reprop train` printed.
    train: String,
    /// What stages keep, by formula.
    petra_memory: String,
    /// What trainings came to.
    learning: String,
    /// What trainings in stages came to.
    staged: String,
}

impl Runs {
    fn read(root: &Path) -> Result<Self, String> {
        let text = |name: &str| {
            let path = root.join("bench/runs").join(name);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let results =
            |name: &str| Results::parse(&text(name)?).map_err(|error| format!("bench/runs/{name}: {error}"));
        let peers = "steps-2-threads.json";
        Ok(Self {
            strategies: results("strategies.json")?,
            ladder: results("ladder.json")?,
            peers: Peers::parse(&text(peers)?).map_err(|error| format!("bench/runs/{peers}: {error}"))?,
            chains: Chains::parse(&text("chains.json")?)
                .map_err(|error| format!("bench/runs/chains.json: {error}"))?,
            train: text("train-digits.txt")?,
            petra_memory: text("petra-memory.md")?,
            learning: learning::table(&root.join("bench/runs"), &learning::SETS)?,
            staged: learning::table(&root.join("bench/runs"), &learning::STAGED)?,
        })
    }

    /// Files that are made as a whole.
    fn files(&self) -> Result<[(&'static str, String); 3], String> {
        let peers = comparable(&self.ladder, &self.peers).then_some(&self.peers);
        let ladder = ladder_svg(&self.ladder, peers).ok_or("the ladder has one step only")?;
        Ok([
            ("docs/strategies.svg", Format::Svg.render(&self.strategies, None)),
            ("docs/ladder.svg", ladder),
            ("docs/chains.svg", self.chains.svg()),
        ])
    }

    /// A part of a document by its name.
    fn part(&self, name: &str) -> Option<String> {
        match name {
            "strategies" => Some(Format::Markdown.render(&self.strategies, None)),
            "ladder" => Some(Format::Markdown.render(&self.ladder, None)),
            "peers" => Some(self.peers.markdown("step")),
            "learning" => Some(self.learning.clone()),
            "petra-learning" => Some(self.staged.clone()),
            "petra-memory" => Some(self.petra_memory.clone()),
            "chain-lengths" => Some(self.chains.lengths()),
            "chain-plans" => Some(self.chains.plans()),
            "chain-peers" => Some(self.chains.peers()),
            "train" => Some(format!("```text\n{}```\n", self.train)),
            _ => None,
        }
    }
}

/// Times of one machine in two states do not belong on one axis: whether our own steps took about as long in both files.
fn comparable(ladder: &Results, peers: &Peers) -> bool {
    let agrees = |run: &Run| {
        let name = format!("{} {} {}", run.model, run.strategy, run.batch);
        let unit = peers.units().into_iter().find(|unit| unit.name == name && peers.threads == run.threads);
        unit.is_none_or(|unit| (0.8..1.25).contains(&(1e-3 * unit.ours.median / run.median_seconds)))
    };
    ladder.runs.iter().all(agrees)
}

/// Everything that is made, as it should be: paths and texts.
fn made(root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let runs = Runs::read(root)?;
    let mut made: Vec<(PathBuf, String)> =
        runs.files()?.into_iter().map(|(path, text)| (root.join(path), text)).collect();
    for name in DOCUMENTS {
        let path = root.join(name);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let filled = fill(&text, |part| runs.part(part)).map_err(|error| format!("{name}: {error}"))?;
        made.push((path, filled));
    }
    Ok(made)
}

/// A document whose parts between `<!-- made: NAME -->` and `<!-- end -->` are made anew.
fn fill(text: &str, part: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (begin, end) = ("<!-- made: ", "<!-- end -->");
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(begin) {
        let after = &rest[at + begin.len()..];
        let (name, body) = after.split_once(" -->\n").ok_or("a part's name does not end")?;
        let (_, tail) = body.split_once(end).ok_or_else(|| format!("the part `{name}` does not end"))?;
        let made = part(name).ok_or_else(|| format!("nothing makes the part `{name}`"))?;
        filled += &rest[..at];
        filled += &[begin, name, " -->\n", &made, end].concat();
        rest = tail;
    }
    Ok(filled + rest)
}

/// Makes everything anew.
pub fn write(root: &Path) -> Result<(), String> {
    for (path, text) in made(root)? {
        if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            eprintln!("made {}", path.display());
        }
    }
    Ok(())
}

/// An error that names what is not as it would be made.
pub fn check(root: &Path) -> Result<(), String> {
    let current = |(path, text): &(PathBuf, String)| fs::read_to_string(path).ok().as_ref() == Some(text);
    let stale: Vec<String> = made(root)?
        .iter()
        .filter(|made| !current(made))
        .map(|(path, _)| path.display().to_string())
        .collect();
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("{} not as made from bench/runs: run `cargo xtask docs`", stale.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_made_anew_and_the_rest_is_kept() {
        let text = "a\n<!-- made: x -->\nold\n<!-- end -->\nb\n<!-- made: y -->\n<!-- end -->c";
        let filled = fill(text, |name| Some(format!("new {name}\n"))).expect("whole parts");
        let expected = "a\n<!-- made: x -->\nnew x\n<!-- end -->\nb\n<!-- made: y -->\nnew y\n<!-- end -->c";
        assert_eq!(filled, expected);
        assert_eq!(fill(&filled, |name| Some(format!("new {name}\n"))).as_deref(), Ok(expected));
    }

    #[test]
    fn parts_that_nothing_makes_or_that_do_not_end_are_errors() {
        assert!(fill("<!-- made: x -->\n<!-- end -->", |_| None).is_err_and(|error| error.contains("`x`")));
        assert!(fill("<!-- made: x -->\nold", |_| Some(String::new())).is_err());
    }

    #[test]
    fn peers_of_a_slower_hour_are_left_out() {
        let run = |seconds| {
            let run =
                Run { model: "m".into(), strategy: "stored".into(), batch: 8, threads: 2, ..Run::default() };
            Results { runs: vec![run.timed(vec![seconds])], ..Results::default() }
        };
        let peers = r#"{"threads": 2, "pairs_ours_peer_ms": {"m stored 8": [[1000.0, 1100.0]]}}"#;
        let peers = Peers::parse(peers).expect("peers");
        assert!(comparable(&run(1.1), &peers) && !comparable(&run(2.0), &peers));
    }

    #[test]
    fn a_stale_document_is_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let copy = std::env::temp_dir().join(format!("reprop-docs-{}", std::process::id()));
        fs::create_dir_all(copy.join("docs")).expect("a folder");
        for folder in ["bench/runs/cifar10", "bench/runs/sotu", "bench/runs/petra-cifar10"] {
            fs::create_dir_all(copy.join(folder)).expect("a folder");
            for entry in fs::read_dir(root.join(folder)).expect("a folder") {
                let file = entry.expect("an entry");
                fs::copy(file.path(), copy.join(folder).join(file.file_name())).expect("a copy");
            }
        }
        let runs = [
            "strategies.json",
            "ladder.json",
            "steps-2-threads.json",
            "chains.json",
            "train-digits.txt",
            "petra-memory.md",
        ];
        let files = runs.map(|name| format!("bench/runs/{name}"));
        for file in files.iter().map(String::as_str).chain(DOCUMENTS) {
            fs::copy(root.join(file), copy.join(file)).expect("a copy");
        }
        let result = (write(&copy), check(&copy));
        fs::write(copy.join("docs/ladder.svg"), "stale").expect("a file");
        let stale = check(&copy);
        fs::remove_dir_all(&copy).expect("removed");
        assert_eq!(result, (Ok(()), Ok(())));
        assert!(stale.is_err_and(|error| error.contains("ladder.svg not as made")));
    }
}
