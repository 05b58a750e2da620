//! Events: the only interface between running and showing.
//!
//! Live progress, plain lines, JSON lines and the stored run log consume the same values. The
//! serialised form is the contract of `--json`: one object a line, `event` names the variant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::course::Course;
use crate::estimate::{Figure, StageEstimate};

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
    /// What the run is expected to take, by the stages that have something to do.
    Estimated {
        stages: BTreeMap<String, StageEstimate>,
        /// From its beginning to its end.
        seconds: Figure,
    },
    /// What limits the run and what it costs, where anything does; once, before the first stage.
    Session {
        /// Until it is asked to stop.
        seconds_left: Option<f64>,
        price_per_hour: Option<f64>,
        /// By earlier runs of the pipeline, where there is a budget.
        spent: Option<f64>,
        budget: Option<f64>,
    },
    /// What the work of a stage took that has come to its end, in the terms of the estimate.
    Measured {
        stage: String,
        seconds: f64,
        disk_bytes: f64,
        /// 0 where nobody saw it.
        ram_bytes: f64,
        vram_bytes: f64,
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
    /// The course of a training, before its first step.
    TrainingStarted {
        stage: String,
        course: Course,
    },
    /// Figures of a step of training; what is no number is `null` in JSON.
    Metrics {
        stage: String,
        step: u64,
        #[serde(with = "figures")]
        values: BTreeMap<String, f64>,
    },
    /// A state that training can go on from is durable.
    CheckpointKept {
        stage: String,
        /// The size of all that it refers to.
        bytes: u64,
        /// How long it took to save.
        seconds: f64,
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
    /// A batch did not fit into memory: from here on, batches have at most this many bytes of
    /// input, or items.
    BatchHalved {
        stage: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        items: Option<u64>,
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

/// JSON has no NaN, and a loss may be one.
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
