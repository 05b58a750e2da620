//! `rate`: a blind listening test in the browser, as a file for others, and their votes.

mod api;
mod log;
mod pack;
mod test;

use std::io::Write;
use std::sync::Arc;

use cache::fs::{Fs, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::StopFlag;
use engine::pipeline::StageSpec;
use engine::units;
use stage_core::ParameterValue;
use stage_speech::rate::kinds::{PAIRS, VOTES};
use stage_speech::rate::votes::is_name;
use view::escape::clean;

use super::local::{Local, wait};
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::inspect::items::{open_store, stage_items};
use crate::project::{Program, Project};
use crate::run::interrupt;
use api::RatingApi;
use log::VoteLog;
use test::{Recordings, Test};

/// The folder of all votes, beside the manifest.
const FOLDER: &str = "ratings";

pub fn rate(
    program: &Program,
    arguments: &arguments::Rate,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load(&arguments.manifest.manifest, &arguments.settings)?;
    let spec = pairs_stage(&project, &arguments.stage)?;
    let folder = folder(spec);
    let place = project.pipeline.base.join(&folder);
    warn_unread(program, &project, &folder);
    // A wrong name is told before anything is read.
    if let Some(rater) = arguments.rater.as_deref().filter(|rater| !is_name(rater)) {
        let message = format!("`{}` cannot be the name of a rater", clean(rater));
        return Err(CliError::usage(message, "use letters, digits, `-` and `_`"));
    }
    let cache = program.open_to_read(&project)?;
    let items = stage_items(program, &project, &cache, spec)?;
    let test = Test::of(spec, &items)?;
    if !arguments.read.is_empty() {
        return merge(program, &arguments.read, &test, &place, output);
    }
    let store = open_store(program, &project, &cache)?;
    let recordings = Recordings::of(&items, store);
    if let Some(file) = &arguments.pack {
        let page = pack::page(&test, &recordings)?;
        project.write(file, page.as_bytes())?;
        let size = engine::units::bytes(page.len() as u64);
        let stage = clean(&arguments.stage);
        program.tell(&format!(
            "{file}: {size}; merge the votes with `throstle rate {stage} --read FILE`"
        ));
        return Ok(Exit::Done);
    }
    let rater = arguments.rater.as_deref().unwrap_or_default();
    let stop = StopFlag::default();
    interrupt::on_signals(stop.clone(), interrupt::silent())
        .map_err(CliError::process("listen for signals"))?;
    let local = Local::with_token(arguments.port)?;
    let log = VoteLog::open(Arc::new(RealFs), &place, &test.stage, rater)?;
    local.announce(output)?;
    let api = Arc::new(RatingApi::new(test, recordings, log, rater)?);
    local.start(api.clone())?;
    wait(&stop);
    let votes = units::counted(api.votes() as u64, "vote");
    program.tell(&format!("{votes} of `{rater}` in `{folder}`"));
    Ok(Exit::Done)
}

fn pairs_stage<'a>(project: &'a Project, name: &str) -> Result<&'a StageSpec, CliError> {
    let spec = project.stage(name)?;
    if spec.kind.name == PAIRS.name {
        return Ok(spec);
    }
    let stages = project.pipeline.stages.iter().filter(|own| own.kind.name == PAIRS.name);
    let names: Vec<&str> = stages.map(|own| own.name.as_str()).collect();
    let help = if names.is_empty() {
        format!("add a `{}` stage: see `throstle stages {0}`", PAIRS.name)
    } else {
        format!("stages with pairs: {}", names.join(", "))
    };
    Err(CliError::usage(format!("`{name}` makes no pairs for a listening test"), help))
}

/// The folder of the votes on a stage, relative to the manifest.
fn folder(spec: &StageSpec) -> Utf8PathBuf {
    let plain =
        |letter: char| if letter.is_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
    Utf8Path::new(FOLDER).join(spec.name.chars().map(plain).collect::<String>())
}

fn warn_unread(program: &Program, project: &Project, folder: &Utf8Path) {
    let reads = |spec: &&StageSpec| {
        spec.kind.name == VOTES.name
            && matches!(spec.parameters.get("folder"), ParameterValue::Text(own) if **own == *folder)
    };
    if !project.pipeline.stages.iter().any(|spec| reads(&spec)) {
        program.warn(&format!("no `{}` stage reads the votes in `{folder}`", VOTES.name));
    }
}

/// Merges votes from files into those of the project.
fn merge(
    program: &Program,
    files: &[Utf8PathBuf],
    test: &Test,
    place: &Utf8Path,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    for file in files {
        let bytes = RealFs.read(file)?;
        let read = log::read(file, &bytes)?;
        if !is_name(&read.rater) {
            let message = format!("`{file}` has the invalid rater name `{}`", clean(&read.rater));
            return Err(CliError::usage(message, "use letters, digits, `-` and `_`"));
        }
        if read.stage != test.stage {
            let message = format!("`{file}` has votes on `{}`", clean(&read.stage));
            return Err(CliError::usage(message, "name the stage that the file was made from"));
        }
        let mut log = VoteLog::open(Arc::new(RealFs), place, &test.stage, &read.rater)?;
        let (known, unknown): (Vec<_>, Vec<_>) =
            read.votes.into_iter().partition(|vote| test.has(&vote.pair));
        let (mut new, mut twice) = (0, 0);
        for vote in known {
            match log.votes().on(&vote.pair, vote.repeat) {
                Some(_) => twice += 1,
                None => {
                    log.add(&vote)?;
                    new += 1;
                }
            }
        }
        let new = units::counted(new, "new vote");
        writeln!(output, "{file}: {new} of `{}`", read.rater)?;
        if twice > 0 {
            program.tell(&format!("skipped {} already merged", units::counted(twice, "vote")));
        }
        if !unknown.is_empty() {
            let votes = units::counted(unknown.len() as u64, "vote");
            program.warn(&format!("ignored {votes} on recordings that have changed since"));
        }
    }
    Ok(Exit::Done)
}
