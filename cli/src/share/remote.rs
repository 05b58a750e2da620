//! `push`, `pull` and `remote`: the store that machines share.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use cache::stat::StatIndex;
use cache::{Cache, Digest};
use engine::engine::{Engine, EngineError};
use engine::event::{Event, Verdict};
use engine::history;
use engine::mirror;
use engine::misplaced::misplaced;
use engine::pipeline::{RemoteSpec, StageId, StageSpec, StageWork};
use engine::plan::StagePlan;
use engine::store::Store;
use engine::units;
use remote::{Remote, RemoteError, VerifyReport};
use serde_json::json;
use view::escape::clean;
use view::table::Table;

use super::remote_choice;
use crate::arguments::{
    Pull, Push, RemoteCommand, RemoteGc, RemoteLog, RemoteStats, RemoteVerify, Settings,
};
use crate::error::{CliError, Exit};
use crate::inspect::plan::{make, tell_event};
use crate::meter::Meter;
use crate::project::{Program, Project};
use crate::run::interrupt;

impl Program {
    /// The engine for a project, with its remote if it has one.
    pub fn engine_for(
        &self,
        project: &Project,
        cache: &Cache,
        threads: Option<u16>,
        verify: bool,
    ) -> Result<Engine, CliError> {
        let mut engine = self.engine(threads, verify);
        // Objects from a remote have to be stored.
        if let (Some(spec), false) = (&project.pipeline.remote, cache.is_read_only()) {
            require_usable(project)?;
            let remote = open(spec, cache)?;
            if spec.settings.require {
                remote.require_mark().map_err(failed)?;
            }
            engine.remote = Some(Arc::new(remote));
        }
        Ok(engine)
    }
}

/// Fails if the remote of a project can never be used.
pub fn require_usable(project: &Project) -> Result<(), CliError> {
    let Some(spec) = &project.pipeline.remote else { return Ok(()) };
    let address = &spec.address;
    if !address.is_supported() {
        return Err(CliError::usage(
            RemoteError::NotBuilt { url: address.to_string() }.to_string(),
            "use a program with the feature `cloud`, or a folder (`file:///shared/cache`)",
        ));
    }
    match misplaced(&project.pipeline, &project.cache_folder, address) {
        None => Ok(()),
        Some(why) => Err(CliError::usage(
            format!("the remote `{address}` cannot be used: {why}"),
            "choose a separate folder for the remote",
        )),
    }
}

pub fn open(spec: &RemoteSpec, cache: &Cache) -> Result<Remote, CliError> {
    let opened = Remote::open(spec.address.clone(), spec.settings, mirror::rules(), cache.clone());
    opened.map_err(failed)
}

pub fn failed(trouble: RemoteError) -> CliError {
    match trouble {
        RemoteError::Cache(error) => CliError::Cache(error),
        // A full disk has a help of its own: see `pausing`.
        full if full.machine_fault().is_some() => CliError::Engine(EngineError::Remote(full)),
        trouble => CliError::failed(
            trouble.to_string(),
            "check the address, and that the folder is mounted",
        ),
    }
}

/// A project with its remote, for commands about the remote. An answer is required.
fn required(
    program: &Program,
    manifest: &camino::Utf8Path,
    settings: &Settings,
) -> Result<(Project, Cache, Arc<Remote>), CliError> {
    if remote_choice::is_off(settings) {
        return Err(CliError::usage(
            "this command needs a remote, but `--remote none` switches it off",
            "leave `--remote none` out, or name a remote",
        ));
    }
    let project = program.load(manifest, settings)?;
    let Some(mut spec) = project.pipeline.remote.clone() else {
        return Err(CliError::usage(
            format!("`{}` has no remote", project.pipeline.file),
            "add `[remote]` with `url = \"…\"`, or name one with `--remote`",
        ));
    };
    spec.settings.require = true;
    let cache = program.open(&project)?;
    require_usable(&project)?;
    let remote = Arc::new(open(&spec, &cache)?);
    Ok((project, cache, remote))
}

fn tell_notes(program: &Program, remote: &Remote) {
    remote.take_notes().iter().for_each(|note| program.warn(note));
}

