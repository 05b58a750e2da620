//! Finds and reads a manifest, and opens its cache.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Instant;

use cache::fs::{Fs, RealFs};
use cache::{Access, Cache, CacheError};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::Engine;
use engine::manifest::{self, FILE_NAME as MANIFEST, FileKind, LoadOptions, Problem, suggestion};
use engine::pipeline::{Pipeline, StageId, StageSpec};
use stage_core::{Catalogue, Stage};
use view::escape::clean;

use super::arguments::{CacheLocation, Settings};
use super::error::CliError;
use super::named;
use super::output::Output;
use super::terminal::Terminal;
use crate::setup::worker;
use crate::share::hub;
use crate::share::remote_choice::chosen;

pub const CACHE: &str = ".throstle";

/// The stages of a program, and its outputs.
pub struct Program {
    pub catalogue: Catalogue,
    pub stages: Vec<Arc<dyn Stage>>,
    pub terminal: Terminal,
    pub output: Output,
    /// The time at which the process started.
    pub began: Instant,
}

impl Program {
    pub fn new(
        stages: Vec<Arc<dyn Stage>>,
        terminal: Terminal,
        output: Output,
        began: Instant,
    ) -> Program {
        Program { catalogue: catalogue(&stages), stages, terminal, output, began }
    }

    /// Prints a line on standard error.
    pub fn tell(&self, text: &str) {
        // A failure cannot be reported: standard error is the last resort.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
    }

    pub fn warn(&self, text: &str) {
        self.tell(&format!("{}: {}", self.terminal.errors.warning("warning"), clean(text)));
    }

    pub fn engine(&self, threads: Option<u16>, verify: bool) -> Engine {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        Engine {
            catalogue: self.catalogue.clone(),
            stages: self.stages.clone(),
            worker: worker::command(),
            threads: threads.map_or_else(processors, usize::from),
            verify,
            environment: environment(),
            secret,
            remote: None,
        }
    }

    /// Reads and checks a manifest.
    pub fn load(&self, manifest: &Utf8Path, settings: &Settings) -> Result<Project, CliError> {
        load(&self.catalogue, manifest, settings)
    }

    /// The same for a plan, or for a look at results: the files that the manifest names need not
    /// exist.
    pub fn load_to_look(
        &self,
        manifest: &Utf8Path,
        settings: &Settings,
    ) -> Result<Project, CliError> {
        self.load_despite(manifest, settings, &|kind| kind == FileKind::Missing)
    }

    /// Files of these kinds count as absent, and are no mistake of the manifest.
    fn load_despite(
        &self,
        manifest: &Utf8Path,
        settings: &Settings,
        is_unusable: &dyn Fn(FileKind) -> bool,
    ) -> Result<Project, CliError> {
        let absent = RefCell::new(BTreeSet::new());
        let kind = |path: &Utf8Path| match file_kind(path) {
            kind if is_unusable(kind) => {
                absent.borrow_mut().insert(path.to_owned());
                FileKind::File
            }
            kind => kind,
        };
        let mut project = load_with(&self.catalogue, manifest, settings, &kind)?;
        project.pipeline.absent.extend(absent.into_inner());
        Ok(project)
    }

    /// The same for work on these stages: files that only other stages need may be missing, or no
    /// files that can be read.
    pub fn load_for(
        &self,
        stages: &[impl AsRef<str>],
        manifest: &Utf8Path,
        settings: &Settings,
    ) -> Result<Project, CliError> {
        let problems = match self.load(manifest, settings) {
            Err(problems @ CliError::Manifest(_)) if !stages.is_empty() => problems,
            loaded => return loaded,
        };
        let is_unusable = |kind| matches!(kind, FileKind::Missing | FileKind::Special);
        let Ok(project) = self.load_despite(manifest, settings, &is_unusable) else {
            return Err(problems);
        };
        let needed = project.absent_files_of(stages)?;
        if needed.is_empty() {
            return Ok(project);
        }
        // Of the unusable files, only these are reported.
        let kind = |path: &Utf8Path| match file_kind(path) {
            kind if is_unusable(kind) && !needed.contains(path) => FileKind::File,
            kind => kind,
        };
        let loaded = load_with(&self.catalogue, manifest, settings, &kind);
        Err(loaded.err().unwrap_or(problems))
    }

    /// Mentions that there are warnings, which `check` shows.
    pub fn count_warnings(&self, project: &Project) {
        match project.warnings.len() {
            0 => {}
            1 => self.warn("the manifest has a warning: see `throstle check`"),
            many => self.warn(&format!("the manifest has {many} warnings: see `throstle check`")),
        }
    }

