//! `report.recordings`: the fate of each second of long recordings.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, NewValue, PortInput, PortOutput, Reject,
    Setup, StageError,
};

use super::fates::{RecordingReport, SegmentReport, UnheardText};
use crate::plain::{JSON, to_json};

/// The code of segments that a stage neither has nor has quarantined.
const LEFT_OUT: &str = "left-out";

struct RecordingsStage;

pub fn open(_: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Gather(Box::new(RecordingsStage)))
}

/// A data set as it arrived.
struct Stage<'a> {
    name: &'a str,
    ids: BTreeSet<&'a str>,
    rejects: BTreeMap<&'a str, &'a Reject>,
}

impl<'a> Stage<'a> {
    fn of(input: &'a PortInput) -> Option<Stage<'a>> {
        let PortInput::Dataset { stage, items, rejects } = input else { return None };
        Some(Stage {
            name: stage,
            ids: items.iter().map(|item| &*item.id).collect(),
            rejects: rejects.iter().map(|(id, reject)| (id.as_str(), reject)).collect(),
        })
    }

    /// Why the stage does not have a segment.
    fn lost(&self, id: &str) -> Option<(String, Reject)> {
        let reject = match (self.ids.contains(id), self.rejects.get(id)) {
            (true, _) => return None,
            (false, Some(reject)) => (*reject).clone(),
            (false, None) => {
                Reject::new(LEFT_OUT, format!("`{}` does not have this item", self.name))
            }
        };
        Some((self.name.to_owned(), reject))
    }
}

/// A recording without any segment.
#[derive(Serialize)]
struct Whole<'a> {
    id: &'a str,
    stage: &'a str,
    code: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct RecordingsReport<'a> {
    recordings: Vec<RecordingReport>,
    /// Quarantined recordings.
    whole: Vec<Whole<'a>>,
}

impl GatherJob for RecordingsStage {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = input.items("segments")?;
        let known: BTreeSet<&str> = items.iter().map(|item| &*item.id).collect();
        let ports = ["segments", "input"].into_iter().filter_map(|port| input.ports.get(port));
        let stages: Vec<Stage> = ports.flatten().filter_map(Stage::of).collect();
        // Those before the segments have none of them.
        let behind: Vec<&Stage> = stages.iter().filter(|stage| stage.is_about(&known)).collect();
        let mut segments: BTreeMap<&str, Vec<SegmentReport>> = BTreeMap::new();
        for item in items {
            let recording = item.fields.text("recording").unwrap_or_default();
            let number = |name: &str| {
                item.fields.number(name).filter(|number| number.is_finite()).unwrap_or_default()
            };
            segments.entry(recording).or_default().push(SegmentReport {
                id: item.id.to_string(),
                start: number("start"),
                seconds: number("seconds"),
                lost: behind.iter().find_map(|stage| stage.lost(&item.id)),
            });
        }
        let unheard = unheard(&input, context)?;
        let report = RecordingsReport {
            recordings: segments
                .into_iter()
                .map(|(name, segments)| RecordingReport::of(name, segments, &unheard))
                .collect(),
            whole: stages.iter().flat_map(|stage| stage.whole(&known)).collect(),
        };
        let json = ("report".to_owned(), NewValue::bytes(JSON, to_json(&report)?));
        Ok(GatherOutput::default().with("output", PortOutput::Artifact(vec![json])))
    }
}

impl<'a> Stage<'a> {
    /// Tests if it has segments, or has quarantined some.
    fn is_about(&self, known: &BTreeSet<&str>) -> bool {
        let mut ids = self.ids.iter().chain(self.rejects.keys());
        ids.any(|id| known.contains(id))
    }

    fn whole(&self, known: &BTreeSet<&str>) -> Vec<Whole<'a>> {
        let others = self.rejects.iter().filter(|(id, _)| !known.contains(*id));
        let whole = others.map(|(id, reject)| Whole {
            id,
            stage: self.name,
            code: &reject.code,
            reason: &reject.reason,
        });
        whole.collect()
    }
}

fn unheard(input: &GatherInput, context: &mut dyn Context) -> Result<Vec<UnheardText>, StageError> {
    let blob = input.artifact("unheard").and_then(|fields| fields.blob("unheard")).cloned();
    let Some(blob) = blob else { return Ok(Vec::new()) };
    serde_json::from_slice(&context.read(&blob)?)
        .map_err(|error| StageError::failed(format!("`unheard` is damaged: {error}")))
}