/// A signal pauses this command from now on.
fn listen(cache: &Cache, command: &'static str) -> Result<(), CliError> {
    interrupt::pause_on_signals(cache.clone(), command)
        .map_err(CliError::process("listen for signals"))
}

/// A full disk, here or in the remote, is a pause as it is in a run: the same command continues.
fn pausing(
    program: &Program,
    command: &str,
    ended: Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    ended.or_else(|error| match error.machine_fault() {
        Some(why) => {
            program.warn(&format!("{why}; run `throstle {command}` to continue"));
            Ok(Exit::Paused)
        }
        None => Err(error),
    })
}

pub fn push(program: &Program, arguments: &Push, output: &mut dyn Write) -> Result<Exit, CliError> {
    pausing(program, "push", push_all(program, arguments, output))
}

fn push_all(program: &Program, arguments: &Push, output: &mut dyn Write) -> Result<Exit, CliError> {
    let (project, cache, remote) =
        required(program, &arguments.manifest.manifest, &arguments.settings)?;
    listen(&cache, "push")?;
    let mut engine = program.engine(None, false);
    remote.note_all_scopes();
    remote.look_again().map_err(failed)?;
    engine.remote = Some(Arc::clone(&remote));
    // This finds the scopes of all results.
    make(program, &engine, &project, &cache, &[])?;
    let meter = Meter::new(program.terminal.errors_are_seen, "pushing");
    let pushed = mirror::push(&cache, &remote, &|done, total| meter.tell(done, total));
    meter.end();
    let pushed = pushed.and_then(|pushed| {
        let (checkpoints, behind) = mirror::push_checkpoints(&cache, &remote)?;
        Ok((pushed, checkpoints, behind, mirror::push_logs(&cache, &remote)?))
    });
    let (pushed, checkpoints, behind, logs) = pushed.map_err(failed)?;
    tell_notes(program, &remote);
    mirror::conflicts(&pushed).iter().for_each(|told| program.warn(told));
    mirror::overtaken(&behind).for_each(|told| program.warn(&told));
    for digest in &pushed.damaged {
        program.warn(&format!("skipped the damaged object {}", digest.short()));
    }
    if arguments.json {
        let told = json!({
            "objects": pushed.objects, "bytes": pushed.bytes, "records": pushed.records,
            "outcomes": pushed.outcomes, "checkpoints": checkpoints, "logs": logs, "labels": pushed.labels,
            "conflicts": pushed.conflicts, "retried": pushed.retried, "damaged": pushed.damaged,
        });
        writeln!(output, "{told}")?;
    } else if pushed.is_nothing() && logs == 0 && checkpoints == 0 {
        writeln!(output, "`{}` is up to date", clean(remote.address().as_str()))?;
    } else {
        let address = clean(remote.address().as_str());
        writeln!(output, "pushed to `{address}`: {}", mirror::summary(&pushed, checkpoints))?;
    }
    Ok(if pushed.conflicts.is_empty() { Exit::Done } else { Exit::Failed })
}

pub fn pull(program: &Program, arguments: &Pull, output: &mut dyn Write) -> Result<Exit, CliError> {
    pausing(program, "pull", pull_all(program, arguments, output))
}

