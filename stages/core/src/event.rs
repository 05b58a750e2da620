//! Events: the only interface between running and showing.
//!
//! Live progress, plain lines, JSON lines and the stored run log consume the same values. The
//! serialised form is the contract of `--json`: one object a line, `event` names the variant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts of one stage. Item stages count items, other stages count 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageCounts {
    pub executed: u64,
    pub reused: u64,
    pub quarantined: u64,
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Done,
    Failed,
    Paused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing to do.
    Fresh,
    /// Something to do, for the reasons given.
    Dirty,
    /// Not known before a stage above it has run.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStage {
    pub verdict: Verdict,
    pub reasons: Vec<String>,
    /// What would be executed; of an unknown stage, at most.
    pub executed: u64,
    pub reused: u64,
    pub quarantined: u64,
    /// An estimate from earlier runs, 0 where there is none.
    pub seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Plan {
        stages: BTreeMap<String, PlannedStage>,
        seconds: f64,
    },
    Started {
        run: u64,
        pipeline: String,
        stages: Vec<String>,
    },
    /// What the run waits for, when it is neither computing nor done.
    Waiting {
        what: String,
    },
    StageStarted {
        stage: String,
        /// Items to look at, or 1.
        total: u64,
        reasons: Vec<String>,
    },
    Progress {
        stage: String,
        done: u64,
        total: u64,
        counts: StageCounts,
    },
    ItemQuarantined {
        stage: String,
        item: String,
        code: String,
        reason: String,
    },
    /// An attempt that failed and is tried again; never part of a key.
    Retried {
        stage: String,
        what: String,
        attempt: u32,
    },
    BatchHalved {
        stage: String,
        bytes: u64,
        message: String,
    },
    WorkerStarted {
        device: String,
        process: u32,
    },
    WorkerDied {
        device: String,
        message: String,
    },
    /// A damaged object was found, set aside, and is made again.
    Damaged {
        stage: String,
        digest: String,
    },
    Note {
        stage: Option<String>,
        message: String,
    },
    StageFinished {
        stage: String,
        counts: StageCounts,
        notes: BTreeMap<String, u64>,
    },
    StageFailed {
        stage: String,
        message: String,
        help: Option<String>,
    },
    Exported {
        stage: String,
        written: u64,
        unchanged: u64,
        removed: u64,
    },
    Stopping {
        why: String,
    },
    Finished {
        status: Status,
        stages: BTreeMap<String, StageCounts>,
        seconds: f64,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_last_line_has_the_promised_form() {
        let counts = StageCounts { executed: 1, reused: 2, quarantined: 0, seconds: 0.5 };
        let event = Event::Finished {
            status: Status::Done,
            stages: [("clips".to_owned(), counts)].into(),
            seconds: 1.5,
        };
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"event":"finished","status":"done","stages":{"clips":{"executed":1,"reused":2,"quarantined":0,"seconds":0.5}},"seconds":1.5}"#
        );
    }
}
