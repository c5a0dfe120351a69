//! Records: the weights, the optimizer's state and the place in the data, saved so that a run can go on.
//!
//! A record is three files in a folder of its own, four where weights are averaged. The folder is written beside the old one and then takes its name,
//! so a run that is killed at any moment leaves one whole record behind. The position holds digests of the two others,
//! since a truncated optimizer state would otherwise be loaded in part and in silence.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use burn::module::Module;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::store::ModuleRecord;
use burn::tensor::Bytes;
use reprop::LossScale;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::failure::Failure;
use crate::whole_file::write_whole;

const WEIGHTS: &str = "weights.bpk";
const AVERAGE: &str = "average.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const POSITION: &str = "position.json";

/// Where a run stands, and what its record must contain.
#[derive(Debug, Serialize, Deserialize)]
struct Position {
    step: usize,
    weights_digest: String,
    optimizer_digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    average_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss_scale: Option<LossScale>,
    /// Of the fields above.
    digest: String,
}

impl Position {
    fn new(
        Place { step, loss_scale }: Place,
        weights_digest: String,
        optimizer_digest: String,
        average_digest: Option<String>,
    ) -> Self {
        let average = average_digest.as_ref().map(|digest| format!(" {digest}")).unwrap_or_default();
        let scale = loss_scale.map(|scale| format!(" {scale:?}")).unwrap_or_default();
        let digest = digest(format!("{step} {weights_digest} {optimizer_digest}{average}{scale}").as_bytes());
        Self { step, weights_digest, optimizer_digest, average_digest, loss_scale, digest }
    }

    /// Whether the fields are those that were written.
    fn is_whole(&self) -> bool {
        let Self { step, weights_digest, optimizer_digest, average_digest, loss_scale, digest } = self;
        let place = Place { step: *step, loss_scale: *loss_scale };
        let again =
            Self::new(place, weights_digest.clone(), optimizer_digest.clone(), average_digest.clone());
        again.digest == *digest
    }
}

/// What a run has done, beside its tensors.
pub struct Place {
    /// Steps.
    pub step: usize,
    /// The loss's scale in the next one, where there is one.
    pub loss_scale: Option<LossScale>,
}

impl From<usize> for Place {
    fn from(step: usize) -> Self {
        Self { step, loss_scale: None }
    }
}

fn folder(run: &Path) -> PathBuf {
    run.join("record")
}

/// Whether `run` holds a record. One that was being put in its place counts.
pub fn exists(run: &Path) -> bool {
    let [old, pipeline] = ["record.old", "pipeline"].map(|name| run.join(name));
    [folder(run), old, pipeline].iter().any(|record| record.join(POSITION).exists())
}

/// Saves the state at a place, with the average of the weights if there is one.
pub fn save<N: Module>(
    run: &Path,
    network: &N,
    optimizer: &ModuleOptimizer,
    average: Option<&N>,
    place: impl Into<Place>,
) -> Result<(), Failure> {
    let next = run.join("record.new");
    remove(&next)?;
    fs::create_dir_all(&next).with_context(|| format!("cannot make {}", next.display()))?;
    let weights = network.clone().into_record().into_bytes()?;
    let optimizer = optimizer.to_record().into_bytes()?;
    let average = average.map(|average| average.clone().into_record().into_bytes()).transpose()?;
    let position =
        Position::new(place.into(), digest(&weights), digest(&optimizer), average.as_deref().map(digest));
    if let Some(average) = &average {
        write_whole(&next.join(AVERAGE), average)?;
    }
    write_whole(&next.join(WEIGHTS), &weights)?;
    write_whole(&next.join(OPTIMIZER), &optimizer)?;
    write_whole(&next.join(POSITION), &serde_json::to_vec_pretty(&position)?)?;

    let (current, old) = (folder(run), run.join("record.old"));
    remove(&old)?;
    if current.exists() {
        fs::rename(&current, &old).with_context(|| format!("cannot move {}", current.display()))?;
    }
    fs::rename(&next, &current).with_context(|| format!("cannot move {}", next.display()))?;
    remove(&old)
}

/// The state of the run in `run`, and how many steps it has done.
pub fn load<N: Module>(
    run: &Path,
    network: N,
    optimizer: ModuleOptimizer,
) -> Result<(N, ModuleOptimizer, usize), Failure> {
    let (record, position) = position(run)?;
    let weights = read_checked(&record.join(WEIGHTS), &position.weights_digest)?;
    let state = read_checked(&record.join(OPTIMIZER), &position.optimizer_digest)?;
    let weights = ModuleRecord::from_bytes(Bytes::from_bytes_vec(weights))?;
    let network = network.try_load_record(weights)?;
    let optimizer = optimizer.load_record(OptimizerRecord::from_bytes(Bytes::from_bytes_vec(state))?);
    Ok((network, optimizer, position.step))
}

/// The average of the weights, if the record of the run in `run` has one.
pub fn load_average<N: Module>(run: &Path, network: N) -> Result<Option<N>, Failure> {
    let (record, position) = position(run)?;
    let Some(digest) = position.average_digest else { return Ok(None) };
    let average = read_checked(&record.join(AVERAGE), &digest)?;
    Ok(Some(network.try_load_record(ModuleRecord::from_bytes(Bytes::from_bytes_vec(average))?)?))
}

/// The loss's scale, if the record of the run in `run` has one.
pub fn load_scale(run: &Path) -> Result<Option<LossScale>, Failure> {
    Ok(position(run)?.1.loss_scale)
}

/// The folder of the record, and where it stands.
fn position(run: &Path) -> Result<(PathBuf, Position), Failure> {
    // Killed between the two renames, the old record is still whole.
    let current = folder(run);
    let record = if current.join(POSITION).exists() { current } else { run.join("record.old") };
    let path = record.join(POSITION);
    let position = serde_json::from_slice::<Position>(&read(&path)?).ok().filter(Position::is_whole);
    Ok((record, position.with_context(|| format!("{} is damaged", path.display()))?))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    Ok(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?)
}

fn read_checked(path: &Path, expected: &str) -> Result<Vec<u8>, Failure> {
    let bytes = read(path)?;
    let found = digest(&bytes);
    let check = || {
        ensure!(
            found == expected,
            "{} is damaged: {} bytes with digest {found}, expected {expected}",
            path.display(),
            bytes.len()
        );
        Ok(())
    };
    check()?;
    Ok(bytes)
}

fn remove(folder: &Path) -> Result<(), Failure> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

fn digest(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}