fn pull_all(program: &Program, arguments: &Pull, output: &mut dyn Write) -> Result<Exit, CliError> {
    let (project, cache, remote) =
        required(program, &arguments.manifest.manifest, &arguments.settings)?;
    let targets = project.targets(&arguments.stages)?;
    listen(&cache, "pull")?;
    remote.require_mark().map_err(failed)?;
    let mut pulled = pull_from(program, &project, &cache, &remote, &targets)?;
    let (mut objects, mut bytes) = remote.brought();
    if !pulled.is_whole() {
        // Somebody may have removed packs, and others may have written their contents again since.
        remote.look_again().map_err(failed)?;
        cache.commit()?;
        let spec = RemoteSpec { address: remote.address().clone(), settings: *remote.settings() };
        let remote = Arc::new(open(&spec, &cache)?);
        let first = pulled;
        pulled = pull_from(program, &project, &cache, &remote, &targets)?;
        if !pulled.is_whole() {
            // This machine may have forgotten packs whose files are there again.
            remote.learn_all().map_err(failed)?;
            let second = pulled;
            pulled = pull_from(program, &project, &cache, &remote, &targets)?;
            if !pulled.is_whole() {
                pulled.add(second);
            }
        }
        // The records of a pack are read once, so only the first attempt finds damage among them.
        if first.has_damaged {
            pulled.add(first);
        }
        let more = remote.brought();
        (objects, bytes) = (objects + more.0, bytes + more.1);
    }
    let PullResult { open, lacking, has_ignored, has_damaged, notes } = pulled;
    notes.iter().for_each(|note| program.warn(note));
    if !lacking.is_empty() {
        cache.note_losses();
    }
    if arguments.json {
        let open: BTreeSet<&String> = open.iter().chain(&lacking).collect();
        let told = json!({ "objects": objects, "bytes": bytes, "open": open });
        writeln!(output, "{told}")?;
    } else {
        let (objects, bytes) = (units::counted(objects, "object"), units::bytes(bytes));
        let address = clean(remote.address().as_str());
        writeln!(output, "pulled from `{address}`: {objects}, {bytes}")?;
        if !open.is_empty() {
            writeln!(output, "not up to date; `throstle run` makes them: {}", open.join(", "))?;
        }
    }
    // Ignored files may have had results of the open stages, or records of items.
    let what = if !lacking.is_empty() {
        format!("the remote lacks a part of the results of {}", lacking.join(", "))
    } else if has_damaged || has_ignored && !open.is_empty() {
        "files of the remote are damaged or missing".to_owned()
    } else {
        return Ok(Exit::Done);
    };
    Err(CliError::failed(
        what,
        "`throstle run` makes the missing results again; then `throstle remote verify --repair` \
         removes damaged files and writes the results of this machine",
    ))
}

/// One attempt to fetch everything.
struct PullResult {
    /// The stages that are left to a run.
    open: Vec<String>,
    /// The stages that still lack an object of a recorded result after the pull.
    lacking: Vec<String>,
    /// Damaged files were ignored.
    has_ignored: bool,
    /// Some entries of packs are damaged.
    has_damaged: bool,
    notes: Vec<String>,
}

impl PullResult {
    fn is_whole(&self) -> bool {
        self.lacking.is_empty() && !self.has_ignored
    }

    /// Adds the damage and the notes of an earlier attempt.
    fn add(&mut self, earlier: PullResult) {
        self.has_damaged |= earlier.has_damaged;
        self.notes.retain(|note| !earlier.notes.contains(note));
        self.notes.splice(..0, earlier.notes);
    }
}

fn pull_from(
    program: &Program,
    project: &Project,
    cache: &Cache,
    remote: &Arc<Remote>,
    targets: &[StageId],
) -> Result<PullResult, CliError> {
    let mut engine = program.engine(None, false);
    engine.remote = Some(Arc::clone(remote));
    let mut notes = Vec::new();
    let plan = engine.plan(&project.pipeline, cache, targets, &mut |event| match event {
        Event::Note { stage: None, message } => notes.push(message),
        event => tell_event(program, &event),
    })?;
    let is_wanted = |name: &str| {
        targets.is_empty() || targets.iter().any(|id| project.pipeline.stage(*id).name == name)
    };
    let stages = project.pipeline.stages.iter().zip(&plan.stages);
    let stages =
        stages.filter(|(spec, plan)| is_wanted(&spec.name) && plan.verdict != Verdict::Out);
    let (mut fresh, mut open) = (Vec::new(), Vec::new());
    for stage in stages {
        // All items may be known although no run has finished the stage.
        let is_finished = match &stage.1.known.keyed {
            Some(keyed) => history::outcome_of(cache, &keyed.digest)?.is_some(),
            None => true,
        };
        if stage.1.verdict == Verdict::Fresh && is_finished {
            fresh.push(stage)
        } else {
            open.push(stage)
        }
    }
    let key = |(_, plan): &(&StageSpec, &StagePlan)| Some(plan.known.keyed.as_ref()?.digest);
    let trainings = open.iter().filter(|(spec, _)| spec.work == StageWork::Train);
    let wanted = mirror::wanted(
        cache,
        remote,
        fresh.iter().filter_map(key),
        trainings.clone().filter_map(key),
    );
    let wanted = wanted.map_err(failed)?;
    // A pull that is killed leaves records without their objects, so the mark is set before it.
    let marks = !wanted.is_empty() && !cache.has_losses();
    if marks {
        cache.note_losses();
    }
    let meter = Meter::new(program.terminal.errors_are_seen, "pulling");
    let pulled = remote.pull(&wanted, &|done, total| meter.tell(done, total));
    meter.end();
    pulled.map_err(failed)?;
    if marks {
        cache.clear_losses()?;
    }
    // Recordings are read where they are, and are not in the remote.
    let index = Arc::new(StatIndex::load(cache)?);
    let store = Store::new(cache.clone(), &project.pipeline.base, index);
    let is_whole = |wanted: Result<Vec<Digest>, RemoteError>| -> Result<bool, CliError> {
        Ok(!store.have(&wanted.map_err(failed)?)?.contains(&false))
    };
    let mut lacking = Vec::new();
    if !is_whole(Ok(wanted))? {
        let fresh =
            fresh.iter().map(|stage| (stage.0, mirror::wanted(cache, remote, key(stage), [])));
        let begun = trainings.map(|stage| (stage.0, mirror::wanted(cache, remote, [], key(stage))));
        for (spec, wanted) in fresh.chain(begun) {
            if !is_whole(wanted)? {
                lacking.push(spec.name.clone());
            }
        }
    }
    notes.extend(remote.take_notes());
    Ok(PullResult {
        open: open.iter().map(|(spec, _)| spec.name.clone()).collect(),
        lacking,
        has_ignored: remote.has_ignored(),
        has_damaged: remote.has_damaged(),
        notes,
    })
}

