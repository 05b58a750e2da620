//! `why`: the old and new value of everything that changed.

mod as_json;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use cache::stat::StatIndex;
use cache::{Cache, Digest};
use engine::event::Verdict;
use engine::history;
use engine::pipeline::{ITEMS, Reads, StageSpec, StageWork};
use engine::plan::reasons::beside_items;
use engine::plan::{StageIdentity, StagePlan};
use engine::reason::Reason;
use engine::record::{LastRecord, Previous};
use engine::store::Store;
use engine::units;
use stage_core::key::{TextSink, write_value};
use stage_core::{Item, with_parents};
use view::escape::clean;

use super::plan::make;
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::project::{Program, Project};

pub fn why(
    program: &Program,
    arguments: &arguments::Why,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let (stage, item) = project.in_order((&arguments.stage, arguments.item.as_deref()));
    let stages = project.targets(&[stage.to_owned()])?;
    let cache = program.open_to_read(&project)?;
    let engine = program.engine_for(&project, &cache, None, false)?;
    let plan = make(program, &engine, &project, &cache, &stages)?;
    for (at, id) in stages.into_iter().enumerate() {
        if arguments.json {
            let (spec, plan) = (project.pipeline.stage(id), plan.stage(id));
            let told = as_json::explained(item, (&project, &cache), (spec, plan))?;
            writeln!(output, "{told}")?;
            continue;
        }
        if at > 0 {
            writeln!(output)?;
        }
        let spec = project.pipeline.stage(id);
        let plan = plan.stage(id);
        explain(program, (item, arguments.key), (&project, &cache), (spec, plan), output)?;
    }
    Ok(Exit::Done)
}

fn explain(
    program: &Program,
    (item, key): (Option<&str>, bool),
    (project, cache): (&Project, &Cache),
    (spec, stage): (&StageSpec, &StagePlan),
    output: &mut dyn Write,
) -> Result<(), CliError> {
    let last = history::last(cache, &project.pipeline.name, &spec.name)?;
    match item {
        None => {
            explain_stage(program, spec, stage, last.as_ref(), output)?;
            if key {
                write_key(stage, output)?;
            }
        }
        Some(id) => {
            let index = Arc::new(StatIndex::load(cache)?);
            let store = Store::new(cache.clone(), &project.pipeline.base, index);
            let one = One { cache, store: &store, spec, stage, last: last.as_ref(), id };
            One { id: one.arriving()?, ..one }.explain(key, output)?;
        }
    }
    Ok(())
}

fn explain_stage(
    program: &Program,
    spec: &StageSpec,
    stage: &StagePlan,
    last: Option<&LastRecord>,
    output: &mut dyn Write,
) -> Result<(), CliError> {
    let name = clean(&spec.name);
    let verdict = program.terminal.data.verdict(stage.verdict);
    match (stage.verdict, last) {
        (Verdict::Fresh, Some(last)) => {
            writeln!(
                output,
                "{name} is {verdict}; run {} brought it up to date because",
                last.run
            )?;
            for reason in &last.reasons {
                writeln!(output, "  {}", clean(&reason.to_string()))?;
            }
            if last.reasons.is_empty() {
                writeln!(output, "  its result was already in the cache under the same key")?;
            }
        }
        (Verdict::Fresh, None) => {
            writeln!(
                output,
                "{name} is {verdict}: its result is already in the cache under the same key"
            )?;
        }
        _ => {
            let (todo, reused) = (stage.executed + stage.pending, stage.reused);
            let most = if stage.pending > 0 { "at most " } else { "" };
            writeln!(
                output,
                "{name} is {verdict}: {most}{} to execute, {} to reuse, because",
                units::count(todo),
                units::count(reused)
            )?;
            for reason in &stage.reasons {
                writeln!(output, "  {}", clean(&reason.to_string()))?;
            }
        }
    }
    Ok(())
}

fn write_key(stage: &StagePlan, output: &mut dyn Write) -> Result<(), CliError> {
    match &stage.known.keyed {
        None => writeln!(output, "its key is unknown until its upstream stages have run")?,
        Some(keyed) => {
            let mut sink = TextSink::default();
            keyed.key.write(&mut sink);
            writeln!(output, "its key {} consists of", keyed.digest)?;
            write_parts(&sink, output)?;
        }
    }
    Ok(())
}

