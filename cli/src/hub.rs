//! Models of `hf://`: the program `hf` fetches them, once for each machine, and a later call resumes.
//!
//! The folder and the commit are noted in the cache folder, so that nothing is asked while the folder
//! exists. A branch or a tag stays at the commit that it had first.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use cache::fs::{FileKind, Fs, FsResult, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use engine::pipeline::{Asset, HubModel, Pipeline, StageId};
use engine::units;

use super::error::CliError;
use super::project::{Program, Project};

/// The folder of the notes in the cache folder.
const NOTES: &str = "hub";
/// The length of a commit.
const COMMIT: usize = 40;

/// What is known about a model that was fetched once.
struct Fetched {
    commit: String,
    folder: Utf8PathBuf,
    bytes: u64,
}

impl Fetched {
    fn note(cache_folder: &Utf8Path, model: &HubModel) -> Utf8PathBuf {
        let HubModel { owner, name, revision } = model;
        let revision = revision.replace('/', "%");
        cache_folder.join(NOTES).join(format!("{owner}%{name}@{revision}"))
    }

    fn read(cache_folder: &Utf8Path, model: &HubModel) -> Option<Fetched> {
        let text =
            String::from_utf8(RealFs.read(&Fetched::note(cache_folder, model)).ok()?).ok()?;
        let mut lines = text.lines();
        let (commit, folder) = (lines.next()?.to_owned(), Utf8PathBuf::from(lines.next()?));
        let bytes = lines.next()?.parse().ok()?;
        is_commit(&commit).then_some(Fetched { commit, folder, bytes })
    }

    fn write(&self, cache_folder: &Utf8Path, model: &HubModel) -> FsResult<()> {
        let path = Fetched::note(cache_folder, model);
        RealFs.create_dir_all(&cache_folder.join(NOTES))?;
        let Fetched { commit, folder, bytes } = self;
        let fresh = cache::fs::beside(&path);
        RealFs.write_durably(&fresh, format!("{commit}\n{folder}\n{bytes}\n").as_bytes())?;
        RealFs.rename(&fresh, &path)
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == COMMIT && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Finds the folders of models that are on this machine; the others count as missing files.
pub fn settle(pipeline: &mut Pipeline, cache_folder: &Utf8Path) {
    for asset in pipeline.assets.values_mut() {
        let Some(model) = &asset.hub else { continue };
        let fetched = Fetched::read(cache_folder, model);
        let is_here =
            |fetched: &Fetched| RealFs.metadata(&fetched.folder).is_ok_and(|about| about.is_dir());
        match fetched.filter(is_here) {
            Some(fetched) => (asset.path, asset.commit) = (fetched.folder, Some(fetched.commit)),
            None => _ = pipeline.absent.insert(pipeline.base.join(&asset.path)),
        }
    }
}

/// The models that these stages need and this machine lacks.
fn lacking<'a>(project: &'a Project, targets: &[StageId]) -> Vec<(&'a Asset, &'a HubModel)> {
    let pipeline = &project.pipeline;
    let wanted = match targets {
        [] => pipeline.ids().collect(),
        targets => pipeline.with_upstream(targets),
    };
    let used = pipeline.assets_of(&wanted);
    let assets = pipeline.assets.iter().filter(|(name, asset)| {
        used.contains(name.as_str()) && pipeline.absent.contains(&pipeline.base.join(&asset.path))
    });
    assets.filter_map(|(_, asset)| Some((asset, asset.hub.as_ref()?))).collect()
}

/// A line for each model that a run fetches first.
pub fn to_come(project: &Project, targets: &[StageId]) -> Vec<String> {
    let line = |(_, model): (&Asset, &HubModel)| {
        let known = Fetched::read(&project.cache_folder, model);
        let size = known.map_or("size unknown".to_owned(), |known| units::bytes(known.bytes));
        format!(
            "`{model}` is downloaded first ({size}), by `hf`, before any stage runs: GPUs are idle \
             meanwhile, so on a paid machine download it in advance with `hf download`"
        )
    };
    lacking(project, targets).into_iter().map(line).collect()
}

/// Fetches the models that these stages need and this machine lacks.
pub fn bring(
    program: &Program,
    project: &mut Project,
    targets: &[StageId],
) -> Result<(), CliError> {
    let lacking: Vec<HubModel> =
        lacking(project, targets).into_iter().map(|(_, model)| model.clone()).collect();
    for model in &lacking {
        let known = Fetched::read(&project.cache_folder, model).map(|known| known.commit);
        program.tell(&format!("fetching `{model}` with `hf`"));
        let fetched = fetch(model, known.as_deref().unwrap_or(&model.revision))?;
        let (commit, bytes) = (&fetched.commit, units::bytes(fetched.bytes));
        program.tell(&format!("`{model}` is here: commit {commit}, {bytes}"));
        fetched.write(&project.cache_folder, model).map_err(cache::CacheError::from)?;
        let absent = project.pipeline.base.join(model_path(project, model));
        project.pipeline.absent.remove(&absent);
    }
    if !lacking.is_empty() {
        settle(&mut project.pipeline, &project.cache_folder);
    }
    Ok(())
}

/// The path of an asset with this model, as it is written.
fn model_path(project: &Project, model: &HubModel) -> Utf8PathBuf {
    let mut assets = project.pipeline.assets.values();
    let asset = assets.find(|asset| asset.hub.as_ref() == Some(model));
    asset.map(|asset| asset.path.clone()).unwrap_or_default()
}

fn fetch(model: &HubModel, revision: &str) -> Result<Fetched, CliError> {
    let mut command = Command::new("hf");
    command.args(["download", &model.repository(), &format!("--revision={revision}")]);
    let ran = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = ran.map_err(|error| match error.kind() {
        ErrorKind::NotFound => CliError::usage(
            format!("`{model}` needs the program `hf`, which is not installed"),
            "install it with `pip install -U huggingface_hub`, or name a folder of this machine",
        ),
        _ => CliError::failed(format!("cannot start `hf`: {error}"), "check its installation"),
    })?;
    if !output.status.success() {
        let message = format!("`hf` could not fetch `{model}` ({})", output.status);
        let help =
            "its messages are above; the next run resumes. Private models need `hf auth login`";
        return Err(CliError::failed(message, help));
    }
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let folder = told.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let folder = Utf8PathBuf::from(folder.unwrap_or_default().trim_start_matches("path="));
    let commit = folder.file_name().unwrap_or_default().to_owned();
    if !is_commit(&commit) || !folder.is_absolute() {
        let message = format!("`hf` named no folder of `{model}`: it printed `{folder}`");
        let help = "install the newest one with `pip install -U huggingface_hub`";
        return Err(CliError::failed(message, help));
    }
    let bytes = size(&folder).map_err(cache::CacheError::from)?;
    Ok(Fetched { commit, folder, bytes })
}

/// The size of all files of a folder; those of `hf` are links.
fn size(folder: &Utf8Path) -> FsResult<u64> {
    let mut bytes = 0;
    for entry in RealFs.read_dir(folder)? {
        let path = folder.join(&entry.name);
        bytes += match entry.kind {
            FileKind::Dir => size(&path)?,
            FileKind::File | FileKind::Symlink => RealFs.metadata(&path)?.size,
            FileKind::Other | FileKind::Unnameable => 0,
        };
    }
    Ok(bytes)
}
