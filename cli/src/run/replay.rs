//! `replay`: runs one item of a stage, or the whole stage, again in a folder that is kept.

mod folder;

use std::io::Write;
use std::sync::Arc;

use cache::fs::RealFs;
use cache::{Access, Cache};
use camino::{Utf8Path, Utf8PathBuf};
use engine::event::Event;
use stage_core::{Fields, StageError};

use super::interrupt;
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::project::{Program, Project};
use engine::engine::StopFlag;
use engine::pipeline::StageSpec;
use engine::record::ItemRecord;
use engine::run::replay::{
    Failure, ItemOutcome, Replay, ReplayError, ReplayInput, ReplayResult, Replayer,
};
use engine::units;
use folder::{ReplayFolder, safe};
use view::Reporter;
use view::escape::{clean, clean_lines};
use view::lines::Lines;
use view::paint::Paint;

pub fn replay(
    program: &Program,
    arguments: &arguments::Replay,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load(&arguments.manifest.manifest, &arguments.settings)?;
    let (stage, item) = project.in_order((&arguments.stage, arguments.item.as_deref()));
    let spec = project.stage(stage)?;
    // The results of a replay must not be recorded.
    let cache = Cache::open(&project.cache_folder, Arc::new(RealFs), Access::ReadOnly)?;
    let (path, around) = place(&project, spec, item, arguments.to.as_ref());
    let mut folder = ReplayFolder::make(&path, around)?;
    let stop = StopFlag::default();
    interrupt::on_signals(stop.clone(), interrupt::silent())
        .map_err(CliError::process("listen for signals"))?;
    let engine = program.engine(None, false);
    let folder_path = absolute(&folder.path)?;
    let replayer = Replayer {
        engine: &engine,
        pipeline: &project.pipeline,
        cache: &cache,
        spec,
        folder: &folder_path,
        stop,
    };
    let mut log = Lines::replaying(Vec::new(), Paint::default());
    let replayed = replayer.replay(item, &mut |event: Event| {
        // The cache of the replay is in memory.
        let _ = log.event(&event);
    });
    let replay = replayed.map_err(|error| explain(error, &project))?;
    keep(&mut folder, spec, item, &replay)?;
    let verdict = verdict(&replay.made, program.terminal.data);
    let told = String::from_utf8_lossy(log.output()).into_owned();
    folder.write("log.txt", format!("{told}{}\n", verdict.plain).as_bytes())?;
    folder.look()?;
    tell(spec, item, &replay, &folder, output)?;
    writeln!(output, "{}", verdict.text)?;
    Ok(verdict.exit)
}

/// The folder, and the cache if it is in there: replays may empty it then.
fn place<'a>(
    project: &'a Project,
    spec: &StageSpec,
    item: Option<&str>,
    given: Option<&Utf8PathBuf>,
) -> (Utf8PathBuf, Option<&'a Utf8Path>) {
    match given {
        Some(folder) => (folder.clone(), None),
        None => {
            let cache = &project.cache_folder;
            let stage = cache.join("replay").join(safe(&spec.name));
            (stage.join(item.map_or_else(|| "whole".to_owned(), safe)), Some(cache))
        }
    }
}

/// Commands run in a folder of their own.
fn absolute(path: &Utf8PathBuf) -> Result<Utf8PathBuf, CliError> {
    let path = std::path::absolute(path)?;
    let no_text = |_| CliError::usage("the path of the folder is not UTF-8", "name it with `--to`");
    Utf8PathBuf::from_path_buf(path).map_err(no_text)
}

fn keep(
    folder: &mut ReplayFolder,
    spec: &StageSpec,
    item: Option<&str>,
    replay: &Replay,
) -> Result<(), CliError> {
    let store = &replay.store;
    folder.stage(spec, item)?;
    match &replay.given {
        ReplayInput::Item(item) => folder.given_item(item, store)?,
        ReplayInput::Whole(sources) => folder.given_whole(sources, store)?,
    }
    match &replay.made {
        ReplayResult::Item { outcome: ItemOutcome::Done { fields, .. }, .. } => {
            folder.made_item(item.unwrap_or_default(), fields, store)
        }
        ReplayResult::Whole { outcome: Ok(record), .. } => {
            folder.made_whole(&record.outputs, store)
        }
        _ => Ok(()),
    }
}

fn tell(
    spec: &StageSpec,
    item: Option<&str>,
    replay: &Replay,
    folder: &ReplayFolder,
    output: &mut dyn Write,
) -> Result<(), CliError> {
    let stage = clean(&spec.name);
    let what = match item {
        Some(item) => format!("`{}` of `{stage}`", clean(item)),
        None => format!("`{stage}`"),
    };
    let seconds = units::seconds(replay.seconds);
    writeln!(output, "replayed {what} in {seconds}; files in `{}`:", clean(folder.path.as_str()))?;
    for (path, bytes) in &folder.files {
        writeln!(output, "  {}  {}", clean(path.as_str()), units::bytes(*bytes))?;
    }
    Ok(())
}

/// The result of the replay, beside the result in the cache.
struct Verdict {
    text: String,
    plain: String,
    exit: Exit,
}

