//! `export`: writes the exported files of up-to-date stages again.

use std::io::Write;
use std::sync::Arc;

use cache::stat::StatIndex;
use engine::event::{Event, Verdict};
use engine::export::Exporting;
use engine::pipeline::StageId;
use engine::store::Store;
use engine::units;
use view::escape::clean;
use view::lines::message;

use crate::arguments;
use crate::error::{CliError, Exit};
use crate::inspect::plan::make;
use crate::project::Program;

pub fn export(
    program: &Program,
    arguments: &arguments::Export,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let chosen = project.targets(&arguments.stages)?;
    let cache = program.open(&project)?;
    let engine = program.engine_for(&project, &cache, None, false)?;
    let plan = make(program, &engine, &project, &cache, &chosen)?;
    let is_wanted = |id: &StageId| {
        let asked = chosen.is_empty() || chosen.contains(id);
        let takes_part = plan.stage(*id).verdict != Verdict::Out;
        asked && takes_part && !project.pipeline.stage(*id).exports.is_empty()
    };
    let wanted: Vec<StageId> = project.pipeline.ids().filter(is_wanted).collect();
    let (ready, open): (Vec<StageId>, Vec<StageId>) =
        wanted.into_iter().partition(|id| plan.stage(*id).verdict == Verdict::Fresh);
    for id in &open {
        let name = &project.pipeline.stage(*id).name;
        program
            .warn(&format!("skipped `{name}`, which is not up to date: run `throstle run` first"));
    }
    let index = Arc::new(StatIndex::load(&cache)?);
    let base = &project.pipeline.base;
    let store = Store::with_remote(cache.clone(), base, index, engine.remote.clone());
    let mut lines = Vec::new();
    let mut total = 0;
    let exported = engine::export::export(
        &store,
        &project.pipeline,
        &plan.stages,
        &Exporting {
            stages: &ready,
            failed: &open,
            overwrite: arguments.overwrite,
            named: usize::MAX,
        },
        &mut total,
        &mut |event| lines.extend(line(program, &event)),
    )?;
    if cache.pending_bytes() > 0 && !cache.is_read_only() {
        cache.commit()?;
    }
    let failed = exported.failed || exported.lost || exported.denied;
    for line in lines {
        writeln!(output, "{line}")?;
    }
    if total == 0 && !failed && open.is_empty() {
        let is_whole = exported.kept == 0 && exported.left_out == 0;
        let all = if is_whole { "all exported" } else { "all other exported" };
        writeln!(output, "{all} files are up to date")?;
    }
    let is_paused = exported.denied && !exported.failed && !exported.lost && open.is_empty();
    Ok(match failed || !open.is_empty() {
        _ if is_paused => Exit::Paused,
        true => Exit::Failed,
        false => Exit::Done,
    })
}

fn line(program: &Program, event: &Event) -> Option<String> {
    match event {
        Event::Exported { stage, written, unchanged, removed, kept, .. } => {
            let count = |number: &u64| units::count(*number);
            let kept = match kept {
                0 => String::new(),
                kept => format!(", {} kept", count(kept)),
            };
            Some(format!(
                "{}: {} written, {} unchanged, {} removed{kept}",
                clean(stage),
                count(written),
                count(unchanged),
                count(removed)
            ))
        }
        Event::Damaged { stage, digest } => {
            let (stage, digest) = (clean(stage), clean(digest));
            let advice = "`throstle run` makes it again";
            Some(format!("{stage}: quarantined the damaged object {digest}; {advice}"))
        }
        event => message(event, program.terminal.data),
    }
}
