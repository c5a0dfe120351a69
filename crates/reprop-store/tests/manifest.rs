//! What survives: kills at any moment, torn and damaged manifests.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{key, names, payload, small};
use reprop_store::{DiskConfig, Durability, Error, Store};

const CHILD: &str = "REPROP_STORE_KILLED_RUN";
const WINDOW: u64 = 5;

fn config(folder: &Path) -> DiskConfig {
    small(folder).durability(Durability::Every(1)).writers(2)
}

/// Snapshot `i` of the run that is killed; lengths differ, so that places are split and joined.
fn snapshot(i: u64) -> reprop_store::Payload {
    payload(i, 1000 + (i * 7919 % 30_000) as usize)
}

/// The run that is killed: step after step, holding the last five snapshots, a point at each step; says when it is durable.
fn run_until_killed(folder: &Path) {
    let (store, mut step) = match config(folder).open_existing() {
        Ok((store, recovered)) => (store, u64::from_le_bytes(recovered.meta.try_into().unwrap()) + 1),
        Err(Error::NothingToResume { .. }) => (config(folder).create().unwrap(), 0),
        Err(error) => panic!("{error}"),
    };
    let mut out = std::io::stdout();
    // An end of its own, should nobody kill it.
    while step < 1_000_000 && folder.exists() {
        store.put(key(step), snapshot(step)).unwrap();
        if step >= WINDOW {
            store.remove(key(step - WINDOW)).unwrap();
        }
        let point = store.commit(&step.to_le_bytes()).unwrap().unwrap();
        if step % 3 == 0 {
            point.wait().unwrap();
            // A closed pipe: the parent is gone.
            if writeln!(out, "durable {step}").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
        step += 1;
    }
}

#[test]
fn a_run_killed_at_any_moment_resumes_at_a_point_no_older_than_the_last_it_was_told_of() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return run_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .arg("a_run_killed_at_any_moment_resumes_at_a_point_no_older_than_the_last_it_was_told_of")
            .env(CHILD, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = None;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The harness writes a line of its own in front of the first.
        let durable =
            lines.map_while(Result::ok).filter_map(|line| line.rsplit_once("durable ")?.1.parse().ok());
        for (count, step) in durable.enumerate() {
            told = Some(step);
            if count == 0 {
                let error = config(folder.path()).create().map(drop).unwrap_err();
                assert!(
                    matches!(error, Error::Locked { pid: Some(pid), .. } if pid == child.id()),
                    "{error}"
                );
            }
            if count as u64 == 3 + round * 5 % 7 {
                // The child is somewhere in the steps after it by now.
                std::thread::sleep(std::time::Duration::from_micros(round * 370));
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let told: u64 = told.expect("the run made durable points");

        let (store, recovered) = config(folder.path()).open_existing().unwrap();
        let step = u64::from_le_bytes(recovered.meta.try_into().unwrap());
        assert!(step >= told && step > last, "resumes at {step}, was told of {told}, came from {last}");
        last = step;
        let expected: Vec<_> = (step.saturating_sub(WINDOW - 1)..=step).map(key).collect();
        assert_eq!(store.keys(), expected);
        for key in expected {
            assert_eq!(store.get(key).unwrap(), snapshot(key.step));
        }
        if round == 11 {
            store.finish().unwrap();
        }
    }
    assert!(names(folder.path()).is_empty());
}

/// Three points, of steps 0, 0 to 1 and 0 to 2; gives the manifest's lines.
fn three_points(folder: &Path) -> Vec<Vec<u8>> {
    let store = config(folder).create().unwrap();
    for step in 0..3 {
        store.put(key(step), snapshot(step)).unwrap();
        store.commit(&[step as u8]).unwrap().unwrap().wait().unwrap();
    }
    drop(store);
    let text = std::fs::read(folder.join("manifest")).unwrap();
    let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    assert_eq!(lines.len(), 4);
    lines
}

#[test]
fn a_torn_last_line_is_reported_and_the_point_before_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let lines = three_points(folder.path());
    for cut in [1, 9, 40, lines[3].len() - 1] {
        let mut text = lines.concat();
        text.truncate(text.len() - lines[3].len() + cut);
        std::fs::write(folder.path().join("manifest"), text).unwrap();
        let (store, recovered) = config(folder.path()).open_existing().unwrap();
        assert_eq!((&*recovered.meta, recovered.point, recovered.torn), (&[1_u8][..], 2, cut as u64));
        assert_eq!(store.keys(), [key(0), key(1)]);
        assert_eq!(store.get(key(1)).unwrap(), snapshot(1));
        // What comes next is written where the torn line was.
        store.put(key(9), snapshot(9)).unwrap();
        store.commit(b"next").unwrap().unwrap().wait().unwrap();
        drop(store);
        let (store, recovered) = config(folder.path()).open_existing().unwrap();
        assert_eq!((&*recovered.meta, recovered.torn), (&b"next"[..], 0));
        assert_eq!(store.get(key(9)).unwrap(), snapshot(9));
        drop(store);
    }
}

#[test]
fn zeros_and_noise_behind_the_last_line_are_a_torn_line_too() {
    let folder = tempfile::tempdir().unwrap();
    let lines = three_points(folder.path());
    for tail in [vec![0; 512], b"\n\n\n".to_vec(), common::noise(4, 3000)] {
        let text = [lines.concat(), tail.clone()].concat();
        std::fs::write(folder.path().join("manifest"), text).unwrap();
        let (store, recovered) = config(folder.path()).open_existing().unwrap();
        assert_eq!((recovered.point, recovered.torn), (3, tail.len() as u64));
        drop(store);
    }
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let lines = three_points(folder.path());
    for line in 0..3 {
        let mut damaged = lines.clone();
        damaged[line][20] ^= 1;
        std::fs::write(folder.path().join("manifest"), damaged.concat()).unwrap();
        for error in [
            config(folder.path()).open_existing().map(drop).unwrap_err(),
            config(folder.path()).create().map(drop).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Manifest { line: found, .. } if found == line + 1), "{error}");
        }
    }
}

