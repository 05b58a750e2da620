//! The stages of the family `speaker`.

use std::sync::Arc;

use crate::speaker::kinds;
use bytes::Bytes;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, PortOutput,
    Reject, Setup, Stage, StageError,
};

use super::matching;
use super::select::{By, select};
use super::stats::{self, ClipProperties, SpeakerStats, UNNAMED};
use crate::plain::{JSON, stage, to_json, unknown_choice};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![
        stage(&kinds::STATS, open_stats),
        stage(&kinds::SELECT, open_select),
        stage(&kinds::MATCH, matching::open),
    ]
}

fn clip(item: &Item) -> ClipProperties<'_> {
    ClipProperties {
        speaker: item.fields.text("speaker"),
        seconds: item.fields.number("seconds"),
        text: item.fields.text("text"),
        snr: item.fields.number("snr"),
    }
}

fn report(speakers: &[SpeakerStats]) -> Result<(String, NewValue), StageError> {
    Ok(("report".to_owned(), NewValue::bytes(JSON, to_json(&speakers)?)))
}

struct StatsStage;

fn open_stats(_: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Gather(Box::new(StatsStage)))
}

impl GatherJob for StatsStage {
    fn sum(&self, items: &[Item]) -> Option<Bytes> {
        postcard::to_stdvec(&stats::SpeakerTotals::of(items.iter().map(clip))).ok().map(Bytes::from)
    }

    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let mut all = stats::SpeakerTotals::default();
        for sum in input.sums("input", self)? {
            all.merge(postcard::from_bytes(&sum).map_err(|error| {
                StageError::failed(format!("the totals of some clips cannot be read: {error}"))
            })?);
        }
        let speakers = all.into_speakers();
        let number = ("speakers".to_owned(), NewValue::Number(speakers.len() as f64));
        let artifact = PortOutput::Artifact(vec![report(&speakers)?, number]);
        Ok(GatherOutput::default().with("output", artifact))
    }
}

/// Clips without a speaker.
fn nameless(items: &[Item]) -> Vec<(usize, Reject)> {
    let is_nameless = |item: &Item| item.fields.text("speaker").unwrap_or(UNNAMED) == UNNAMED;
    let reject = || Reject::new("no-speaker", "the clip does not name its speaker");
    let places = items.iter().enumerate().filter(|(_, item)| is_nameless(item));
    places.map(|(place, _)| (place, reject())).collect()
}

struct Select {
    by: By,
    top: usize,
}

fn open_select(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let by = match setup.parameters.text("by")? {
        "clips" => By::Clips,
        "minutes" => By::Minutes,
        other => return Err(unknown_choice("by", other)),
    };
    let top = usize::try_from(setup.parameters.integer("top")?).unwrap_or(usize::MAX);
    Ok(Job::Gather(Box::new(Select { by, top })))
}

impl GatherJob for Select {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        let speakers = stats::SpeakerTotals::of(items.iter().map(clip)).into_speakers();
        let names = select(&speakers, self.by, self.top)
            .map_err(|error| StageError::failed(error.to_string()))?;
        context.set_aside("input", nameless(items))?;
        let is_selected = |speaker: &str| names.iter().any(|name| name == speaker);
        let kept = items
            .iter()
            .filter(|item| item.fields.text("speaker").is_some_and(is_selected))
            .map(NewItem::kept)
            .collect();
        let mut chosen: Vec<SpeakerStats> =
            speakers.into_iter().filter(|speaker| is_selected(&speaker.speaker)).collect();
        chosen.sort_by_key(|speaker| names.iter().position(|name| *name == speaker.speaker));
        let listed = ("names".to_owned(), NewValue::Text(names.join("\n")));
        Ok(GatherOutput::default()
            .with("output", PortOutput::Dataset(kept))
            .with("speakers", PortOutput::Artifact(vec![listed, report(&chosen)?])))
    }
}