pub fn remote(
    program: &Program,
    command: &RemoteCommand,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    match command {
        RemoteCommand::Stats(arguments) => stats(program, arguments, output),
        RemoteCommand::Verify(arguments) => {
            pausing(program, "remote verify --repair", verify(program, arguments, output))
        }
        RemoteCommand::Gc(arguments) => collect(program, arguments, output),
        RemoteCommand::Log(arguments) => log(program, arguments, output),
    }
}

fn stats(
    program: &Program,
    arguments: &RemoteStats,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let (_, _, remote) = required(program, &arguments.manifest.manifest, &arguments.settings)?;
    let figures = remote.figures().map_err(failed)?;
    if arguments.json {
        let told = json!({
            "packs": figures.packs, "pack_bytes": figures.pack_bytes,
            "objects": figures.objects, "object_bytes": figures.object_bytes,
            "outcomes": figures.outcomes, "logs": figures.logs, "bytes": figures.bytes,
        });
        writeln!(output, "{told}")?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["what", ">number", ">size"]);
    let mut row = |what: &str, number: u64, bytes: Option<u64>| {
        let bytes = bytes.map(units::bytes).unwrap_or_default();
        table.row([what.to_owned(), units::count(number), bytes]);
    };
    row("packs of small objects", figures.packs, Some(figures.pack_bytes));
    row("large objects", figures.objects, Some(figures.object_bytes));
    row("outcomes of stages", figures.outcomes, None);
    row("logs of runs", figures.logs, None);
    writeln!(output, "{}", clean(remote.address().as_str()))?;
    output.write_all(table.render(program.terminal.data.columns).as_bytes())?;
    Ok(Exit::Done)
}

