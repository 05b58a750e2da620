//! Recordings in the audio folder that no row of the table names.

use std::collections::HashSet;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use stage_core::{SourceOutput, StageError, World};

use super::{FileRow, RowFile};
use crate::corpus::listed::folded;
use crate::corpus::path;

/// The number of recordings that the note names.
const MAX_NAMED_FILES: usize = 10;

impl RowFile {
    /// Notes the recordings without a row. A file that differs from that of a row in its extension
    /// only is the same clip.
    ///
    /// Everything in a folder that `audio` names is looked at, else only the folders that rows name.
    /// The folder of the manifest is left out: its files change with every export and report.
    pub(super) fn note_unlisted(
        &self,
        rows: &[FileRow],
        rejected_files: &[String],
        world: &mut dyn World,
        output: &mut SourceOutput,
    ) -> Result<(), StageError> {
        let stem = |path: &str| folded(path::without_audio_extension(path));
        let of_rows = rows.iter().map(|row| row.path.as_str());
        let named = of_rows.clone().chain(rejected_files.iter().map(String::as_str));
        let named: HashSet<String> = named.map(stem).collect();
        let mut unlisted: Vec<Utf8PathBuf> = Vec::new();
        let is_unlisted = |path: &Utf8PathBuf| {
            path::has_audio_extension(path.as_str()) && !named.contains(&stem(path.as_str()))
        };
        if self.is_audio_set && !self.is_above_the_manifest(&self.audio) {
            let listing = world.list_if_any(&self.audio)?.unwrap_or_default();
            unlisted.extend(listing.files.into_iter().filter(is_unlisted));
        } else {
            let mut folders: Vec<&Utf8Path> =
                of_rows.filter_map(|path| Utf8Path::new(path).parent()).collect();
            folders.sort_unstable();
            folders.dedup();
            for folder in folders {
                let whole = self.audio.join(folder);
                if self.is_above_the_manifest(&whole) {
                    continue;
                }
                let listing = world.list_folder(&whole)?.unwrap_or_default();
                let files = listing.files.into_iter().map(|name| folder.join(name));
                unlisted.extend(files.filter(is_unlisted));
            }
        }
        if unlisted.is_empty() {
            return Ok(());
        }
        let shown = unlisted.iter().take(MAX_NAMED_FILES);
        let shown: Vec<String> = shown.map(|path| format!("`{}`", self.audio.join(path))).collect();
        let such_as = if unlisted.len() > MAX_NAMED_FILES { ", such as" } else { ":" };
        let note = format!("recordings without a row{such_as} {}", shown.join(", "));
        output.notes.push((note, unlisted.len() as u64));
        Ok(())
    }

    /// Tests if a folder is that of the manifest, or contains it.
    fn is_above_the_manifest(&self, folder: &Utf8Path) -> bool {
        let is_relative = |part| matches!(part, Utf8Component::CurDir | Utf8Component::ParentDir);
        folder.components().all(is_relative) || self.base.starts_with(folder)
    }
}
