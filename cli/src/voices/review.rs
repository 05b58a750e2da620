//! `review`: a local page on which a person listens to doubtful clips and corrects them.

mod api;
mod clips;
mod lock;
mod outlier;
mod parts;
mod session;

use std::io::Write;
use std::sync::{Arc, Mutex};

use cache::fs::RealFs;
use camino::Utf8PathBuf;
use engine::engine::StopFlag;
use engine::pipeline::{StageSpec, StageWork};
use engine::units;
use server::{Refusal, Service};
use stage_core::ParameterValue;

use super::local::{Local, wait};
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::inspect::items;
use crate::project::{Program, Project};
use crate::run::interrupt;
use api::ReviewApi;
use parts::Sounds;
use session::Session;

pub fn review(
    program: &Program,
    arguments: &arguments::Review,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let stop = StopFlag::default();
    interrupt::on_signals(stop.clone(), interrupt::silent())
        .map_err(CliError::process("listen for signals"))?;
    // The table need not exist yet.
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let (spec, port) = items::output_port(&project, &arguments.stage)?;
    if spec.work == StageWork::Train {
        let message = format!("`{}` is a training, which has no clips to review", spec.name);
        return Err(CliError::usage(message, "review the stage that its clips come from"));
    }
    let corrections = clips::corrections(&project, spec)?;
    let path = table(&project, corrections)?;
    let _lock = lock::take(&RealFs, &path)?;
    let local = Local::with_token(arguments.port)?;
    let session = open(program, &project, (spec, port), path.clone())?;
    let service: Arc<dyn Service> = Arc::new(ReviewApi {
        stage: spec.name.clone(),
        table: path.to_string(),
        session: Mutex::new(session),
        page: view::review::page(),
    });
    local.announce(output)?;
    program.tell(&format!(
        "open this address; corrections go to `{path}`, and `throstle run` applies them; press \
         Ctrl-C to stop"
    ));
    local.start(service)?;
    wait(&stop);
    Ok(Exit::Done)
}

/// The path of the table.
fn table(project: &Project, corrections: &StageSpec) -> Result<Utf8PathBuf, CliError> {
    match corrections.parameters.get("table") {
        ParameterValue::Text(path) => Ok(project.pipeline.base.join(path)),
        _ => Err(CliError::usage(
            format!("`{}` has no table", corrections.name),
            format!("write `table = \"corrections.csv\"` in `[stage.{}]`", corrections.name),
        )),
    }
}

fn open(
    program: &Program,
    project: &Project,
    stage: (&StageSpec, &str),
    path: Utf8PathBuf,
) -> Result<Session, CliError> {
    let cache = program.open_to_read(project)?;
    let store = items::open_store(program, project, &cache)?;
    let (clips, left_out) = clips::clips(program, project, &cache, &store, stage)?;
    let name = &stage.0.name;
    if clips.is_empty() {
        let help = "name a stage with clips in the field `audio`";
        return Err(CliError::failed(format!("`{name}` has no clips to review"), help));
    }
    if left_out > 0 {
        let count = units::count(left_out as u64);
        program.warn(&format!(
            "left out {count} clips of `{name}`: their sound is not that of a segment"
        ));
    }
    let refused = |refusal: Refusal| {
        CliError::failed(refusal.reason, "correct the table, then start the review again")
    };
    Session::open(clips, Sounds::new(store), path).map_err(refused)
}