    /// Opens the cache of a project for writing, or for reading if it is not writable.
    pub fn open(&self, project: &Project) -> Result<Cache, CliError> {
        let folder = &project.cache_folder;
        let cache = match Cache::open(folder, Arc::new(RealFs), Access::ReadWrite) {
            Err(error) if is_denied(&error) => {
                self.warn(&format!(
                    "the cache `{folder}` is not writable: opened read-only ({}); to write, run as \
                     the user that owns it, or use another folder with `--cache`",
                    error.whole()
                ));
                Cache::open(folder, Arc::new(RealFs), Access::ReadOnly)?
            }
            other => other?,
        };
        cache.notes().iter().for_each(|note| self.warn(note));
        Ok(cache)
    }

    /// The same for commands that mainly read: a full disk does not prevent them.
    pub fn open_to_read(&self, project: &Project) -> Result<Cache, CliError> {
        match self.open(project) {
            Err(CliError::Cache(error)) if error.is_no_space() => {
                self.warn(&format!("the cache is read-only: {}", error.whole()));
                let folder = &project.cache_folder;
                Ok(Cache::open(folder, Arc::new(RealFs), Access::ReadOnly)?)
            }
            opened => opened,
        }
    }

    /// The cache of a project, read-only, if it exists.
    pub fn look_into(&self, project: &Project) -> Result<Option<Cache>, CacheError> {
        let folder = &project.cache_folder;
        match RealFs.metadata(&folder.join("FORMAT")) {
            Ok(_) => Cache::open(folder, Arc::new(RealFs), Access::ReadOnly).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Opens an existing cache.
    pub fn open_existing(
        &self,
        location: &CacheLocation,
        access: Access,
    ) -> Result<Cache, CliError> {
        let folder = location_folder(location)?;
        // Opening for writing would create a cache where there is none.
        if !RealFs.exists(&folder.join("FORMAT"))? {
            return Err(CliError::Cache(CacheError::NoCache { dir: folder }));
        }
        let cache = Cache::open(&folder, Arc::new(RealFs), access)?;
        cache.notes().iter().for_each(|note| self.warn(note));
        Ok(cache)
    }

    /// Opens a cache for writing, and creates it if necessary.
    pub fn open_or_make(&self, location: &CacheLocation) -> Result<Cache, CliError> {
        let cache = Cache::open(&location_folder(location)?, Arc::new(RealFs), Access::ReadWrite)?;
        cache.notes().iter().for_each(|note| self.warn(note));
        Ok(cache)
    }
}

/// The kinds of all families, and those of stages that the program brings along.
pub fn catalogue(stages: &[Arc<dyn Stage>]) -> Catalogue {
    let mut catalogue = stage_speech::catalogue();
    stages.iter().for_each(|stage| catalogue.add(stage.kind()));
    catalogue
}

/// Reads and checks a manifest.
pub fn load(
    catalogue: &Catalogue,
    manifest: &Utf8Path,
    settings: &Settings,
) -> Result<Project, CliError> {
    load_with(catalogue, manifest, settings, &file_kind)
}

fn load_with(
    catalogue: &Catalogue,
    manifest: &Utf8Path,
    settings: &Settings,
    file_kind: &dyn Fn(&Utf8Path) -> FileKind,
) -> Result<Project, CliError> {
    let file = manifest_file(manifest)?;
    let bytes = read_manifest(&file)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = place(error.as_bytes(), error.utf8_error().valid_up_to());
        CliError::usage(
            format!("`{file}` is not UTF-8 text: invalid byte in {place}"),
            "save it as UTF-8",
        )
    })?;
    let cache_folder = cache_folder(&file, settings.cache.as_deref());
    let options = LoadOptions {
        set: settings.set.clone(),
        secrets: &secret,
        is_in_cache: &|path| is_below(path, &cache_folder),
    };
    let loaded = manifest::load(&text, &file, catalogue, &options, file_kind).map_err(Box::new)?;
    let mut pipeline = loaded.pipeline;
    pipeline.remote = chosen(settings, pipeline.remote.take())?;
    hub::settle(&mut pipeline, &cache_folder);
    Ok(Project { pipeline, warnings: loaded.warnings, cache_folder })
}

/// The names of the stages as they are written, also where the manifest has mistakes.
pub fn stage_names(manifest: &Utf8Path) -> Vec<String> {
    let text = manifest_file(manifest).and_then(|file| read_manifest(&file)).unwrap_or_default();
    let table = toml::from_str::<toml::Table>(&String::from_utf8_lossy(&text));
    let stages = table.ok().and_then(|table| table.get("stage")?.as_table().cloned());
    stages.map_or_else(Vec::new, |stages| stages.keys().cloned().collect())
}

