//! `[executor.NAME]`: places where the work of stages can run. They enter no key.

use std::collections::BTreeMap;

use stage_core::device::DeviceName;
use stage_core::{Default, Parameter, ParameterType, ParameterValue, Place, Role, Unit};

use super::nearest::suggestion;
use super::node::Entry;
use super::problem::{Collector, Problem, Span};
use super::value::Checks;
use super::written::{Manifest, WrittenExecutor, unknown_key};
use crate::pipeline::{Adapter, ExecutorSpec, Slurm, StageSpec, StageWork};

/// This process and its workers.
pub const LOCAL: &str = "local";
const ADAPTERS: [&str; 2] = ["slurm", "command"];
const PLACES: [&str; 1] = ["gpu"];
const TEXTS: ParameterType = ParameterType::List(&ParameterType::Text);

const fn key(name: &'static str, parameter_type: ParameterType, doc: &'static str) -> Parameter {
    Parameter {
        name,
        parameter_type,
        default: Default::Absent,
        role: Role::Execution,
        unit: Unit::None,
        doc,
    }
}

/// The keys of `[executor.NAME]`.
pub static KEYS: &[Parameter] = &[
    key("use", ParameterType::Choice(&ADAPTERS), "`slurm`, or `command` for any other program."),
    key("default_for", ParameterType::Choice(&PLACES), "`gpu`: all stages that use GPUs run here."),
    key(
        "command",
        ParameterType::Text,
        "For `command`: a shell command that runs one job. It gets the command line of the worker in \
         `$THROSTLE_WORK`, and ends with the job.",
    ),
    key("partition", ParameterType::Text, "For Slurm: the partition."),
    key("account", ParameterType::Text, "For Slurm: the account."),
    key("gres", ParameterType::Text, "For Slurm: the GPUs of one job, such as `gpu:1`."),
    key("time", ParameterType::Duration, "For Slurm: the time limit of one job."),
    key(
        "warning",
        ParameterType::Duration,
        "For Slurm: the time between the warning, at which a job saves and stops, and the limit. \
         Default: `2m`.",
    ),
    key(
        "setup",
        TEXTS,
        "For Slurm: lines of shell before the worker starts, such as `module load`.",
    ),
    key("flags", TEXTS, "For Slurm: further arguments of `sbatch`, as they are."),
    key(
        "submit_flags",
        TEXTS,
        "For Slurm: arguments of `sbatch` for the job of `throstle submit`, such as \
         `--partition=small`. It has the account, the partition and the time limit of the executor, \
         and no GPUs.",
    ),
    key(
        "max_jobs",
        ParameterType::Integer { min: 1, max: 10_000 },
        "The largest number of jobs of one stage at a time. Default: 64. Each batch of 250,000 items has at least one job, even above this number.",
    ),
    key("shard", ParameterType::Duration, "The expected time of one job. Default: `15m`."),
    key(
        "attempts",
        ParameterType::Integer { min: 1, max: 100 },
        "The number of times that a job is started without progress. Default: 3.",
    ),
    key(
        "poll",
        ParameterType::Duration,
        "The interval between two queries of the jobs. Default: `15s`.",
    ),
    key(
        "program",
        ParameterType::Text,
        "The path of `throstle` where jobs run. Default: the path of this program.",
    ),
    key(
        "cache",
        ParameterType::Text,
        "The cache folder of a job on its machine. Default: a folder in `/tmp`.",
    ),
    key(
        "cancel",
        ParameterType::Flag,
        "Cancel the jobs when the run is stopped, instead of leaving them to the next run. \
         Default: false.",
    ),
];

pub fn executors(
    manifest: &Manifest,
    checks: &Checks,
    problems: &mut Collector,
) -> BTreeMap<String, ExecutorSpec> {
    let read = manifest.executors.iter().filter_map(|written| {
        let spec = executor(written, checks, problems)?;
        Some((spec.name.clone(), spec))
    });
    read.collect()
}