fn write_parts(sink: &TextSink, output: &mut dyn Write) -> Result<(), CliError> {
    for line in sink.0.lines() {
        writeln!(output, "  {}", clean(line))?;
    }
    Ok(())
}

/// A field of an item in two runs.
struct FieldChange {
    name: Arc<str>,
    old: Option<String>,
    new: Option<String>,
    is_read: bool,
}

/// One item that arrives at a stage, now and in the run before.
struct One<'a> {
    cache: &'a Cache,
    store: &'a Store,
    spec: &'a StageSpec,
    stage: &'a StagePlan,
    last: Option<&'a LastRecord>,
    id: &'a str,
}

impl<'a> One<'a> {
    /// The id of an item that the stage has made stands for the item that it was made of.
    fn arriving(&self) -> Result<&'a str, CliError> {
        let roots = self.stage.known.keyed.as_ref().zip(self.port());
        let Some((keyed, port)) = roots.filter(|_| self.spec.kind.expands.is_some()) else {
            return Ok(self.id);
        };
        for id in with_parents(self.id) {
            if (One { id, ..*self }).find(keyed.roots.get(port))?.is_some() {
                return Ok(id);
            }
        }
        Ok(self.id)
    }

    fn explain(&self, key: bool, output: &mut dyn Write) -> Result<(), CliError> {
        let id = clean(self.id);
        let port = self.port_or_error()?;
        let Some(keyed) = &self.stage.known.keyed else {
            return self.explain_unknown(output);
        };
        let now = self.find(keyed.roots.get(port))?;
        let (run, state) = self.before(&keyed.digest);
        let before = self.find(state.as_ref().and_then(|(_, roots)| roots.get(port)))?;
        match (&before, &now) {
            (None, None) => return Err(self.no_item()),
            (None, Some(_)) if state.is_none() => {
                let as_before =
                    self.last.map_or_else(String::new, |last| format!(" as at run {}", last.run));
                writeln!(output, "item `{id}` arrives{as_before}; no earlier run is known")?;
            }
            (None, Some(_)) if self.is_collected(state.as_ref(), port)? => writeln!(
                output,
                "item `{id}` arrives; what changed since {run} is unknown, since `throstle cache gc` has \
                 removed what arrived at that run"
            )?,
            (None, Some(_)) => writeln!(output, "item `{id}` is new since {run}")?,
            (Some(_), None) => writeln!(output, "item `{id}` is gone since {run}")?,
            (Some(before), Some(now)) => {
                let fields = self.compare(port, before, now, &run, output)?;
                let settings = self.settings(port, state.as_ref(), keyed);
                for reason in &settings {
                    writeln!(output, "{} since {run}", clean(&reason.to_string()))?;
                }
                if !fields && settings.is_empty() {
                    self.explain_unchanged(&run, output)?;
                }
            }
        }
        if let Some((_, reject)) =
            self.stage.known.rejects.iter().find(|(own, _)| **own == *self.id)
        {
            let (code, reason) = (clean(&reject.code), clean(&reject.reason));
            writeln!(output, "it is quarantined ({code}): {reason}")?;
        }
        if let (true, Some(now)) = (key, &now) {
            let mut sink = TextSink::default();
            for (name, value) in now.fields.iter().filter(|(name, _)| self.reads(port, name)) {
                write_value(name, value, &mut sink);
            }
            writeln!(output, "fields that the stage reads")?;
            write_parts(&sink, output)?;
        }
        Ok(())
    }

    fn port_or_error(&self) -> Result<&'static str, CliError> {
        self.port().ok_or_else(|| {
            let message = format!("`{}` reads no data set, so it has no items", self.spec.name);
            CliError::usage(message, "leave out the item")
        })
    }

    /// The port that items arrive on: the item port of an item stage, else the first data set.
    fn port(&self) -> Option<&'static str> {
        let inputs = &self.spec.inputs;
        let is_dataset = |port: &&&'static str| {
            let port = self.spec.kind.input(port);
            port.is_some_and(|port| port.port_type == stage_core::PortType::Dataset)
        };
        match self.spec.work {
            StageWork::Item => inputs.keys().find(|port| **port == ITEMS).copied(),
            _ => inputs.keys().find(is_dataset).copied(),
        }
    }

    fn explain_unknown(&self, output: &mut dyn Write) -> Result<(), CliError> {
        writeln!(output, "item `{}`: unknown until its upstream stages have run", clean(self.id))?;
        for reason in &self.stage.reasons {
            writeln!(output, "  {}", clean(&reason.to_string()))?;
        }
        Ok(())
    }

    /// The state to compare with: that of the last run or, if it is the current one, the state
    /// before it.
    fn before(&self, now: &Digest) -> (String, Option<Previous>) {
        match self.last {
            None => ("the last run".into(), None),
            Some(last) if last.key.digest() != *now => {
                (format!("run {}", last.run), Some((last.key.clone(), last.roots.clone())))
            }
            Some(last) => {
                let previous = last.previous.as_deref().cloned();
                (format!("the run before run {}", last.run), previous)
            }
        }
    }

    /// Changes besides items: parameters, files, artifacts, other data sets.
    fn settings(&self, port: &str, before: Option<&Previous>, now: &StageIdentity) -> Vec<Reason> {
        let Some(before) = before else { return Vec::new() };
        beside_items(self.store, self.spec, port, before, now)
    }

    fn find(&self, roots: Option<&Vec<Digest>>) -> Result<Option<Item>, CliError> {
        for root in roots.into_iter().flatten() {
            // An old table may have been collected.
            if !self.cache.contains(root)? {
                continue;
            }
            if let Some(item) = self.store.item(root, self.id)? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Tests if a table of the run before is no longer in the cache.
    fn is_collected(&self, before: Option<&Previous>, port: &str) -> Result<bool, CliError> {
        for root in before.and_then(|(_, roots)| roots.get(port)).into_iter().flatten() {
            if !self.cache.contains(root)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn reads(&self, port: &str, field: &str) -> bool {
        match self.spec.inputs.get(port).map(|input| &input.reads) {
            Some(Reads::Fields { names, .. }) => names.iter().any(|name| name == field),
            Some(Reads::All) | None => true,
        }
    }

    /// The fields that differ.
    fn changes(&self, port: &str, before: &Item, now: &Item) -> Vec<FieldChange> {
        let names = before.fields.iter().chain(now.fields.iter()).map(|(name, _)| name.clone());
        let names: BTreeSet<Arc<str>> = names.collect();
        let change = |name: Arc<str>| {
            let (old, new) = (before.fields.get(&name), now.fields.get(&name));
            let shown = |value: Option<&stage_core::Value>| value.map(ToString::to_string);
            let is_read = self.reads(port, &name);
            (old != new).then(|| FieldChange { name, old: shown(old), new: shown(new), is_read })
        };
        names.into_iter().filter_map(change).collect()
    }

    /// True when a field that the stage reads has changed.
    fn compare(
        &self,
        port: &str,
        before: &Item,
        now: &Item,
        run: &str,
        output: &mut dyn Write,
    ) -> Result<bool, CliError> {
        let id = clean(self.id);
        let mut changed = false;
        for FieldChange { name, old, new, is_read } in self.changes(port, before, now) {
            let shown = |value: Option<String>| value.unwrap_or_else(|| "nothing".to_owned());
            changed |= is_read;
            let unread = if is_read { "" } else { ", which the stage does not read" };
            let (name, old, new) = (clean(&name), shown(old), shown(new));
            let (old, new) = (clean(&old), clean(&new));
            writeln!(
                output,
                "field `{name}` of `{id}` changed since {run} from {old} to {new}{unread}"
            )?;
        }
        Ok(changed)
    }

    fn explain_unchanged(&self, run: &str, output: &mut dyn Write) -> Result<(), CliError> {
        let id = clean(self.id);
        writeln!(output, "nothing that the stage reads of `{id}` has changed since {run}")?;
        let reasons = self.stage.reasons.iter().map(ToString::to_string);
        for reason in reasons.filter(|_| self.stage.verdict != Verdict::Fresh) {
            writeln!(output, "  but {}", clean(&reason))?;
        }
        Ok(())
    }

    fn no_item(&self) -> CliError {
        CliError::usage(
            format!("no item `{}` arrives at `{}`", self.id, self.spec.name),
            "`throstle items` of its upstream stage lists them",
        )
    }
}
