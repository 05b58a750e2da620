//! `pack-cache` and `unpack-cache`: the cache as a few large files, to be kept between sessions
//! on machines that keep nothing else.

use std::io::Write;

use cache::{Access, Archived, Archiving, Cache, CacheError, UnpackCounts};
use camino::Utf8Path;
use engine::archive;
use engine::export::real;
use engine::gc::GcLimits;
use engine::units;
use serde_json::json;
use view::escape::clean;

use crate::arguments::{PackCache, UnpackCache};
use crate::error::{CliError, Exit};
use crate::meter::Meter;
use crate::project::{Program, is_denied};

pub fn pack(
    program: &Program,
    arguments: &PackCache,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let location = arguments.location.location();
    // Damaged entries are quarantined if the cache is writable.
    let cache = match program.open_existing(&location, Access::ReadWrite) {
        Err(CliError::Cache(error)) if is_denied(&error) => {
            program.open_existing(&location, Access::ReadOnly)?
        }
        other => other?,
    };
    refuse_inside(&cache, &arguments.to)?;
    let limits = GcLimits { keep_runs: arguments.keep_runs, kept_since: None, most_bytes: None };
    let meter = Meter::new(program.terminal.errors_are_seen, "packing");
    let how = Archiving {
        folder: &arguments.to,
        bases: &arguments.base,
        volume_bytes: arguments.volume,
        progress: &|done, total| meter.tell(done, total),
    };
    let packed = archive::pack(&cache, &limits, &how);
    meter.end();
    let packed = packed.map_err(explain)?;
    if arguments.json {
        writeln!(output, "{}", packed_json(&packed))?;
    } else {
        tell_packed(&packed, &arguments.to, output)?;
    }
    Ok(if packed.damaged.is_empty() { Exit::Done } else { Exit::Failed })
}

/// An archive inside the cache would be swept, and could not be carried elsewhere.
fn refuse_inside(cache: &Cache, folder: &Utf8Path) -> Result<(), CliError> {
    let real = |path| real(&**cache.fs(), path).map_err(CacheError::from);
    let real_folder = real(folder)?;
    if real_folder.starts_with(real(cache.dir())?) {
        let message = format!("`{real_folder}` is inside the cache");
        return Err(CliError::usage(message, "choose a folder outside the cache with `--to`"));
    }
    Ok(())
}

fn explain(error: CacheError) -> CliError {
    match error {
        // The error is in the arguments: they name the archive.
        CacheError::Archive { .. } => CliError::Usage { message: error.to_string(), help: None },
        error => CliError::Cache(error),
    }
}

fn packed_json(packed: &Archived) -> serde_json::Value {
    json!({
        "volumes": packed.volumes, "bytes": packed.bytes, "objects": packed.objects,
        "records": packed.records, "in_bases": packed.in_bases, "damaged": packed.damaged,
    })
}

fn tell_packed(
    packed: &Archived,
    folder: &Utf8Path,
    output: &mut dyn Write,
) -> Result<(), CliError> {
    for digest in &packed.damaged {
        writeln!(
            output,
            "object or record {} is damaged: the next run makes it again",
            digest.short()
        )?;
    }
    let objects = units::counted(packed.objects, "object");
    let records = units::counted(packed.records, "record");
    let (bytes, volumes) = (units::bytes(packed.bytes), units::counted(packed.volumes, "volume"));
    let folder = clean(folder.as_str());
    writeln!(output, "packed {objects} and {records} into `{folder}`: {bytes} in {volumes}")?;
    if packed.in_bases > 0 {
        let there = units::count(packed.in_bases);
        writeln!(output, "{there} more in its base archives")?;
    }
    Ok(())
}

pub fn unpack(
    program: &Program,
    arguments: &UnpackCache,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let cache = program.open_or_make(&arguments.location.location())?;
    let meter = Meter::new(program.terminal.errors_are_seen, "unpacking");
    let taken = archive::unpack(&cache, &arguments.from, &|done, total| meter.tell(done, total));
    meter.end();
    let taken = taken.map_err(explain)?;
    if arguments.json {
        writeln!(output, "{}", taken_json(&taken))?;
    } else {
        tell_taken(&taken, &cache, output)?;
    }
    let is_whole = taken.damages.is_empty() && taken.without_base.is_empty();
    Ok(if is_whole { Exit::Done } else { Exit::Failed })
}

fn taken_json(taken: &UnpackCounts) -> serde_json::Value {
    let damages: Vec<_> = taken
        .damages
        .iter()
        .map(|damage| {
            json!({
                "path": damage.path, "offset": damage.offset, "object": damage.object,
                "what": damage.what,
            })
        })
        .collect();
    json!({
        "bytes": taken.bytes, "objects": taken.objects, "records": taken.records,
        "damages": damages, "without_base": taken.without_base,
    })
}

fn tell_taken(taken: &UnpackCounts, cache: &Cache, output: &mut dyn Write) -> Result<(), CliError> {
    for damage in &taken.damages {
        writeln!(output, "{}", super::cache_commands::damage_line(damage))?;
    }
    for folder in &taken.without_base {
        writeln!(
            output,
            "`{}` needs its base archive: give the base first with `--from`",
            clean(folder.as_str())
        )?;
    }
    let objects = units::counted(taken.objects, "object");
    let records = units::counted(taken.records, "record");
    let (bytes, dir) = (units::bytes(taken.bytes), clean(cache.dir().as_str()));
    writeln!(output, "added {objects} and {records} to `{dir}`; read {bytes}")?;
    if !taken.damages.is_empty() || !taken.without_base.is_empty() {
        writeln!(output, "the next run makes the missing results again")?;
    }
    Ok(())
}