impl Verdict {
    fn new(what: String, compared: FileComparison, paint: Paint) -> Verdict {
        let (told, exit) = match &compared {
            FileComparison::Equal => (paint.good("the cache has the same result"), Exit::Done),
            FileComparison::Unknown => {
                ("the cache has no result to compare with".to_owned(), Exit::Done)
            }
            FileComparison::Differs(how) => {
                (paint.bad(&format!("the result in the cache differs: {how}")), Exit::Failed)
            }
        };
        Verdict { text: format!("{what}\n{told}"), plain: what, exit }
    }

    fn failed(failure: &Failure, paint: Paint) -> Verdict {
        let (message, help) = match failure {
            Failure::Stage(error) | Failure::Open(error) => (error.to_string(), error.help()),
            Failure::Died { message } => (message.clone(), None),
        };
        let help = help.map_or_else(String::new, |help| format!("\n  help: {}", clean(help)));
        let text = format!("{}{help}", clean_lines(&message));
        let exit = match failure {
            Failure::Stage(StageError::Stopped) => Exit::Paused,
            _ => Exit::Failed,
        };
        Verdict { text: format!("{}: {text}", paint.bad("failed")), plain: text, exit }
    }
}

enum FileComparison {
    Equal,
    Unknown,
    Differs(String),
}

fn verdict(made: &ReplayResult, paint: Paint) -> Verdict {
    match made {
        ReplayResult::Item { outcome: ItemOutcome::Failed(failure), .. }
        | ReplayResult::Whole { outcome: Err(failure), .. } => Verdict::failed(failure, paint),
        ReplayResult::Item { outcome: ItemOutcome::Done { fields, .. }, known } => {
            let compared = match known {
                None => FileComparison::Unknown,
                Some(ItemRecord::Done { fields: known, .. }) => compare(known, fields),
                Some(ItemRecord::Rejected(reject)) => {
                    let reason = clean(&reject.reason).into_owned();
                    FileComparison::Differs(format!("quarantined: {reason}"))
                }
            };
            Verdict::new(format!("it made {}", names(fields)), compared, paint)
        }
        ReplayResult::Item { outcome: ItemOutcome::Rejected(reject), known } => {
            let compared = match known {
                None => FileComparison::Unknown,
                Some(ItemRecord::Rejected(known)) if known.code == reject.code => {
                    FileComparison::Equal
                }
                Some(ItemRecord::Rejected(known)) => {
                    let reason = clean(&known.reason).into_owned();
                    FileComparison::Differs(format!("quarantined for another reason: {reason}"))
                }
                Some(ItemRecord::Done { fields, .. }) => {
                    FileComparison::Differs(format!("not quarantined, with {}", names(fields)))
                }
            };
            let (code, reason) = (clean(&reject.code), clean_lines(&reject.reason));
            Verdict::new(format!("it is quarantined ({code}): {reason}"), compared, paint)
        }
        ReplayResult::Whole { outcome: Ok(record), known } => {
            let differs = |known: &engine::record::StageRecord| {
                let ports = record.outputs.iter();
                let others = ports.filter(|(port, value)| known.outputs.get(*port) != Some(*value));
                let others: Vec<String> = others.map(|(port, _)| format!("`{port}`")).collect();
                format!("another value of {}", others.join(", "))
            };
            let compared = match known {
                None => FileComparison::Unknown,
                Some(known) if known.outputs == record.outputs => FileComparison::Equal,
                Some(known) => FileComparison::Differs(differs(known)),
            };
            let ports: Vec<String> =
                record.outputs.keys().map(|port| format!("`{}`", clean(port))).collect();
            Verdict::new(format!("it made {}", ports.join(", ")), compared, paint)
        }
    }
}

fn compare(known: &Fields, made: &Fields) -> FileComparison {
    let all = known.iter().chain(made.iter()).map(|(name, _)| name);
    let mut others: Vec<String> = all
        .filter(|name| known.get(name) != made.get(name))
        .map(|name| format!("`{}`", clean(name)))
        .collect();
    others.sort();
    others.dedup();
    if others.is_empty() {
        FileComparison::Equal
    } else {
        FileComparison::Differs(format!("another value of {}", others.join(", ")))
    }
}

fn names(fields: &Fields) -> String {
    let names = fields
        .iter()
        .map(|(name, value)| format!("`{}` {}", clean(name), clean(&value.to_string())));
    let names: Vec<String> = names.collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn explain(error: ReplayError, project: &Project) -> CliError {
    let file = &project.pipeline.file;
    let message = error.to_string();
    match error {
        ReplayError::Engine(error) => error.into(),
        ReplayError::Read(_) => CliError::failed(message, format!("`throstle run {file}` first")),
        ReplayError::Early(stage) => {
            CliError::failed(message, format!("`throstle run {file} {stage}` first"))
        }
        ReplayError::NotYet { stage, .. } => CliError::failed(
            message,
            format!(
                "`throstle run {file} {stage}` first; `throstle items` of its upstream stage \
                 lists the items that it will get"
            ),
        ),
        ReplayError::NoItem { .. } => {
            CliError::usage(message, "`throstle items` of its upstream stage lists them")
        }
        ReplayError::Items(stage) => {
            let list = format!("`throstle items {stage} --quarantined`");
            CliError::usage(message, format!("add an item, such as one that {list} lists"))
        }
        ReplayError::NoItems(stage) => {
            CliError::usage(message, format!("leave out the item: `throstle replay {stage}`"))
        }
        ReplayError::Unfit { .. } | ReplayError::Apart { .. } => {
            CliError::usage(message, "see `throstle log` and `throstle why`")
        }
    }
}