#[test]
fn a_manifest_without_a_point_is_nothing_to_resume_and_is_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = |folder: &Path| {
        let error = config(folder).open_existing().map(drop).unwrap_err();
        assert!(matches!(error, Error::NothingToResume { .. }), "{error}");
    };
    nothing(&folder.path().join("absent"));
    nothing(folder.path());
    assert!(names(folder.path()).is_empty(), "no lock is left");
    let lines = three_points(folder.path());
    for text in [
        Vec::new(),
        lines[0][..30].to_vec(),
        lines[0].clone(),
        lines[..2].concat()[..lines[0].len() + 10].to_vec(),
    ] {
        std::fs::write(folder.path().join("manifest"), text).unwrap();
        nothing(folder.path());
    }
    config(folder.path()).create().unwrap().finish().unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_segment_that_is_gone_or_too_short_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    three_points(folder.path());
    let segment = folder.path().join("segment-00000");
    std::fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(4096).unwrap();
    let error = config(folder.path()).open_existing().map(drop).unwrap_err();
    assert!(error.to_string().contains("segment-00000"), "{error}");
    std::fs::remove_file(&segment).unwrap();
    let error = config(folder.path()).open_existing().map(drop).unwrap_err();
    assert!(error.to_string().contains("segment-00000"), "{error}");
}

#[test]
fn a_long_manifest_is_written_anew_and_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = config(folder.path()).create().unwrap();
    let mut longest = 0;
    for step in 0..600 {
        store.put(key(step), payload(step, 100)).unwrap();
        if step >= WINDOW {
            store.remove(key(step - WINDOW)).unwrap();
        }
        store.commit(&step.to_le_bytes()).unwrap().unwrap().wait().unwrap();
        longest = longest.max(folder.path().join("manifest").metadata().unwrap().len());
    }
    assert!(longest < 70_000, "{longest} bytes: 64 KiB and a line");
    drop(store);
    let (store, recovered) = config(folder.path()).open_existing().unwrap();
    assert_eq!((recovered.point, recovered.meta), (600, 599_u64.to_le_bytes().to_vec()));
    let expected: BTreeSet<_> = (600 - WINDOW..600).map(key).collect();
    assert_eq!(store.keys().into_iter().collect::<BTreeSet<_>>(), expected);
    for key in expected {
        assert_eq!(store.get(key).unwrap(), payload(key.step, 100));
    }
    store.finish().unwrap();
}
