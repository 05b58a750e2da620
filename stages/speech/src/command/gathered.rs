//! The inputs of a program for a whole data set as files. Their names follow from their bytes, so that they
//! stay between runs where the cache keeps a folder for them.

use std::collections::HashMap;
use std::sync::OnceLock;

use bytes::Bytes;
use cache::fs::FsError;
use cache::{CacheError, Digest, InputFolder, WantedInput, WrittenInput};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Blob, Context, Item, StageError};

use super::inputs::{self, extension, safe_name};
use super::private::absolute;

/// Fewer inputs get new copies each time: looking for the others would cost as much.
const MIN_KEPT_INPUTS: usize = 64;

/// The inputs of a program, by item and then by field.
pub struct GatheredInputs<'a> {
    pub files: Vec<(Utf8PathBuf, &'a Blob)>,
    /// That the cache keeps, with its absolute path.
    folder: Option<(InputFolder, Utf8PathBuf)>,
}

impl<'a> GatheredInputs<'a> {
    /// Writes what is missing: in the folder that the cache keeps for this stage, or in that of the
    /// program.
    pub fn lay_out(
        items: &'a [Item],
        fields: &[String],
        private: &Utf8Path,
        context: &mut dyn Context,
    ) -> Result<GatheredInputs<'a>, StageError> {
        let (wanted, blobs) = wanted(items, fields);
        let folder = if wanted.len() < MIN_KEPT_INPUTS { None } else { context.input_folder()? };
        let Some(mut folder) = folder else {
            let names: Vec<String> = wanted.iter().map(WantedInput::stem).collect();
            let files = inputs::lay_out_as(&names, &blobs, private, context)?;
            return Ok(GatheredInputs { files, folder: None });
        };
        let place = absolute(folder.path())?;
        let paths = bring_up_to_date(&mut folder, &wanted, &blobs, context)?;
        let in_place = |path: Utf8PathBuf| match path.strip_prefix(folder.path()) {
            Ok(inside) => place.join(inside),
            Err(_) => path,
        };
        let files = paths.into_iter().map(in_place).zip(blobs).collect();
        Ok(GatheredInputs { files, folder: Some((folder, place)) })
    }

    /// The folder that the cache keeps.
    pub fn folder(&self) -> Option<&Utf8Path> {
        self.folder.as_ref().map(|(_, place)| place.as_path())
    }

    /// Keeps the files for the next run. Requires that the program left no process behind.
    pub fn keep(self) {
        self.folder.into_iter().for_each(|(folder, _)| folder.keep());
    }
}

fn wanted<'a>(items: &'a [Item], fields: &[String]) -> (Vec<WantedInput>, Vec<&'a Blob>) {
    let mut copies: HashMap<(Digest, &str), usize> = HashMap::new();
    let mut wanted = Vec::new();
    for item in items {
        for field in fields {
            let Some(blob) = item.fields.blob(field) else { continue };
            // A program may change one of two equal inputs.
            let copies = copies.entry((blob.digest, field)).or_default();
            *copies += 1;
            let name = safe_name(field);
            let label = if *copies == 1 { name } else { format!("{name}-{copies}") };
            let extension = (&*blob.kind != Blob::RECORDING).then(|| extension(&blob.kind, &[]));
            wanted.push((WantedInput { digest: blob.digest, label, extension }, &**blob));
        }
    }
    wanted.into_iter().unzip()
}

fn bring_up_to_date(
    folder: &mut InputFolder,
    wanted: &[WantedInput],
    blobs: &[&Blob],
    context: &mut dyn Context,
) -> Result<Vec<Utf8PathBuf>, StageError> {
    let mut paths = folder.keep_only(wanted).map_err(failed)?;
    let missing: Vec<usize> = (0..paths.len()).filter(|at| paths[*at].is_none()).collect();
    let absent: Vec<&Blob> = missing.iter().map(|at| blobs[*at]).collect();
    let written: Vec<OnceLock<WrittenInput>> = missing.iter().map(|_| OnceLock::new()).collect();
    let write = |at: usize, bytes: Bytes| {
        let extension = extension(&absent[at].kind, &bytes);
        let file = folder.write(&wanted[missing[at]], &extension, &bytes);
        let file = file.map_err(|error| while_writing(error, bytes.len() as u64))?;
        written[at].get_or_init(|| file);
        Ok(())
    };
    context.read_each(&absent, &write)?;
    let written: Vec<WrittenInput> = written.into_iter().filter_map(OnceLock::into_inner).collect();
    for (at, file) in missing.iter().zip(&written) {
        paths[*at] = Some(file.path.clone());
    }
    folder.record(written).map_err(failed)?;
    Ok(paths.into_iter().flatten().collect())
}

fn failed(error: FsError) -> StageError {
    StageError::of_cache("", &CacheError::from(error))
}

fn while_writing(error: FsError, bytes: u64) -> StageError {
    let path = error.path.clone();
    StageError::of_cache("", &CacheError::while_writing(error, &path, bytes))
}
