//! Images as they are published: a folder for each class, JPEG and PNG files of any size in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::unreadable;
use crate::picture::{CHANNELS, Picture};
use crate::{Augmentation, Error, Result, SampleShape, Samples, Split};

/// Endings of files that are images.
const ENDINGS: [&str; 3] = ["jpeg", "jpg", "png"];

/// Images in files, read when they are needed and brought to one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFiles {
    files: Vec<(PathBuf, u32)>,
    side: usize,
    classes: usize,
}

/// The images under `folder/train` and `folder/val`, each a folder of class folders, as `ImageNet` is published, for networks
/// that see `side x side` pixels. Classes are numbered in the order of their names, files are taken in the order of theirs.
///
/// ```
/// let error = reprop_data::image_folders(std::path::Path::new("/no/such/folder"), 224).unwrap_err();
/// assert!(error.to_string().contains("/no/such/folder"));
/// ```
///
/// # Errors
///
/// A folder that is missing, has no classes, a class without images, or a class to be judged by that is not one to learn
/// from. Files are opened when they are needed: see [`Samples::training`].
pub fn image_folders(folder: &Path, side: usize) -> Result<Split<ImageFiles>> {
    let [train, test] = ["train", "val"].map(|part| folder.join(part));
    let learned = classes(&train)?;
    let numbers: BTreeMap<&String, u32> = learned.keys().zip(0..).collect();
    let judged = classes(&test)?;
    let strange = judged.keys().find(|name| !numbers.contains_key(name));
    if let Some(name) = strange {
        return Err(Error::StrangeClass { path: test.join(name), train });
    }
    let part = |classes: &BTreeMap<String, Vec<PathBuf>>| {
        let files =
            classes.iter().flat_map(|(name, files)| files.iter().map(|file| (file.clone(), numbers[name])));
        ImageFiles { files: files.collect(), side, classes: numbers.len() }
    };
    Ok(Split { train: part(&learned), test: part(&judged) })
}

/// The folders in `folder`, each with its images.
fn classes(folder: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut classes = BTreeMap::new();
    for path in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        let is_image = |path: &PathBuf| {
            let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
            path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
        };
        let files: Vec<PathBuf> = entries(&path)?.into_iter().filter(is_image).collect();
        if files.is_empty() {
            return Err(Error::EmptyClass { path });
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        classes.insert(name, files);
    }
    if classes.is_empty() { Err(Error::NoClasses { path: folder.into() }) } else { Ok(classes) }
}

/// What is in a folder, in the order of names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = |error: std::io::Error| unreadable(folder, &error);
    let entries = fs::read_dir(folder).map_err(read)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>().map_err(read)?;
    paths.sort();
    Ok(paths)
}

impl ImageFiles {
    /// The file of image `index`.
    ///
    /// # Panics
    ///
    /// Panics if there is no such image.
    pub fn path(&self, index: usize) -> &Path {
        &self.files[index].0
    }

    fn picture(&self, index: usize) -> Result<Picture> {
        let path = self.path(index);
        let file = fs::read(path).map_err(|error| unreadable(path, &error))?;
        Picture::decode(path, &file)
    }
}

impl Samples for ImageFiles {
    fn shape(&self) -> SampleShape {
        SampleShape { channels: CHANNELS, side: self.side, classes: self.classes }
    }

    fn len(&self) -> usize {
        self.files.len()
    }

    fn label(&self, index: usize) -> u32 {
        self.files[index].1
    }

    fn training(&self, index: usize, augmentation: &Augmentation, seed: u64, epoch: u64) -> Result<Vec<f32>> {
        Ok(augmentation.training(&self.picture(index)?, self.side, [seed, epoch, index as u64]))
    }

    fn evaluation(&self, index: usize, augmentation: &Augmentation) -> Result<Vec<f32>> {
        Ok(augmentation.evaluation(&self.picture(index)?, self.side))
    }
}
