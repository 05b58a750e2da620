//! The reasons why a stage is not fresh: a closed list, each with the old and the new value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reason {
    /// No run of this pipeline has reached the stage.
    NeverRun,
    KindChanged {
        old: String,
        new: String,
    },
    VersionChanged {
        kind: String,
        old: u32,
        new: u32,
    },
    ParameterChanged {
        name: String,
        old: String,
        new: String,
    },
    SaltChanged {
        old: String,
        new: String,
    },
    /// The content of a `File` parameter.
    FileParameterChanged {
        name: String,
        old: String,
        new: String,
    },
    /// A file that a source reads; `None` where it does or did not exist.
    SourceFileChanged {
        path: String,
        old: Option<String>,
        new: Option<String>,
    },
    /// The number of further files.
    MoreSourceFiles {
        count: u64,
    },
    ItemAdded {
        port: String,
        item: String,
    },
    ItemRemoved {
        port: String,
        item: String,
    },
    ItemChanged {
        port: String,
        item: String,
        field: String,
        old: String,
        new: String,
    },
    /// The totals behind the examples above.
    ItemsDiffer {
        port: String,
        added: u64,
        removed: u64,
        changed: u64,
        same: u64,
    },
    ArtifactChanged {
        port: String,
        field: String,
        old: String,
        new: String,
    },
    /// The number of further fields of the artifact that differ.
    MoreFields {
        port: String,
        count: u64,
    },
    /// A port has different, more or fewer references.
    InputsChanged {
        port: String,
        old: usize,
        new: usize,
    },
    /// The quarantined items of the upstream stage changed.
    RejectsChanged {
        port: String,
    },
    /// The stage now continues from an outcome of its own, or no longer does.
    ParentChanged {
        old: Option<String>,
        new: Option<String>,
    },
    /// A run has begun the same work and left a checkpoint.
    Resumes {
        run: u64,
    },
    /// A run has begun other work under this name, and its checkpoint is not used.
    LeavesCheckpoint {
        run: u64,
        /// The changed settings; empty if the inputs changed.
        changed: Vec<Reason>,
    },
    /// An earlier run stopped or failed before these were done.
    Unfinished {
        items: u64,
    },
    /// An object is missing or damaged, and is made again.
    ObjectLost {
        digest: String,
    },
    /// The result is no longer in the cache although nothing changed.
    ResultGone,
    /// Unknown until these stages have run.
    WaitsFor {
        stages: Vec<String>,
    },
    /// Every outcome is known, and too many of them are quarantined items.
    TooManyQuarantined {
        quarantined: u64,
        items: u64,
    },
    /// The stage that a port reads from has a new name, and the port reads that name.
    InputRenamed {
        port: String,
        old: String,
        new: String,
    },
    /// Files of a source changed, and what they were before is known no more.
    FilesChanged,
    /// Unknown until enough trials of the sweep have a score at this rung.
    AwaitsRung {
        sweep: String,
        rung: String,
    },
    /// Other trials of the sweep are better at this rung, or the trial failed there.
    TrialOut {
        sweep: String,
        rung: String,
    },
    /// The trial failed in an earlier run, and ranks last.
    TrialFailed {
        message: String,
    },
}

impl fmt::Display for Reason {
    // One message for each reason: they are read side by side.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Reason::*;
        match self {
            NeverRun => write!(formatter, "never finished before"),
            KindChanged { old, new } => write!(formatter, "kind changed from `{old}` to `{new}`"),
            VersionChanged { kind, old, new } => {
                write!(formatter, "behaviour of `{kind}` changed from version {old} to {new}")
            }
            ParameterChanged { name, old, new } => {
                write!(formatter, "parameter `{name}` changed from {old} to {new}")
            }
            SaltChanged { old, new } => write!(formatter, "salt changed from {old} to {new}"),
            FileParameterChanged { name, old, new } => {
                write!(formatter, "content of the file `{name}` changed from {old} to {new}")
            }
            SourceFileChanged { path, old, new } => write_file(formatter, path, old, new),
            InputRenamed { port, old, new } => {
                write!(formatter, "the stage on `{port}` changed its name from `{old}` to `{new}`")
            }
            MoreSourceFiles { count } => {
                write!(formatter, "and {}", units::counted(*count, "more file"))
            }
            ItemAdded { port, item } => write!(formatter, "item `{item}` is new on `{port}`"),
            ItemRemoved { port, item } => write!(formatter, "item `{item}` is gone from `{port}`"),
            ItemChanged { port, item, field, old, new } => {
                write!(
                    formatter,
                    "field `{field}` of item `{item}` on `{port}` changed from {old} to {new}"
                )
            }
            ItemsDiffer { port, added, removed, changed, same } => write!(
                formatter,
                "items on `{port}`: {added} added, {removed} removed, {changed} changed, {same} \
                    the same"
            ),
            ArtifactChanged { port, field, old, new } => {
                write!(
                    formatter,
                    "`{field}` of the artifact on `{port}` changed from {old} to {new}"
                )
            }
            MoreFields { port, count } => {
                write!(
                    formatter,
                    "and {} of the artifact on `{port}`",
                    units::counted(*count, "more field")
                )
            }
            InputsChanged { port, old, new } => {
                write!(
                    formatter,
                    "the number of references on `{port}` changed from {old} to {new}"
                )
            }
            RejectsChanged { port } => {
                write!(formatter, "the quarantined items upstream of `{port}` changed")
            }
            ParentChanged { new: Some(new), .. } => {
                write!(formatter, "continues from its earlier outcome {new}")
            }
            ParentChanged { old, new: None } => {
                let old = old.as_deref().unwrap_or("nothing");
                write!(formatter, "starts from scratch instead of continuing from {old}")
            }
            Resumes { run } => write!(formatter, "resumes from the checkpoint of run {run}"),
            LeavesCheckpoint { run, changed } => {
                let changed: Vec<String> = changed.iter().map(Reason::to_string).collect();
                let why = if changed.is_empty() {
                    "its inputs changed".to_owned()
                } else {
                    changed.join(", ")
                };
                write!(formatter, "does not use the checkpoint of run {run}: {why}")
            }
            Unfinished { items } => {
                write!(formatter, "an earlier run did not finish {}", units::items(*items))
            }
            ObjectLost { digest } => write!(formatter, "object {digest} is missing or damaged"),
            FilesChanged => {
                write!(formatter, "its files changed; the record of the earlier files is gone")
            }
            AwaitsRung { sweep, rung } => {
                write!(formatter, "waits for scores of rung {rung} of sweep `{sweep}`")
            }
            TrialOut { sweep, rung } => {
                write!(formatter, "other trials are better at rung {rung} of sweep `{sweep}`")
            }
            TrialFailed { message } => write!(formatter, "the trial failed: {message}"),
            ResultGone => write!(formatter, "its result is no longer in the cache"),
            WaitsFor { stages } => write!(formatter, "waits for {}", stages.join(", ")),
            TooManyQuarantined { quarantined, items } => write!(
                formatter,
                "{quarantined} of {items} items are quarantined, more than the stage allows"
            ),
        }
    }
}

fn write_file(
    formatter: &mut fmt::Formatter<'_>,
    path: &str,
    old: &Option<String>,
    new: &Option<String>,
) -> fmt::Result {
    match (old, new) {
        (Some(old), Some(new)) => write!(formatter, "file `{path}` changed from {old} to {new}"),
        (None, Some(new)) => write!(formatter, "file `{path}` is new ({new})"),
        (Some(old), None) => write!(formatter, "file `{path}` is gone (was {old})"),
        (None, None) => write!(formatter, "file `{path}` is read"),
    }
}