fn verify(
    program: &Program,
    arguments: &RemoteVerify,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let (project, cache, remote) =
        required(program, &arguments.manifest.manifest, &arguments.settings)?;
    if arguments.repair {
        listen(&cache, "remote verify --repair")?;
    }
    // Recordings are read where they are, and are not in the remote.
    let index = Arc::new(StatIndex::load(&cache)?);
    let store = Store::new(cache.clone(), &project.pipeline.base, index);
    let is_in_a_source = |digest: &Digest| store.is_in_a_source(digest);
    let verified = read_all(program, &remote, &is_in_a_source)?;
    for (name, why) in &verified.wrong {
        writeln!(output, "`{}`: {why}", clean(name))?;
    }
    let (read, bytes) = (units::counted(verified.read, "file"), units::bytes(verified.bytes));
    writeln!(output, "read {read}, {bytes}")?;
    match verified.wrong.len() {
        0 => writeln!(output, "nothing is damaged")?,
        many => writeln!(output, "found {}", units::counted(many as u64, "damaged file"))?,
    }
    if verified.wrong.is_empty() {
        return Ok(Exit::Done);
    }
    output.flush()?;
    if !arguments.repair {
        program.tell("add `--repair` to remove them and to push this machine's copies again");
        return Ok(Exit::Failed);
    }
    let mut engine = program.engine(None, false);
    remote.note_all_scopes();
    engine.remote = Some(Arc::clone(&remote));
    make(program, &engine, &project, &cache, &[])?;
    let (removed, pushed) =
        mirror::repair(&cache, &remote, &verified, &|_, _| {}).map_err(failed)?;
    let mut left = remote.verify_again(&verified, &removed).map_err(failed)?;
    mirror::find_incomplete(&remote, &mut left, &is_in_a_source).map_err(failed)?;
    tell_notes(program, &remote);
    let removed = units::counted(removed.len() as u64, "file");
    writeln!(output, "removed {removed}; pushed {}", mirror::summary(&pushed, 0))?;
    if left.wrong.is_empty() {
        output.flush()?;
        program.tell(
            "if another machine still has removed results, `throstle push` there writes them again",
        );
        return Ok(Exit::Done);
    }
    for (name, why) in &left.wrong {
        writeln!(output, "`{}`: {why}", clean(name))?;
    }
    let left = units::counted(left.wrong.len() as u64, "damaged file");
    program.tell(&format!("{left} left: remove them or make them readable, then try again"));
    Ok(Exit::Failed)
}

fn read_all(
    program: &Program,
    remote: &Remote,
    is_in_a_source: &dyn Fn(&Digest) -> bool,
) -> Result<VerifyReport, CliError> {
    let meter = Meter::new(program.terminal.errors_are_seen, "reading");
    let verified = remote.verify(&|done, total| meter.tell(done, total));
    meter.end();
    let mut verified = verified.map_err(failed)?;
    mirror::find_incomplete(remote, &mut verified, is_in_a_source).map_err(failed)?;
    tell_notes(program, remote);
    Ok(verified)
}

fn collect(
    program: &Program,
    arguments: &RemoteGc,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let (_, _, remote) = required(program, &arguments.manifest.manifest, &arguments.settings)?;
    let older_than = arguments.older_than.map(|seconds| seconds as i64);
    let garbage = remote.garbage(older_than).map_err(failed)?;
    for (name, expected) in &garbage.odd {
        let name = clean(name);
        program
            .warn(&format!("`{name}` is {expected}: `throstle remote verify --repair` removes it"));
    }
    for name in &garbage.unused {
        writeln!(output, "{}", clean(name))?;
    }
    let files = units::counted(garbage.unused.len() as u64, "file");
    let bytes = units::bytes(garbage.bytes);
    if garbage.unused.is_empty() {
        writeln!(output, "nothing to remove")?;
    } else if arguments.yes {
        remote.remove(&garbage).map_err(failed)?;
        writeln!(output, "removed {files}, {bytes}")?;
    } else {
        writeln!(output, "nothing was removed: add `--yes` to remove {files}, {bytes}")?;
    }
    Ok(Exit::Done)
}

fn log(program: &Program, arguments: &RemoteLog, output: &mut dyn Write) -> Result<Exit, CliError> {
    let (_, _, remote) = required(program, &arguments.manifest.manifest, &arguments.settings)?;
    if let Some(name) = &arguments.name {
        let Some(log) = remote.log(name).map_err(failed)? else {
            return Err(CliError::usage(
                format!("`{}` has no log `{name}`", remote.address()),
                "`throstle remote log` lists them",
            ));
        };
        output.write_all(clean_log(&log).as_bytes())?;
        return Ok(Exit::Done);
    }
    for log in remote.logs().map_err(failed)? {
        writeln!(output, "{}  {}", clean(&log.name), units::bytes(log.size))?;
    }
    Ok(Exit::Done)
}

/// Lines of JSON have no control characters; a damaged log may have some, which must not reach a
/// terminal.
fn clean_log(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    text.chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect()
}
