//! Models of `hf://`: the program `hf` fetches them, once for each machine, and a later call resumes.
//!
//! The folder and the commit are noted in the cache folder, so that nothing is asked while the folder
//! exists. A branch or a tag stays at the commit that it had first.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cache::fs::{Confined, FileKind, Fs, FsResult, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::StopFlag;
use engine::pipeline::{Asset, HubModel, Pipeline, StageId};
use engine::units;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use stage_programs as programs;

use crate::error::CliError;
use crate::project::{Program, Project};

/// The folder of the notes in the cache folder.
const NOTES: &str = "hub";
/// The length of a commit.
const COMMIT: usize = 40;
/// The interval at which a download looks for a request to stop.
const LOOK: Duration = Duration::from_millis(100);
/// The bytes that are kept of the output of `hf`: its last line names the folder.
const KEPT_BYTES: usize = 8 << 10;
/// The bytes of one read, and the largest number of reads at once.
const PIECE: usize = 4 << 10;
const READS: usize = 64;

/// The conditions under which a download ends early. The next one resumes.
pub struct Limits<'a> {
    pub stop: &'a StopFlag,
    pub deadline: Option<Instant>,
}

impl Limits<'_> {
    fn are_reached(&self) -> bool {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        is_late || self.stop.is_requested()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Download {
    Done,
    /// The limits ended it.
    Stopped,
}

/// A model that was fetched once.
struct FetchedModel {
    commit: String,
    folder: Utf8PathBuf,
    bytes: u64,
}

impl FetchedModel {
    fn note(cache_folder: &Utf8Path, model: &HubModel) -> Utf8PathBuf {
        let HubModel { owner, name, revision } = model;
        let revision = revision.replace('/', "%");
        cache_folder.join(NOTES).join(format!("{owner}%{name}@{revision}"))
    }

    fn read(cache_folder: &Utf8Path, model: &HubModel) -> Option<FetchedModel> {
        let text =
            String::from_utf8(RealFs.read(&FetchedModel::note(cache_folder, model)).ok()?).ok()?;
        let mut lines = text.lines();
        let (commit, folder) = (lines.next()?.to_owned(), Utf8PathBuf::from(lines.next()?));
        let bytes = lines.next()?.parse().ok()?;
        is_commit(&commit).then_some(FetchedModel { commit, folder, bytes })
    }

    fn write(&self, cache_folder: &Utf8Path, model: &HubModel) -> FsResult<()> {
        RealFs.create_dir_all(cache_folder)?;
        let inside = Confined::to(cache_folder)?;
        inside.create_dir_all(&cache_folder.join(NOTES))?;
        let FetchedModel { commit, folder, bytes } = self;
        let note = format!("{commit}\n{folder}\n{bytes}\n");
        inside.write_durably(&FetchedModel::note(cache_folder, model), note.as_bytes())
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == COMMIT && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Finds the folders of models that are on this machine; the others count as missing files.
pub fn settle(pipeline: &mut Pipeline, cache_folder: &Utf8Path) {
    for asset in pipeline.assets.values_mut() {
        let Some(model) = &asset.hub else { continue };
        let fetched = FetchedModel::read(cache_folder, model);
        let is_here = |fetched: &FetchedModel| {
            RealFs.metadata(&fetched.folder).is_ok_and(|about| about.is_dir())
        };
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
        let known = FetchedModel::read(&project.cache_folder, model);
        let size = known.map_or("size unknown".to_owned(), |known| units::bytes(known.bytes));
        format!(
            "`hf` downloads `{model}` ({size}) before any stage runs. GPUs are idle meanwhile: on \
             a paid machine, download it in advance with `hf download`"
        )
    };
    lacking(project, targets).into_iter().map(line).collect()
}

/// True if models have to be downloaded before these stages can run.
pub fn is_needed(project: &Project, targets: &[StageId]) -> bool {
    !lacking(project, targets).is_empty()
}

/// Fetches the models that these stages need and this machine lacks.
pub fn bring(
    program: &Program,
    project: &mut Project,
    targets: &[StageId],
    limits: &Limits<'_>,
) -> Result<Download, CliError> {
    let lacking: Vec<HubModel> =
        lacking(project, targets).into_iter().map(|(_, model)| model.clone()).collect();
    for model in &lacking {
        let known = FetchedModel::read(&project.cache_folder, model).map(|known| known.commit);
        program.tell(&format!("fetching `{model}` with `hf`"));
        let revision = known.as_deref().unwrap_or(&model.revision);
        let Some(fetched) = fetch(model, revision, limits)? else { return Ok(Download::Stopped) };
        let (commit, bytes) = (&fetched.commit, units::bytes(fetched.bytes));
        program.tell(&format!("fetched `{model}`: commit {commit}, {bytes}"));
        fetched.write(&project.cache_folder, model).map_err(cache::CacheError::from)?;
        let absent = project.pipeline.base.join(model_path(project, model));
        project.pipeline.absent.remove(&absent);
    }
    if !lacking.is_empty() {
        settle(&mut project.pipeline, &project.cache_folder);
    }
    Ok(Download::Done)
}

/// The path of an asset with this model, as it is written.
fn model_path(project: &Project, model: &HubModel) -> Utf8PathBuf {
    let mut assets = project.pipeline.assets.values();
    let asset = assets.find(|asset| asset.hub.as_ref() == Some(model));
    asset.map(|asset| asset.path.clone()).unwrap_or_default()
}

/// Downloads one model. None if the limits ended the download.
fn fetch(
    model: &HubModel,
    revision: &str,
    limits: &Limits<'_>,
) -> Result<Option<FetchedModel>, CliError> {
    let mut command = Command::new("hf");
    command.args(["download", &model.repository(), &format!("--revision={revision}")]);
    // Its progress goes to the terminal as it is.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let started = programs::start(&mut command).map_err(|error| not_started(model, &error))?;
    let ended = follow(started, limits).map_err(CliError::process("follow the program `hf`"))?;
    let Some((status, told)) = ended else { return Ok(None) };
    if !status.success() {
        let message = format!("`hf` could not fetch `{model}` ({status})");
        let help =
            "see its messages above; the next run resumes. Private models need `hf auth login`";
        return Err(CliError::failed(message, help));
    }
    arrived(model, &told).map(Some)
}

fn not_started(model: &HubModel, error: &io::Error) -> CliError {
    match error.kind() {
        ErrorKind::NotFound => CliError::usage(
            format!("`{model}` needs the program `hf`, which is not installed"),
            "install it with `pip install -U huggingface_hub`, or set `path` to a local folder",
        ),
        _ => CliError::failed(format!("cannot start `hf`: {error}"), "check its installation"),
    }
}

/// The exit status and the last output of a download. None if the limits ended it, with all its
/// descendants.
fn follow(
    mut program: programs::Program,
    limits: &Limits<'_>,
) -> io::Result<Option<(ExitStatus, String)>> {
    let (_, mut output, _) = program.pipes();
    if let Some(output) = &output {
        fcntl(output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let mut kept = Vec::new();
    loop {
        if limits.are_reached() {
            program.end()?;
            return Ok(None);
        }
        let has_ended = program.ends_or_says(output.iter().map(AsFd::as_fd), LOOK)?;
        if let Some(pipe) = &mut output
            && !read_available(pipe, &mut kept)?
        {
            output = None;
        }
        if has_ended {
            let status = program.end()?.status;
            return Ok(Some((status, String::from_utf8_lossy(&kept).into_owned())));
        }
    }
}

/// Reads without waiting, and keeps the last bytes. False at the end of the output.
fn read_available(pipe: &mut ChildStdout, kept: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; PIECE];
    for _ in 0..READS {
        match pipe.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => keep(kept, &buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    kept.drain(..kept.len().saturating_sub(KEPT_BYTES));
}

/// The model in the folder that `hf` names on its last line.
fn arrived(model: &HubModel, told: &str) -> Result<FetchedModel, CliError> {
    let folder = told.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let folder = Utf8PathBuf::from(folder.unwrap_or_default().trim_start_matches("path="));
    let commit = folder.file_name().unwrap_or_default().to_owned();
    if !is_commit(&commit) || !folder.is_absolute() {
        let message = format!("`hf` did not print the folder of `{model}`, but `{folder}`");
        let help = "update it with `pip install -U huggingface_hub`";
        return Err(CliError::failed(message, help));
    }
    let bytes = size(&folder).map_err(cache::CacheError::from)?;
    Ok(FetchedModel { commit, folder, bytes })
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn followed(script: &str, limits: &Limits<'_>) -> Option<(ExitStatus, String)> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        follow(programs::start(&mut command).unwrap(), limits).unwrap()
    }

    #[test]
    fn of_a_long_output_the_end_is_kept() {
        let stop = StopFlag::default();
        let limits = Limits { stop: &stop, deadline: None };
        let script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the folder; exit 3";
        let (status, told) = followed(script, &limits).unwrap();
        assert_eq!((status.code(), told.len()), (Some(3), KEPT_BYTES));
        assert!(told.ends_with("x\nthe folder\n"));
    }

    #[test]
    fn a_request_and_a_deadline_end_a_download() {
        let stop = StopFlag::default();
        let deadline = Some(Instant::now() + Duration::from_millis(300));
        assert!(followed("sleep 600", &Limits { stop: &stop, deadline }).is_none());
        stop.request();
        assert!(followed("sleep 600", &Limits { stop: &stop, deadline: None }).is_none());
    }
}
