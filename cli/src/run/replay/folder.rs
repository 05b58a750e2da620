//! The folder that a replay leaves: inputs, outputs and messages of the stage.

use std::collections::BTreeMap;

use cache::fs::{Confined, FileKind, Fs, FsError, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use engine::pipeline::StageSpec;
use engine::record::PortValue;
use engine::run::replay::{GatherSource, GatherSources};
use engine::store::Store;
use stage_core::Blob;
use stage_core::{Fields, Item, Value};
use stage_speech::audio::sniff;
use view::items::{Format, Listing, render};

use crate::error::CliError;
use crate::setup::init::new_folder;

/// Parts of the folder.
const GIVEN: &str = "in";
const MADE: &str = "out";

pub struct ReplayFolder {
    pub path: Utf8PathBuf,
    /// For files in it.
    inside: Confined,
    /// The written files with their sizes in bytes, by their paths in the folder.
    pub files: BTreeMap<Utf8PathBuf, u64>,
}

impl ReplayFolder {
    /// Returns an empty folder. One in the cache was made by an earlier replay and is emptied; any
    /// other must be empty.
    pub fn make(path: &Utf8Path, cache: Option<&Utf8Path>) -> Result<ReplayFolder, CliError> {
        let inside = match cache {
            Some(cache) => {
                let around = Confined::to(cache)?;
                around.remove_dir_all(path)?;
                around.create_dir_all(path)?;
                around.enter(path)?
            }
            None => {
                let inside = new_folder(path)?;
                if !inside.read_dir(path)?.is_empty() {
                    let message = format!("the folder `{path}` is not empty");
                    return Err(CliError::usage(message, "choose a new folder"));
                }
                inside
            }
        };
        Ok(ReplayFolder { path: path.to_owned(), inside, files: BTreeMap::new() })
    }

    pub fn stage(&mut self, spec: &StageSpec, item: Option<&str>) -> Result<(), FsError> {
        let mut text = format!("stage = {:?}\n", spec.name);
        text.push_str(&format!("use = {:?}, version {}\n", spec.kind.name, spec.kind.version));
        if let Some(item) = item {
            text.push_str(&format!("item = {item:?}\n"));
        }
        for (name, value) in &spec.parameters.0 {
            text.push_str(&format!("{name} = {value}\n"));
        }
        self.write("stage.txt", text.as_bytes())
    }

    pub fn given_item(&mut self, item: &Item, store: &Store) -> Result<(), CliError> {
        self.list(&format!("{GIVEN}/item.jsonl"), vec![item.clone()])?;
        self.blobs(GIVEN, &item.fields, store)
    }

    /// Writes data sets as lists, and artifacts with their files.
    pub fn given_whole(&mut self, sources: &GatherSources, store: &Store) -> Result<(), CliError> {
        for (port, sources) in sources {
            for source in sources {
                match source {
                    GatherSource::Dataset { stage, root, .. } => {
                        let items = store.items(root).map_err(unreadable)?;
                        self.list(&format!("{GIVEN}/{port}-{}.jsonl", safe(stage)), items)?;
                    }
                    GatherSource::Artifact { stage, fields } => {
                        self.artifact(&format!("{GIVEN}/{port}-{}", safe(stage)), fields, store)?;
                    }
                }
            }
        }
        Ok(())
    }

    pub fn made_item(&mut self, id: &str, fields: &Fields, store: &Store) -> Result<(), CliError> {
        self.list(&format!("{MADE}/item.jsonl"), vec![Item::new(id, fields.clone())])?;
        self.blobs(MADE, fields, store)
    }

    pub fn made_whole(
        &mut self,
        outputs: &BTreeMap<String, PortValue>,
        store: &Store,
    ) -> Result<(), CliError> {
        for (port, value) in outputs {
            match value {
                PortValue::Dataset { root, .. } => {
                    let items = store.items(root).map_err(unreadable)?;
                    self.list(&format!("{MADE}/{port}.jsonl"), items)?;
                }
                PortValue::Artifact(fields) => {
                    self.artifact(&format!("{MADE}/{port}"), fields, store)?;
                }
            }
        }
        Ok(())
    }

    /// Also lists the files that the stage itself left in the folder.
    pub fn look(&mut self) -> Result<(), FsError> {
        self.look_into(Utf8Path::new(""))
    }

    fn look_into(&mut self, below: &Utf8Path) -> Result<(), FsError> {
        let entries = match RealFs.read_dir(&self.path.join(below)) {
            // The stage made the folder unreadable, or another process is emptying it.
            Err(error) if error.is_denied() || error.is_not_found() => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = below.join(&entry.name);
            match (entry.kind, RealFs.symlink_metadata(&self.path.join(&path))) {
                (FileKind::Dir, _) => self.look_into(&path)?,
                (_, Ok(metadata)) => drop(self.files.insert(path, metadata.size)),
                // A name that is not UTF-8 cannot be part of a path.
                (_, Err(_)) => {}
            }
        }
        Ok(())
    }

    fn artifact(&mut self, folder: &str, fields: &Fields, store: &Store) -> Result<(), CliError> {
        self.list(&format!("{folder}.jsonl"), vec![Item::new("", fields.clone())])?;
        self.blobs(folder, fields, store)
    }

    fn list(&mut self, path: &str, items: Vec<Item>) -> Result<(), CliError> {
        let failed = |error: &dyn std::fmt::Display| {
            CliError::failed(format!("cannot list items: {error}"), HELP)
        };
        let listing = Listing::new(items, &[]).map_err(|error| failed(&error))?;
        let bytes = render(&listing, Format::JsonLines, None).map_err(|error| failed(&error))?;
        Ok(self.write(path, &bytes)?)
    }

    fn blobs(&mut self, folder: &str, fields: &Fields, store: &Store) -> Result<(), CliError> {
        for (name, value) in fields.iter() {
            if let Value::Blob(blob) = value {
                let bytes = store.read(&blob.digest).map_err(unreadable)?;
                let named = blob.kind.rsplit('/').next().unwrap_or_default();
                let kind = match &*blob.kind {
                    Blob::RECORDING => sniff::extension(&bytes).unwrap_or(named),
                    _ => named,
                };
                self.write(&format!("{folder}/{}.{}", safe(name), safe(kind)), &bytes)?;
            }
        }
        Ok(())
    }

    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FsError> {
        let full = self.path.join(path);
        self.inside.create_dir_all(full.parent().unwrap_or(&self.path))?;
        self.inside.write_new(&full, bytes)
    }
}

const HELP: &str = "run again to make the missing results";

fn unreadable(error: engine::store::ReadError) -> CliError {
    CliError::failed(error.to_string(), HELP)
}

/// Encodes a name as one part of a path.
pub fn safe(name: &str) -> String {
    let is_safe = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    let name: String = name.chars().map(|one| if is_safe(one) { one } else { '_' }).collect();
    let is_dots = name.chars().all(|letter| letter == '.');
    if is_dots { format!("_{name}") } else { name.chars().take(100).collect() }
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let names = ["../../etc", "..", "", "a/b\u{1b}[2J", "äiti-1.wav"].map(safe);
        assert_eq!(names, [".._.._etc", "_..", "_", "a_b__2J", "äiti-1.wav"]);
    }
}
