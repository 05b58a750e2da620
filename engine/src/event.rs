//! Events: the only interface between running and showing.
//!
//! Live display, plain lines, JSON lines and the stored run log consume the same values. The
//! serialised form is the contract of `--json`: one object per line, `event` names the variant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use stage_core::course::Course;
use stage_core::device::{DeviceId, DeviceName};

use crate::figure::{Figure, StageEstimate};

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
    /// No work.
    Fresh,
    /// Work, for the given reasons.
    Dirty,
    /// Unknown until an upstream stage has run.
    Unknown,
    /// No work: other trials of its sweep are better, or its own has failed.
    Out,
}

impl Verdict {
    pub fn may_have_work(self) -> bool {
        matches!(self, Verdict::Dirty | Verdict::Unknown)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStage {
    pub verdict: Verdict,
    pub reasons: Vec<String>,
    /// The number of items to execute; for an unknown stage, at most.
    pub executed: u64,
    pub reused: u64,
    pub quarantined: u64,
    /// An estimate from earlier runs, 0 without any.
    pub seconds: f64,
    /// The values of its trial in a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
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
        /// Seconds since 1970 by the clock of the machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<i64>,
        /// The number of the process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<u32>,
        /// The name of the machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<String>,
    },
    /// The estimate of the run, by the stages that have work.
    Estimated {
        stages: BTreeMap<String, StageEstimate>,
        /// From start to end.
        seconds: Figure,
    },
    /// The limits and the price of the run, if there are any; once, before the first stage.
    Session {
        /// Until a stop is requested.
        seconds_left: Option<f64>,
        price_per_hour: Option<f64>,
        /// The cost of earlier runs of the pipeline, if there is a budget.
        spent: Option<f64>,
        budget: Option<f64>,
    },
    /// The measured cost of a stage that has finished or was stopped, in the terms of the estimate:
    /// with all threads to itself.
    Measured {
        stage: String,
        seconds: f64,
        disk_bytes: f64,
        /// 0 if it was not measured.
        ram_bytes: f64,
        vram_bytes: f64,
    },
    /// Something that the run waits for while it neither computes nor ends.
    Waiting {
        what: String,
    },
    StageStarted {
        stage: String,
        /// Items to process, or 1.
        total: u64,
        reasons: Vec<String>,
        /// The values of its trial in a sweep.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trial: Option<String>,
    },
    Progress {
        stage: String,
        done: u64,
        total: u64,
        counts: StageCounts,
    },
    /// The course of a training, before its first step.
    TrainingStarted {
        stage: String,
        course: Course,
    },
    /// Figures of a training step; NaN is `null` in JSON.
    Metrics {
        stage: String,
        step: u64,
        #[serde(with = "figures")]
        values: BTreeMap<String, f64>,
    },
    /// A resumable state of a training is durable.
    CheckpointKept {
        stage: String,
        /// The size of everything that it refers to.
        bytes: u64,
        /// The time that saving it took.
        seconds: f64,
    },
    ItemQuarantined {
        stage: String,
        item: String,
        code: String,
        reason: String,
    },
    /// A failed attempt that is retried; never part of a key.
    Retried {
        stage: String,
        what: String,
        attempt: u32,
    },
    /// A batch did not fit into memory: from now on, batches have at most this many bytes of input,
    /// or items.
    BatchHalved {
        stage: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        items: Option<u64>,
        message: String,
    },
    WorkerStarted {
        device: DeviceId,
        process: u32,
    },
    WorkerDied {
        device: DeviceName,
        message: String,
    },
    /// A damaged object was found and quarantined, and is made again.
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
        /// Files that somebody has changed.
        #[serde(default, skip_serializing_if = "is_zero")]
        kept: u64,
        /// Files of an earlier run, since this one has not finished the stage.
        #[serde(default, skip_serializing_if = "is_zero")]
        outdated: u64,
    },
    Stopping {
        why: String,
    },
    /// The run cannot go on, for a reason that is not that of one stage.
    RunFailed {
        message: String,
        help: Option<String>,
    },
    Finished {
        status: Status,
        stages: BTreeMap<String, StageCounts>,
        seconds: f64,
    },
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// JSON has no NaN, and a loss may be NaN.
mod figures {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        values: &BTreeMap<String, f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let finite = |value: f64| value.is_finite().then_some(value);
        serializer.collect_map(values.iter().map(|(name, value)| (name, finite(*value))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, f64>, D::Error> {
        let values = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
        let known = |(name, value): (String, Option<f64>)| (name, value.unwrap_or(f64::NAN));
        Ok(values.into_iter().map(known).collect())
    }
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

    #[test]
    fn a_loss_that_is_no_number_survives_json() {
        let values = [("loss".to_owned(), f64::NAN), ("rate".to_owned(), 0.5)].into();
        let event = Event::Metrics { stage: "s".into(), step: 3, values };
        let text = serde_json::to_string(&event).unwrap();
        let expected =
            r#"{"event":"metrics","stage":"s","step":3,"values":{"loss":null,"rate":0.5}}"#;
        assert_eq!(text, expected);
        let Event::Metrics { values, .. } = serde_json::from_str(&text).unwrap() else {
            panic!("{text} is no event of metrics")
        };
        assert!(values["loss"].is_nan() && values["rate"] == 0.5);
    }
}