struct ExecutorValues(BTreeMap<&'static str, ParameterValue>);

impl ExecutorValues {
    fn text(&mut self, name: &str) -> Option<String> {
        match self.0.remove(name)? {
            ParameterValue::Text(text) => Some(text),
            _ => None,
        }
    }

    fn seconds(&mut self, name: &str) -> Option<f64> {
        match self.0.remove(name)? {
            ParameterValue::Seconds(seconds) => Some(seconds),
            _ => None,
        }
    }

    fn count(&mut self, name: &str) -> Option<u32> {
        match self.0.remove(name)? {
            ParameterValue::Integer(number) => u32::try_from(number).ok(),
            _ => None,
        }
    }

    fn texts(&mut self, name: &str) -> Vec<String> {
        let Some(ParameterValue::List(values)) = self.0.remove(name) else { return Vec::new() };
        let text = |value| match value {
            ParameterValue::Text(text) => Some(text),
            _ => None,
        };
        values.into_iter().filter_map(text).collect()
    }

    fn slurm(&mut self) -> Slurm {
        Slurm {
            partition: self.text("partition"),
            account: self.text("account"),
            gres: self.text("gres"),
            time_seconds: self.seconds("time"),
            warning_seconds: self.seconds("warning").unwrap_or(120.0),
            setup: self.texts("setup"),
            flags: self.texts("flags"),
            submit_flags: self.texts("submit_flags"),
        }
    }
}

fn executor(
    written: &WrittenExecutor,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<ExecutorSpec> {
    let place = format!("`[executor.{}]`", written.name.value);
    if written.name.value == LOCAL {
        let message = "`local` is this machine, and cannot be the name of an executor";
        problems.add(Problem::new("bad_name", written.name.span, message));
    }
    let mut values = ExecutorValues(BTreeMap::new());
    for Entry { key, node } in &written.entries {
        let Some(parameter) = KEYS.iter().find(|known| known.name == key.value) else {
            let known: Vec<&str> = KEYS.iter().map(|known| known.name).collect();
            problems.add(unknown_key(key, &place, &known));
            continue;
        };
        if let Some(value) = checks.value(parameter, node, problems) {
            values.0.insert(parameter.name, value);
        }
    }
    let has = |name: &str| written.entries.iter().any(|entry| entry.key.value == name);
    let mut missing = |key: &str, example: &str| {
        let problem =
            Problem::new("missing_key", written.name.span, format!("{place} has no `{key}`"));
        problems.add(problem.help(format!("add `{key} = {example}`")));
    };
    if !has("use") {
        missing("use", "\"slurm\"");
    }
    let adapter = match values.text("use")?.as_str() {
        "slurm" => Adapter::Slurm(values.slurm()),
        _ => {
            if !has("command") {
                missing("command", "\"ssh machine $THROSTLE_WORK\"");
            }
            Adapter::Command(values.text("command")?)
        }
    };
    Some(ExecutorSpec {
        name: written.name.value.clone(),
        adapter,
        max_jobs: values.count("max_jobs").unwrap_or(64),
        shard_seconds: values.seconds("shard").unwrap_or(900.0).max(0.001),
        attempts: values.count("attempts").unwrap_or(3),
        poll_seconds: values.seconds("poll").unwrap_or(15.0).max(0.01),
        program: values.text("program"),
        cache: values.text("cache"),
        cancels: matches!(values.0.get("cancel"), Some(ParameterValue::Flag(true))),
        takes_gpus: values.text("default_for").is_some(),
    })
}

/// Finds stages that name an unknown executor; returns the positions of the names.
pub fn check_names(
    manifest: &Manifest,
    executors: &BTreeMap<String, ExecutorSpec>,
    problems: &mut Collector,
) -> BTreeMap<String, Span> {
    let mut spans = BTreeMap::new();
    // An executor with a mistake is known too.
    let known = || manifest.executors.iter().map(|written| written.name.value.as_str());
    for stage in &manifest.stages {
        let Some(entry) = stage.entries.iter().find(|entry| entry.key.value == "executor") else {
            continue;
        };
        spans.insert(stage.name.value.clone(), entry.node.span);
        let Some(name) = entry.node.text().filter(|name| *name != LOCAL) else { continue };
        if !executors.contains_key(name) && !known().any(|known| known == name) {
            let message = format!("there is no executor `{}`", name.escape_debug());
            let names = known().chain([LOCAL]);
            let problem = Problem::new("unknown_reference", entry.node.span, message);
            problems.add(problem.help_if(suggestion(name, "known executors", names)));
        }
    }
    spans
}

/// Decides where a stage runs: by its key `executor`, or else by its place.
pub fn place(
    stage: &mut StageSpec,
    executors: &BTreeMap<String, ExecutorSpec>,
    spans: &BTreeMap<String, Span>,
    problems: &mut Collector,
) {
    let can_move = matches!(stage.work, StageWork::Item | StageWork::Train);
    let uses_gpus = stage.kind.place == Place::Worker && stage.policy.device != DeviceName::CPU;
    stage.policy.executor = match stage.policy.executor.take() {
        Some(name) if name == LOCAL => None,
        Some(name) if can_move => Some(name),
        Some(name) => {
            let written = stage.name.split('[').next().unwrap_or_default();
            let message = format!("stage `{written}` cannot run on `{name}`");
            let help = "stages on single items and trainings can; others run where the run is";
            let span = spans.get(written).copied().unwrap_or_default();
            problems.add(Problem::new("wrong_value", span, message).help(help));
            None
        }
        None if can_move && uses_gpus => {
            executors.values().find(|executor| executor.takes_gpus).map(|found| found.name.clone())
        }
        None => None,
    };
}
