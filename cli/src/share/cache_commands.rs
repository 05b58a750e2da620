//! `cache`: figures, checks, garbage, pins.

use std::io::Write;
use std::time::Duration;

use cache::{Access, Cache, Damage, Stats, SweepPlan, SweepReport, VerifyOptions};
use engine::gc::{self, GcLimits};
use engine::history;
use engine::units;
use serde_json::json;
use view::escape::clean;
use view::table::Table;

use crate::arguments::{
    CacheCommand, CacheGc, CacheLocation, CachePin, CacheRestore, CacheStats, CacheVerify,
};
use crate::error::{CliError, Exit};
use crate::meter::Meter;
use crate::project::{Program, is_denied};

pub fn run(
    program: &Program,
    command: &CacheCommand,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    match command {
        CacheCommand::Stats(arguments) => stats(program, arguments, output),
        CacheCommand::Verify(arguments) => verify(program, arguments, output),
        CacheCommand::Gc(arguments) => collect(program, arguments, output),
        CacheCommand::Restore(arguments) => restore(program, arguments, output),
        CacheCommand::Pin(arguments) => pin(program, arguments, true, output),
        CacheCommand::Unpin(arguments) => pin(program, arguments, false, output),
    }
}

fn stats(
    program: &Program,
    arguments: &CacheStats,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let cache = program.open_existing(&arguments.location, Access::ReadOnly)?;
    let stats = cache.stats()?;
    if arguments.json {
        writeln!(output, "{}", figures(&stats))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["what", ">number", ">size"]);
    let mut row = |what: &str, number: u64, bytes: u64| {
        table.row([what.to_owned(), units::count(number), units::bytes(bytes)]);
    };
    row("objects", stats.objects, stats.object_bytes);
    row("  in separate files", stats.loose, stats.loose_bytes);
    row("packs", stats.packs, stats.pack_bytes);
    row("records", stats.records.values().sum(), stats.index_bytes);
    let mut table_of_sizes = |what: &str, bytes: u64| {
        table.row([what.to_owned(), String::new(), units::bytes(bytes)]);
    };
    table_of_sizes("unused bytes in packs", stats.dead_bytes);
    table_of_sizes("trash", stats.trash_bytes);
    table_of_sizes("being written", stats.staging_bytes);
    table_of_sizes("inputs of programs", stats.input_bytes);
    writeln!(output, "{}", cache.dir())?;
    output.write_all(table.render(program.terminal.data.columns).as_bytes())?;
    Ok(Exit::Done)
}

fn figures(stats: &Stats) -> serde_json::Value {
    json!({
        "objects": stats.objects, "object_bytes": stats.object_bytes,
        "loose": stats.loose, "loose_bytes": stats.loose_bytes,
        "packs": stats.packs, "pack_bytes": stats.pack_bytes, "dead_bytes": stats.dead_bytes,
        "records": stats.records.values().sum::<u64>(), "index_bytes": stats.index_bytes,
        "trash_bytes": stats.trash_bytes, "staging_bytes": stats.staging_bytes,
        "input_bytes": stats.input_bytes,
    })
}

fn verify(
    program: &Program,
    arguments: &CacheVerify,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let access = if arguments.repair { Access::ReadWrite } else { Access::ReadOnly };
    let mut cache = program.open_existing(&arguments.location, access)?;
    let is_up_to_date = cache.is_up_to_date()?;
    if !is_up_to_date && !arguments.repair {
        cache = open_to_rebuild(program, &arguments.location, cache)?;
        cache.renew_index()?;
    }
    let options = VerifyOptions { repair: arguments.repair, read_data: true };
    let meter = Meter::new(program.terminal.errors_are_seen, "reading");
    let report = cache.verify(options, &|done, total| meter.tell(done, total))?;
    meter.end();
    if !is_up_to_date || report.index_rebuilt {
        writeln!(output, "{}", rebuilt(&cache))?;
    }
    for damage in &report.damages {
        writeln!(output, "{}", damage_line(damage))?;
    }
    let objects = units::counted(report.objects, "object");
    let records = units::counted(report.records, "record");
    writeln!(output, "read {objects} and {records}, {}", units::bytes(report.bytes))?;
    let found = match report.damages.len() as u64 {
        1 => "1 damaged entry".to_owned(),
        many => format!("{} damaged entries", units::count(many)),
    };
    match (report.is_clean(), report.repaired) {
        (true, _) => writeln!(output, "nothing is damaged")?,
        (false, true) => {
            writeln!(
                output,
                "{found} quarantined: the next run makes the results that it needs again"
            )?;
        }
        (false, false) => {
            writeln!(output, "{found}: quarantine them with `throstle cache verify --repair`")?;
        }
    }
    Ok(if report.is_clean() || report.repaired { Exit::Done } else { Exit::Failed })
}

