//! The manifest: what survives the process.
//!
//! A text file. Its first line names the store, and each line after it is one durable point: the snapshots added since the
//! point before, those gone, and the caller's bytes. A line is written after the frames it names are durable, and is durable
//! itself before the next is begun, so a crash can only spoil the last line. A line carries its own checksum: the spoilt one
//! is recognised and the point before it holds. A spoilt line with a good one after it is no crash, and an error.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::Place;
use crate::files::{FileLayer, LayerFile, write_all};
use crate::frame::Frame;
use crate::{Error, Result};

/// A manifest is written anew when it is this long and more than [`SLACK`] times what it has to say.
const LEAST: u64 = 64 << 10;
const SLACK: u64 = 4;
const VERSION: u32 = 1;

/// A durable snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) frame: Frame,
    pub(crate) place: Place,
}

/// A durable point: the difference to the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) number: u64,
    pub(crate) added: Vec<Record>,
    /// Numbers of the writes whose snapshots are gone.
    pub(crate) removed: Vec<u64>,
    #[serde(with = "hex")]
    pub(crate) meta: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Title {
    manifest_version: u32,
    store: u64,
}

/// What a manifest says: the state at its last point.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) store: u64,
    pub(super) points: u64,
    pub(super) records: BTreeMap<u64, Record>,
    pub(super) meta: Vec<u8>,
    /// Length of what is good.
    length: u64,
    /// Bytes of a spoilt last line.
    pub(super) torn: u64,
}

impl Contents {
    /// Reads a manifest. `None` if there is none, or if it was torn before its first point.
    pub(super) fn load(path: &Path) -> Result<Option<Self>> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", path, None, error)),
        };
        let damaged = |line, reason| Error::Manifest { path: path.to_path_buf(), line, reason };
        let mut contents = Self::default();
        let mut spoilt: Option<(usize, String)> = None;
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let parsed = if index == 0 { contents.title(line) } else { contents.apply(line) };
            match (parsed, &spoilt) {
                (Ok(()), Some((line, reason))) => return Err(damaged(*line, reason.clone())),
                (Ok(()), None) => contents.length += line.len() as u64,
                (Err(reason), None) => spoilt = Some((index + 1, reason)),
                (Err(_), Some(_)) => {}
            }
        }
        contents.torn = bytes.len() as u64 - contents.length;
        Ok((contents.points > 0).then_some(contents))
    }

    fn title(&mut self, line: &[u8]) -> std::result::Result<(), String> {
        let title: Title = parse(line)?;
        if title.manifest_version != VERSION {
            return Err(format!("version {} is not {VERSION}", title.manifest_version));
        }
        self.store = title.store;
        Ok(())
    }

    /// Takes a point over.
    fn apply(&mut self, line: &[u8]) -> std::result::Result<(), String> {
        let point: Point = parse(line)?;
        self.points = point.number;
        self.meta.clone_from(&point.meta);
        self.change(&point);
        Ok(())
    }

    fn change(&mut self, point: &Point) {
        for record in &point.added {
            self.records.insert(record.frame.sequence, record.clone());
        }
        for sequence in &point.removed {
            self.records.remove(sequence);
        }
    }
}

/// The manifest being written.
#[derive(Debug)]
pub(super) struct Manifest {
    folder: PathBuf,
    layer: Arc<dyn FileLayer>,
    file: Box<dyn LayerFile>,
    contents: Contents,
    /// Length after the last time it was written anew.
    compact: u64,
    /// A failed append may have left something behind the good part.
    untidy: bool,
    /// The folder may not know yet, durably, that this is the manifest.
    unnamed: bool,
}

/// Where it lies.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("manifest")
}

impl Manifest {
    /// A new manifest with a title and no point.
    pub(super) fn create(folder: &Path, layer: Arc<dyn FileLayer>, store: u64) -> io::Result<Self> {
        let file = layer.open(&path(folder), false)?;
        file.truncate(0)?;
        let contents = Contents { store, ..Contents::default() };
        let mut manifest = Self {
            folder: folder.to_path_buf(),
            layer,
            file,
            contents,
            compact: 0,
            untidy: false,
            unnamed: true,
        };
        manifest.append(&Title { manifest_version: VERSION, store })?;
        Ok(manifest)
    }

    /// Goes on with a manifest that was read.
    pub(super) fn resume(folder: &Path, layer: Arc<dyn FileLayer>, contents: Contents) -> io::Result<Self> {
        let file = layer.open(&path(folder), false)?;
        let compact = contents.length;
        Ok(Self { folder: folder.to_path_buf(), layer, file, contents, compact, untidy: true, unnamed: true })
    }

    /// Writes a point; when this returns, it is durable.
    pub(super) fn point(&mut self, mut point: Point) -> io::Result<()> {
        point.number = self.contents.points + 1;
        self.append(&point)?;
        self.contents.points = point.number;
        self.contents.change(&point);
        self.contents.meta = point.meta;
        if self.contents.length > LEAST.max(SLACK * self.compact) {
            // The point is durable. An old manifest that cannot be shortened is no less true.
            let _longer_than_need_be = self.rewrite();
        }
        Ok(())
    }

    fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        if self.untidy {
            self.file.truncate(self.contents.length)?;
        }
        if self.unnamed {
            sync_folder(&self.folder)?;
            self.unnamed = false;
        }
        let line = format(line)?;
        self.untidy = true;
        write_all(&*self.file, &line, self.contents.length)?;
        self.file.sync()?;
        self.untidy = false;
        self.contents.length += line.len() as u64;
        Ok(())
    }

    /// Says the same in two lines, in a new file that takes the old one's place.
    fn rewrite(&mut self) -> io::Result<()> {
        let mut lines = format(&Title { manifest_version: VERSION, store: self.contents.store })?;
        lines.extend(format(&Point {
            number: self.contents.points,
            added: self.contents.records.values().cloned().collect(),
            removed: Vec::new(),
            meta: self.contents.meta.clone(),
        })?);
        let new = self.folder.join("manifest.new");
        let file = self.layer.open(&new, false)?;
        file.truncate(0)?;
        write_all(&*file, &lines, 0)?;
        file.sync()?;
        std::fs::rename(&new, path(&self.folder))?;
        self.unnamed = true;
        self.file = file;
        self.contents.length = lines.len() as u64;
        self.compact = self.contents.length;
        self.untidy = false;
        Ok(())
    }

    /// Whether there is anything to resume from.
    pub(super) fn points(&self) -> u64 {
        self.contents.points
    }

    /// Fails if the file is not where it was.
    pub(super) fn verify(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Makes new names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

/// A line: checksum, a space, JSON.
fn format(line: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(line)?;
    let mut bytes = format!("{:08x} ", crc32fast::hash(&json)).into_bytes();
    bytes.extend(json);
    bytes.push(b'\n');
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> std::result::Result<T, String> {
    let line = line.strip_suffix(b"\n").ok_or("it has no end")?;
    let (crc, json) = line.split_at_checked(9).ok_or("it is too short")?;
    let found = format!("{:08x} ", crc32fast::hash(json));
    if crc != found.as_bytes() {
        return Err(format!(
            "the checksum should be {} and is {}",
            String::from_utf8_lossy(crc).trim_end(),
            found.trim_end()
        ));
    }
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

/// Bytes as hexadecimal text.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
        let text: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        match digits {
            Some(digits) if digits.len() % 2 == 0 => {
                Ok(digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
            }
            _ => Err(D::Error::custom("not pairs of hexadecimal digits")),
        }
    }
}
