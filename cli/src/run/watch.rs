//! `watch`: runs again whenever the manifest or one of its inputs changes.
//!
//! Every run is a separate process, exactly like `throstle run`. A broken manifest, or a stage that
//! ends the program, ends that run and not the watching.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use engine::pipeline::TemplatePart;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::arguments::Run;
use crate::error::{CliError, Exit, PAUSED};
use crate::project::{Program, Project, cache_folder, manifest_file};

/// A run begins after this time without changes: editors and copies write in bursts.
const QUIET: Duration = Duration::from_millis(300);

type Changes = Receiver<notify::Result<notify::Event>>;

pub fn watch(program: &Program, arguments: &Run) -> Result<Exit, CliError> {
    let manifest = manifest_file(&arguments.manifest.manifest)?;
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stopped.clone())?;
    }
    let (sender, changes) = crossbeam_channel::unbounded();
    let watcher = notify::recommended_watcher(move |event| {
        // The receiver is gone when the program ends.
        let _ = sender.send(event);
    });
    let mut watched = WatchList {
        watcher: watcher.map_err(|error| cannot(&error))?,
        places: BTreeSet::new(),
        ignored: Vec::new(),
    };
    let folder = manifest.parent().filter(|folder| !folder.as_str().is_empty());
    let folder = absolute(folder.map_or(Path::new("."), |folder| folder.as_std_path()))?;
    let cache = cache_folder(&manifest, arguments.settings.cache.as_deref());
    let cache = absolute(cache.as_std_path())?;
    loop {
        watched.add(&folder)?;
        watched.ignored = vec![cache.clone()];
        // The inputs of a broken manifest become known when it is repaired.
        if let Ok(project) = program.load(&arguments.manifest.manifest, &arguments.settings) {
            watched.follow(&project)?;
        }
        let is_paused = run(program)? == Some(i32::from(PAUSED));
        if stopped.load(Ordering::SeqCst) {
            return Ok(if is_paused { Exit::Paused } else { Exit::Done });
        }
        program.tell("watching for changes; press Ctrl-C to stop");
        if !watched.wait(&changes, &stopped) {
            return Ok(Exit::Done);
        }
    }
}

/// The command line of `throstle run` with the arguments of this `throstle watch`.
fn run(program: &Program) -> Result<Option<i32>, CliError> {
    let arguments = std::env::args_os().skip(1);
    let mut arguments: Vec<_> = arguments.collect();
    if let Some(command) = arguments.iter_mut().find(|argument| *argument == "watch") {
        *command = "run".into();
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdout(program.output.for_program()?);
    Ok(command.status()?.code())
}

struct WatchList {
    watcher: RecommendedWatcher,
    places: BTreeSet<PathBuf>,
    /// Paths that runs themselves write.
    ignored: Vec<PathBuf>,
}

impl WatchList {
    /// A folder with everything below it, or a file. Paths inside a watched place are watched
    /// already.
    fn add(&mut self, place: &Path) -> Result<(), CliError> {
        if self.places.iter().any(|above| place.starts_with(above)) || !place.exists() {
            return Ok(());
        }
        let watched = self.watcher.watch(place, RecursiveMode::Recursive);
        watched.map_err(|error| cannot(&error))?;
        self.places.insert(place.to_owned());
        Ok(())
    }

    /// Adds the inputs of a pipeline outside its folder, and excludes its exports.
    fn follow(&mut self, project: &Project) -> Result<(), CliError> {
        let pipeline = &project.pipeline;
        for asset in pipeline.assets.values() {
            self.add(&absolute(pipeline.base.join(&asset.path).as_std_path())?)?;
        }
        for stage in &pipeline.stages {
            for (_, path) in stage.paths() {
                self.add(&absolute(pipeline.base.join(path).as_std_path())?)?;
            }
            for export in &stage.exports {
                let place = written_to(&export.template.0);
                if let Some(place) = place {
                    self.ignored.push(absolute(pipeline.base.join(place).as_std_path())?);
                }
            }
        }
        Ok(())
    }

    /// Waits for a relevant change and then for quiet; returns false when asked to stop.
    fn wait(&self, changes: &Changes, stopped: &AtomicBool) -> bool {
        let mut changed = false;
        while !stopped.load(Ordering::SeqCst) {
            match changes.recv_timeout(QUIET) {
                Ok(event) => changed |= self.matters(event),
                Err(RecvTimeoutError::Timeout) if changed => return true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        false
    }

    /// Lost events may have concerned any path.
    fn matters(&self, event: notify::Result<notify::Event>) -> bool {
        let Ok(event) = event else { return true };
        let is_own = |path: &PathBuf| self.ignored.iter().any(|own| path.starts_with(own));
        !matches!(event.kind, EventKind::Access(_))
            && (event.paths.is_empty() || !event.paths.iter().all(is_own))
    }
}

/// The folder that an export with fields in its path fills, or the file that an export without
/// fields writes. None if the fields begin in the folder of the manifest, which must stay watched.
fn written_to(template: &[TemplatePart]) -> Option<&str> {
    match template {
        [TemplatePart::Text(whole)] => Some(whole),
        [TemplatePart::Text(begin), ..] => begin.rsplit_once('/').map(|(folder, _)| folder),
        _ => None,
    }
}

fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}

fn cannot(error: &notify::Error) -> CliError {
    CliError::failed(
        format!("cannot watch for changes: {error}"),
        "use `throstle run` without `--watch`; on Linux, `fs.inotify.max_user_watches` may be too \
         small",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TemplatePart {
        TemplatePart::Text(text.to_owned())
    }

    #[test]
    fn only_what_exports_fill_is_left_out() {
        let id = TemplatePart::Field("id".to_owned());
        let of = |template: &[TemplatePart]| written_to(template).map(str::to_owned);
        assert_eq!(of(&[text("out/summary.json")]).as_deref(), Some("out/summary.json"));
        assert_eq!(of(&[text("out/wavs/"), id.clone()]).as_deref(), Some("out/wavs"));
        assert_eq!(of(&[text("out/clip_"), id.clone()]).as_deref(), Some("out"));
        assert_eq!(of(&[text("clip_"), id.clone()]), None);
        assert_eq!(of(&[id]), None);
    }
}