/// Opening a cache for writing brings its index up to date. A cache that cannot be written is read
/// without its index.
fn open_to_rebuild(
    program: &Program,
    location: &CacheLocation,
    read_only: Cache,
) -> Result<Cache, CliError> {
    match program.open_existing(location, Access::ReadWrite) {
        Err(CliError::Cache(error)) if is_denied(&error) || error.is_no_space() => Ok(read_only),
        opened => opened,
    }
}

fn rebuilt(cache: &Cache) -> &'static str {
    match cache.access() {
        Access::ReadWrite => {
            "the index was lost or out of date, as after a power cut: rebuilt it from the packs"
        }
        Access::ReadOnly => {
            "the index is lost or out of date, as after a power cut, and cannot be written: read \
             the packs instead"
        }
    }
}

pub fn damage_line(damage: &Damage) -> String {
    let place = damage.offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
    let object = damage.object.map(|object| format!(", object {}", object.short()));
    let (path, what) = (clean(damage.path.as_str()), clean(&damage.what));
    format!("`{path}`{place}: {what}{}", object.unwrap_or_default())
}

fn collect(
    program: &Program,
    arguments: &CacheGc,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let access = if arguments.yes { Access::ReadWrite } else { Access::ReadOnly };
    let cache = program.open_existing(&arguments.location, access)?;
    let now = cache.fs().now() / 1_000_000_000;
    let limits = GcLimits {
        keep_runs: arguments.keep_runs,
        kept_since: arguments.older_than.map(|seconds| now.saturating_sub(seconds as i64)),
        most_bytes: arguments.max_size,
    };
    let mut plan = gc::plan(&cache, &limits)?;
    cache.plan_orphans(&mut plan.sweep)?;
    describe(&plan, output)?;
    // First, since this works on a full disk too.
    let freed = if arguments.yes { cache.remove_idle_inputs(&plan.inputs)? } else { 0 };
    if freed > 0 {
        writeln!(output, "removed {} of copies of inputs of programs", units::bytes(freed))?;
    }
    match (arguments.yes, plan.sweep.is_empty()) {
        (_, true) if freed > 0 => {}
        (false, true) if !plan.inputs.is_empty() => {
            writeln!(output, "nothing was removed: add `--yes` to remove these copies")?
        }
        (_, true) => writeln!(output, "nothing to remove: {}", why_nothing(&plan, arguments))?,
        (false, false) => {
            writeln!(output, "nothing was removed: add `--yes` to remove these entries")?
        }
        (true, false) => {
            let report = sweep(program, &cache, arguments.empty_trash, plan.sweep, output)?;
            let objects = units::counted(report.objects, "object");
            let records = units::counted(report.records, "record");
            let packs = units::counted(report.packs, "pack");
            writeln!(output, "removed {objects} and {records}, rewrote {packs}")?;
            if report.leased > 0 {
                let leased = units::counted(report.leased, "object");
                writeln!(output, "kept {leased} that other programs are reading")?;
            }
            if report.busy_packs > 0 {
                let busy = units::counted(report.busy_packs, "pack");
                writeln!(output, "kept {busy} in use by other programs")?;
            }
        }
    }
    if arguments.yes {
        trash(program, &cache, arguments.empty_trash, output)?;
    }
    Ok(Exit::Done)
}

/// The reason why a plan removes nothing, and the options that remove more.
fn why_nothing(plan: &gc::GcPlan, arguments: &CacheGc) -> String {
    if plan.unfinished.is_some() {
        return "the results of the unfinished run are kept".to_owned();
    }
    let fewer = match arguments.keep_runs {
        0 => "",
        _ => "; lower `--keep-runs` to keep fewer runs",
    };
    let smaller = match arguments.max_size {
        Some(_) => "",
        None => "; set `--max-size` to remove entries that are cheap to recreate",
    };
    format!("the kept runs use everything in the cache{fewer}{smaller}")
}

/// On a full disk, entries that are deleted for good are deleted first, to free space.
fn sweep(
    program: &Program,
    cache: &Cache,
    for_good: bool,
    plan: SweepPlan,
    output: &mut dyn Write,
) -> Result<SweepReport, CliError> {
    match cache.sweep(plan.clone()) {
        Err(error) if error.is_no_space() && for_good => {
            trash(program, cache, true, output)?;
            let won = cache.make_room(&plan)?;
            writeln!(output, "permanently deleted {} of unused objects", units::bytes(won))?;
            Ok(cache.sweep(plan)?)
        }
        Err(error) if error.is_no_space() => Err(CliError::failed(
            error.whole(),
            "add `--empty-trash` to delete the unused objects permanently",
        )),
        swept => Ok(swept?),
    }
}