fn location_folder(location: &CacheLocation) -> Result<Utf8PathBuf, CliError> {
    match &location.cache {
        Some(folder) => Ok(folder.clone()),
        None => Ok(cache_folder(&manifest_file(&location.manifest)?, None)),
    }
}

pub struct Project {
    pub pipeline: Pipeline,
    pub warnings: Vec<Problem>,
    pub cache_folder: Utf8PathBuf,
}

impl Project {
    /// The stages with these names; `name` also means every instance of a matrix.
    pub fn targets(&self, names: &[String]) -> Result<Vec<StageId>, CliError> {
        let mut targets = Vec::new();
        for name in names {
            let before = targets.len();
            let stages = self.pipeline.stages.iter();
            targets.extend(stages.filter(|stage| is_named(stage, name)).map(|stage| stage.id));
            if targets.len() == before {
                return Err(self.unknown_stage(name));
            }
        }
        Ok(targets)
    }

    /// Writes an output that a person named; not over the manifest or what the pipeline reads.
    pub fn write(&self, file: &Utf8Path, bytes: &[u8]) -> Result<(), CliError> {
        self.refuse_sources(file)?;
        named::write(file, bytes)
    }

    /// Refuses the manifest, and existing files and folders in those that the pipeline reads.
    pub fn refuse_sources(&self, place: &Utf8Path) -> Result<(), CliError> {
        let manifest = named::resolved(&self.pipeline.file);
        let mut sources = self.pipeline.paths();
        // A pipeline may read the folder of its manifest, which has the outputs as well.
        sources.retain(|source| !manifest.starts_with(named::resolved(source)));
        sources.insert(manifest);
        named::refuse_sources(place, sources)
    }

    /// The absent files that these stages, or outputs of stages, depend on. One of the names may be
    /// that of an item, but the last one is reported if none is that of a stage.
    fn absent_files_of(
        &self,
        names: &[impl AsRef<str>],
    ) -> Result<BTreeSet<Utf8PathBuf>, CliError> {
        let pipeline = &self.pipeline;
        let is_meant = |stage: &StageSpec, name: &str| {
            let of_port = name.rsplit_once('.').is_some_and(|(name, _)| is_named(stage, name));
            of_port || is_named(stage, name)
        };
        let meant = pipeline.stages.iter();
        let meant = meant.filter(|stage| names.iter().any(|name| is_meant(stage, name.as_ref())));
        let meant: Vec<StageId> = meant.map(|stage| stage.id).collect();
        match names.last() {
            Some(name) if meant.is_empty() => Err(self.unknown_stage(name.as_ref())),
            _ => {
                let wanted = pipeline.with_upstream(&meant);
                let absent = wanted.iter().map(|id| pipeline.absent_files(pipeline.stage(*id)));
                Ok(absent.flatten().cloned().collect())
            }
        }
    }

    /// The stage with this name.
    pub fn stage(&self, name: &str) -> Result<&StageSpec, CliError> {
        self.pipeline.find(name).ok_or_else(|| self.no_one_stage(name))
    }

    /// A name that no stage has, or several: the trials of a sweep, or the stages of a matrix.
    fn no_one_stage(&self, name: &str) -> CliError {
        let stages = self.pipeline.stages.iter().filter(|stage| is_named(stage, name));
        let names: Vec<&str> = stages.map(|stage| stage.name.as_str()).collect();
        let (Some(first), count) = (names.first(), names.len()) else {
            return self.unknown_stage(name);
        };
        let help = suggestion("", "they are", names.iter().copied());
        let help = help.unwrap_or_else(|| format!("name one of them, such as `{}`", clean(first)));
        let file = clean(self.pipeline.file.as_str());
        let message = format!("`{file}` has {count} stages `{}[…]`: name one of them", clean(name));
        CliError::usage(message, help)
    }

    /// A stage and an item in the given order, or swapped if only the second name can be a stage.
    pub fn in_order<'a>(
        &self,
        (stage, item): (&'a str, Option<&'a str>),
    ) -> (&'a str, Option<&'a str>) {
        let is_stage = |name: &str| self.pipeline.stages.iter().any(|stage| is_named(stage, name));
        match item {
            Some(other) if !is_stage(stage) && is_stage(other) => (other, Some(stage)),
            _ => (stage, item),
        }
    }

    fn unknown_stage(&self, name: &str) -> CliError {
        let names = self.pipeline.stages.iter().map(|stage| stage.name.as_str());
        let help = suggestion(name, "known stages", names);
        let help = help.unwrap_or_else(|| "`throstle status` lists the stages".to_owned());
        let (file, name) = (clean(self.pipeline.file.as_str()), clean(name));
        CliError::usage(format!("`{file}` has no stage `{name}`"), help)
    }
}