/// Puts back everything that is still in the trash.
fn restore(
    program: &Program,
    arguments: &CacheRestore,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let cache = program.open_existing(&arguments.location, Access::ReadWrite)?;
    let report = cache.restore_trash()?;
    let objects = units::counted(report.objects, "object");
    let records = units::counted(report.records, "record");
    let packs = units::counted(report.packs, "pack");
    if report.is_nothing() {
        writeln!(output, "nothing to restore")?
    } else {
        writeln!(output, "restored {objects}, {records}, {packs}")?
    }
    report.stays.iter().for_each(|stays| program.warn(stays));
    Ok(if report.stays.is_empty() { Exit::Done } else { Exit::Failed })
}

fn describe(plan: &gc::GcPlan, output: &mut dyn Write) -> Result<(), CliError> {
    let kept: Vec<String> = plan.kept.iter().map(ToString::to_string).collect();
    match kept.len() {
        0 => writeln!(output, "keeping the results of no run")?,
        1 => writeln!(output, "keeping the results of run {}", kept.join(", "))?,
        _ => writeln!(output, "keeping the results of the runs {}", kept.join(", "))?,
    }
    if let Some(run) = plan.unfinished {
        writeln!(
            output,
            "run {run} is unfinished: all results of single items are kept until a `throstle run` \
             of its whole manifest finishes"
        )?;
    }
    for one in &plan.given_up {
        let (bytes, seconds) = (units::bytes(one.bytes), units::seconds(one.seconds));
        let stage = clean(&one.stage);
        writeln!(output, "over the size limit, to remove: `{stage}`, {bytes}, made in {seconds}")?;
    }
    let copies: u64 = plan.inputs.iter().map(|folder| folder.bytes).sum();
    if copies > 0 {
        let copies = units::bytes(copies);
        writeln!(output, "no longer needed: copies of inputs of programs, {copies} to free")?;
    }
    if plan.sweep.orphans() > 0 {
        let files = units::counted(plan.sweep.orphans() as u64, "large object");
        writeln!(output, "left by a command that was killed: {files}")?;
    }
    let objects = plan.sweep.objects().count() + plan.sweep.orphans();
    let objects = units::counted(objects as u64, "object");
    let records = units::counted(plan.sweep.records().count() as u64, "record");
    if plan.sweep.is_empty() {
        return Ok(());
    }
    let bytes = units::bytes(plan.sweep.bytes);
    let why = match plan.sweep.bytes {
        0 => ": a pack is rewritten once less than half of it is needed",
        _ => "",
    };
    writeln!(output, "no longer needed: {objects} and {records}, {bytes} to free{why}")?;
    Ok(())
}

/// The time for which swept entries can be restored.
const TRASH: Duration = Duration::from_secs(7 * 24 * 3600);

fn trash(
    program: &Program,
    cache: &Cache,
    all: bool,
    output: &mut dyn Write,
) -> Result<(), CliError> {
    let age = if all { Duration::ZERO } else { TRASH };
    let unfinished = remote::remove_unfinished(cache, age)?;
    if unfinished > 0 {
        let bytes = units::bytes(unfinished);
        writeln!(output, "permanently deleted {bytes} of objects that a `pull` did not finish")?;
    }
    let emptied = cache.empty_trash(age)?;
    if emptied.bytes > 0 {
        writeln!(output, "permanently deleted {} of trash", units::bytes(emptied.bytes))?;
    }
    emptied.stays.iter().for_each(|stays| program.warn(stays));
    if !all {
        writeln!(
            output,
            "removed entries stay in the trash for a week, or until `--empty-trash`; restore them \
             with `throstle cache restore`"
        )?;
    }
    Ok(())
}

fn pin(
    program: &Program,
    arguments: &CachePin,
    pinned: bool,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let cache = program.open_existing(&arguments.location, Access::ReadWrite)?;
    let run = arguments.run;
    match history::pin(&cache, run, pinned)? {
        Some(_) if pinned => writeln!(output, "the results of run {run} are pinned")?,
        Some(_) => writeln!(output, "the results of run {run} are no longer pinned")?,
        None => {
            let message = format!("there is no run {run} in `{}`", cache.dir());
            return Err(CliError::usage(message, "`throstle log` lists the runs"));
        }
    }
    Ok(Exit::Done)
}