fn is_named(stage: &StageSpec, name: &str) -> bool {
    let instance = || stage.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('['));
    stage.name == name || instance()
}

/// The path of the manifest that an argument names.
pub fn manifest_file(argument: &Utf8Path) -> Result<Utf8PathBuf, CliError> {
    match file_kind(argument) {
        FileKind::File | FileKind::Special => Ok(argument.to_owned()),
        FileKind::Folder => {
            let file = match argument.as_str() {
                "." => Utf8PathBuf::from(MANIFEST),
                _ => argument.join(MANIFEST),
            };
            match file_kind(&file) {
                FileKind::File | FileKind::Special => Ok(file),
                _ => Err(CliError::usage(
                    format!("there is no `{MANIFEST}` in `{argument}`"),
                    "name a manifest or its folder (`-m FOLDER` in commands about a stage, an item \
                     or a run), or create one with `throstle init`",
                )),
            }
        }
        FileKind::Missing if file_kind(MANIFEST.into()) == FileKind::File => Err(CliError::usage(
            format!("there is no manifest `{argument}`"),
            format!(
                "the first argument is the manifest: for a stage of the manifest here, write `. \
                 {argument}`"
            ),
        )),
        FileKind::Missing => Err(CliError::usage(
            format!("there is no manifest `{argument}`"),
            "name a manifest or its folder, or create one with `throstle init`",
        )),
    }
}

fn read_manifest(file: &Utf8Path) -> Result<Vec<u8>, CliError> {
    RealFs.read(file).map_err(|error| match error.kind() {
        // A pipe, a device, or a file that the kernel generates.
        ErrorKind::InvalidInput => {
            let message = format!("`{file}` is not a manifest: {}", error.source);
            CliError::usage(message, "name a regular file, or the folder of one")
        }
        _ => error.into(),
    })
}

pub fn cache_folder(file: &Utf8Path, given: Option<&Utf8Path>) -> Utf8PathBuf {
    match given {
        Some(folder) => folder.to_owned(),
        None => file.parent().unwrap_or(Utf8Path::new("")).join(CACHE),
    }
}

/// Tests if a path is inside this folder, comparing both as they are written.
fn is_below(path: &Utf8Path, folder: &Utf8Path) -> bool {
    match (std::path::absolute(path), std::path::absolute(folder)) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => false,
    }
}

/// The line and column of a byte, counted as editors do.
fn place(text: &[u8], at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    format!("line {line}, column {column}")
}

fn file_kind(path: &Utf8Path) -> FileKind {
    match RealFs.metadata(path) {
        Ok(metadata) if metadata.is_dir() => FileKind::Folder,
        Ok(metadata) if metadata.is_file() => FileKind::File,
        Ok(_) => FileKind::Special,
        Err(_) => FileKind::Missing,
    }
}

pub fn is_denied(error: &CacheError) -> bool {
    match error {
        CacheError::Fs(error) => error.is_denied(),
        CacheError::ReadOnly { .. } => true,
        _ => false,
    }
}

/// The variables that programs of the user need to find others, packages and GPUs.
const HANDED_ON: [&str; 5] =
    ["PATH", "HOME", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"];

fn environment() -> BTreeMap<String, String> {
    let variable = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    HANDED_ON.into_iter().filter_map(variable).collect()
}

fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
        (dir, path)
    }

    #[test]
    fn a_folder_stands_for_the_manifest_in_it() {
        let (_dir, path) = folder();
        let error = manifest_file(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no `pipeline.toml` in `{path}`"));
        std::fs::write(path.join(MANIFEST), "").unwrap();
        assert_eq!(manifest_file(&path).unwrap(), path.join(MANIFEST));
        assert_eq!(manifest_file(&path.join(MANIFEST)).unwrap(), path.join(MANIFEST));
        assert_eq!(cache_folder(&path.join(MANIFEST), None), path.join(CACHE));
    }

    #[test]
    fn a_place_is_told_as_editors_count() {
        let text = "first\n\nkäse \u{e9}".as_bytes();
        for (at, told) in [
            (0, "line 1, column 1"),
            (5, "line 1, column 6"),
            (6, "line 2, column 1"),
            (7, "line 3, column 1"),
            (12, "line 3, column 5"),
        ] {
            assert_eq!(place(text, at), told, "{at}");
        }
    }

    #[test]
    fn a_manifest_that_is_not_there_is_the_fault_of_the_arguments() {
        let (_dir, path) = folder();
        let error = manifest_file(&path.join("other.toml")).unwrap_err();
        assert_eq!(error.code(), super::super::error::USAGE);
    }
}
