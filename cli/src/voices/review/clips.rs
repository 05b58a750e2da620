//! The clips of a stage, with the verdicts of later stages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cache::Cache;
use engine::pipeline::{ITEMS, Pipeline, Reference, StageId, StageSpec};
use engine::plan::Plan;
use engine::record::{PortValue, StageRecord};
use engine::store::Store;
use stage_core::{Blob, Item, Reject, Value};
use stage_speech::corpus::corrections::{CORRECTED, name};

use super::outlier::{MEASURES, OutlierScore, outlier_scores};
use crate::error::CliError;
use crate::inspect::items;
use crate::inspect::plan::make;
use crate::project::{Program, Project};

/// A clip as the stage gave it.
#[derive(Clone, Debug)]
pub struct Clip {
    pub id: Arc<str>,
    /// The name of its sound.
    pub name: String,
    pub audio: Arc<Blob>,
    pub recording: Option<Arc<str>>,
    /// In the recording, in seconds.
    pub start: f64,
    pub seconds: f64,
    pub text: String,
    /// The text at the stage that applies corrections, unless that has corrected it already.
    pub of_source: Option<String>,
    pub words: Option<Arc<Blob>>,
    measures: BTreeMap<&'static str, f64>,
    /// The stage that quarantined it, and the reason.
    pub verdict: Option<String>,
    pub doubt: OutlierScore,
}

impl Clip {
    fn of(item: &Item) -> Option<Clip> {
        let number = |name: &str| item.fields.number(name).filter(|number| number.is_finite());
        let audio = item.fields.blob("audio")?.clone();
        let recording = match item.fields.get("recording") {
            Some(Value::Text(recording)) if number("start").is_some() => Some(recording.clone()),
            _ => None,
        };
        Some(Clip {
            id: item.id.clone(),
            name: name(&audio.digest),
            audio,
            recording,
            start: number("start").unwrap_or(0.0),
            seconds: number("seconds").unwrap_or(0.0),
            text: item.fields.text("text").unwrap_or_default().to_owned(),
            of_source: None,
            words: item.fields.blob("words").cloned(),
            measures: measures(item).collect(),
            verdict: None,
            doubt: OutlierScore::default(),
        })
    }

    pub fn measure(&self, field: &str) -> Option<f64> {
        self.measures.get(field).copied()
    }

    /// The id of a part of this clip with this name, as lines of the table have it.
    pub fn id_of(&self, part: &str) -> String {
        match self.id.rsplit_once('/') {
            Some((above, last)) if last.starts_with(&self.name) => format!("{above}/{part}"),
            _ => format!("{}/{part}", self.id),
        }
    }

    #[cfg(test)]
    pub fn for_tests(recording: &str, start: f64, measures: BTreeMap<&'static str, f64>) -> Clip {
        let audio = Blob { digest: cache::Digest::of(b""), size: 0, kind: "audio/wav".into() };
        Clip {
            id: format!("{recording}/{start}").into(),
            name: String::new(),
            audio: Arc::new(audio),
            recording: Some(recording.into()),
            start,
            seconds: 1.0,
            text: String::new(),
            of_source: None,
            words: None,
            measures,
            verdict: None,
            doubt: OutlierScore::default(),
        }
    }
}

/// The name of a segment, and its text unless a person has corrected it.
fn named_text(item: &Item) -> Option<(String, Option<String>)> {
    let name = Clip::of(item)?.name;
    let is_corrected = item.fields.get(CORRECTED).is_some();
    let text = item.fields.text("text").filter(|_| !is_corrected);
    Some((name, text.map(str::to_owned)))
}

fn measures(item: &Item) -> impl Iterator<Item = (&'static str, f64)> {
    MEASURES.iter().filter_map(|measure| {
        let value = item.fields.number(measure.field).filter(|value| value.is_finite())?;
        Some((measure.field, value))
    })
}

/// The stage that applies corrections: the nearest one before the stage, or else the only one.
pub fn corrections<'p>(project: &'p Project, spec: &StageSpec) -> Result<&'p StageSpec, CliError> {
    let stages = &project.pipeline.stages;
    let is_one = |stage: &StageSpec| stage.kind.applies_corrections;
    let (mut rest, mut seen) = (vec![spec.id], BTreeSet::new());
    while !rest.is_empty() {
        let found = rest.iter().map(|id| project.pipeline.stage(*id)).find(|stage| is_one(stage));
        if let Some(found) = found {
            return Ok(found);
        }
        let above: Vec<StageId> =
            rest.iter().flat_map(|id| project.pipeline.stage(*id).upstream()).collect();
        rest = above.into_iter().filter(|id| seen.insert(*id)).collect();
    }
    let all: Vec<&StageSpec> = stages.iter().filter(|stage| is_one(stage)).collect();
    match all[..] {
        [only] => Ok(only),
        _ => Err(CliError::usage(
            format!("no stage upstream of `{}` applies corrections", spec.name),
            advice(&project.pipeline, spec),
        )),
    }
}

/// The stage to add: after the one that cuts recordings, or else after the source of the clips.
fn advice(pipeline: &Pipeline, spec: &StageSpec) -> String {
    let above = |spec: &StageSpec| match spec.inputs.get(ITEMS)?.references.first()? {
        Reference::Stage { stage, .. } => Some(pipeline.stage(*stage)),
        Reference::Asset(_) => None,
    };
    let mut source = spec;
    while source.kind.expands.is_none()
        && let Some(next) = above(source)
    {
        source = next;
    }
    let drops = match source.kind.expands {
        Some(_) => ", `drops = \"mark\"`",
        None => "",
    };
    format!(
        "add `[stage.corrected]` with `use = \"corpus.corrections\"`, `input = \"{name}\"`, `table = \
         \"corrections.csv\"`{drops}, and let the stages that read `{name}` read `corrected`; the review \
         writes the table",
        name = source.name
    )
}

/// The clips of a stage, the most doubtful first, with those that it quarantined, and the number of
/// those that were left out since their sound is not that of segments.
pub fn clips(
    program: &Program,
    project: &Project,
    cache: &Cache,
    store: &Store,
    (spec, port): (&StageSpec, &str),
) -> Result<(Vec<Clip>, usize), CliError> {
    let record = items::outcome(program, project, cache, spec)?;
    let mut clips: Vec<Clip> = rows(store, &record, port)?.iter().filter_map(Clip::of).collect();
    let behind = behind(project, spec.id);
    let corrections = corrections(project, spec)?;
    let wanted = behind.iter().copied().chain([corrections.id]).chain(spec.upstream());
    let wanted: Vec<StageId> = wanted.collect::<BTreeSet<_>>().into_iter().collect();
    let engine = program.engine_for(project, cache, None, false)?;
    let plan = make(program, &engine, project, cache, &wanted)?;
    let all = clips.len();
    let segments: Option<BTreeMap<String, Option<String>>> =
        match last(project, cache, &plan, corrections)? {
            Some(record) => {
                let segments = rows(store, &record, "output")?;
                Some(segments.iter().filter_map(named_text).collect())
            }
            None => None,
        };
    let is_segment =
        |clip: &Clip| segments.as_ref().is_none_or(|names| names.contains_key(&clip.name));
    clips.retain(is_segment);
    for clip in &mut clips {
        let of_source = segments.as_ref().and_then(|texts| texts.get(&clip.name));
        clip.of_source = of_source.cloned().flatten();
    }
    if clips.is_empty() && all > 0 {
        let (own, other) = (&spec.name, &corrections.name);
        let near = nearest(project, cache, &plan, store, spec, &is_segment)?;
        return Err(CliError::usage(
            format!("`{own}` has other files of sound than `{other}`"),
            format!("review `{near}`, whose files are those of `{other}`"),
        ));
    }
    let left_out = all - clips.len();
    let arriving = arriving(project, cache, &plan, store, spec)?;
    clips.extend(quarantined(spec, &record, arriving.iter().filter(|clip| is_segment(clip))));
    for id in behind {
        let stage = project.pipeline.stage(id);
        if let Some(record) = last(project, cache, &plan, stage)? {
            judge(&mut clips, stage, &record, store)?;
        }
    }
    let doubts = outlier_scores(&clips);
    clips.iter_mut().zip(doubts).for_each(|(clip, doubt)| clip.doubt = doubt);
    clips.sort_by(|one, other| {
        let is_good = |clip: &Clip| clip.verdict.is_none();
        let by_doubt = other.doubt.score.total_cmp(&one.doubt.score);
        is_good(one).cmp(&is_good(other)).then(by_doubt).then_with(|| one.id.cmp(&other.id))
    });
    Ok((clips, left_out))
}

/// The nearest stage above whose clips have the files that corrections belong to: at the latest the stage that
/// applies them.
fn nearest<'p>(
    project: &'p Project,
    cache: &Cache,
    plan: &Plan,
    store: &Store,
    spec: &'p StageSpec,
    is_segment: &impl Fn(&Clip) -> bool,
) -> Result<&'p str, CliError> {
    let mut stages: Vec<&StageSpec> = vec![spec];
    let mut at = 0;
    while let Some(stage) = stages.get(at).copied() {
        at += 1;
        let above = stage.upstream().map(|id| project.pipeline.stage(id));
        let new: Vec<&StageSpec> =
            above.filter(|above| !stages.iter().any(|known| known.id == above.id)).collect();
        for above in new {
            let Some(record) = last(project, cache, plan, above)? else { continue };
            for port in record.outputs.keys() {
                if rows(store, &record, port)?.iter().filter_map(Clip::of).any(|it| is_segment(&it))
                {
                    return Ok(&above.name);
                }
            }
            stages.push(above);
        }
    }
    Ok(&spec.name)
}

/// The clips that arrive at a stage, once for each of its inputs.
fn arriving(
    project: &Project,
    cache: &Cache,
    plan: &Plan,
    store: &Store,
    spec: &StageSpec,
) -> Result<Vec<Clip>, CliError> {
    let mut clips = Vec::new();
    for id in spec.upstream() {
        let Some(record) = last(project, cache, plan, project.pipeline.stage(id))? else {
            continue;
        };
        for port in record.outputs.keys() {
            clips.extend(rows(store, &record, port)?.iter().filter_map(Clip::of));
        }
    }
    Ok(clips)
}

/// The clips that a stage quarantines, as they arrive there.
fn quarantined<'c>(
    stage: &StageSpec,
    record: &StageRecord,
    arriving: impl Iterator<Item = &'c Clip>,
) -> Vec<Clip> {
    let mut rejects: HashMap<&str, &Reject> =
        record.rejects.iter().map(|(id, reject)| (&**id, reject)).collect();
    let with_verdict = |clip: &Clip| {
        let reject = rejects.remove(&*clip.id)?;
        Some(Clip { verdict: Some(verdict(stage, reject)), ..clip.clone() })
    };
    arriving.filter_map(with_verdict).collect()
}

fn verdict(stage: &StageSpec, reject: &Reject) -> String {
    format!("{}: {}", stage.name, reject.reason)
}

/// Adds what a later stage says of clips: measures, and reasons to quarantine them.
fn judge(
    clips: &mut [Clip],
    stage: &StageSpec,
    record: &StageRecord,
    store: &Store,
) -> Result<(), CliError> {
    let places: HashMap<Arc<str>, usize> =
        clips.iter().enumerate().map(|(at, clip)| (clip.id.clone(), at)).collect();
    for (id, reject) in &record.rejects {
        if let Some(at) = places.get(id) {
            clips[*at].verdict.get_or_insert_with(|| verdict(stage, reject));
        }
    }
    let Some(port) = stage.kind.outputs.first() else { return Ok(()) };
    let is_measure = |name: &str| MEASURES.iter().any(|own| own.field == name);
    if port.writes.iter().any(|(name, _)| is_measure(name)) {
        for item in rows(store, record, port.name)? {
            if let Some(at) = places.get(&item.id) {
                clips[*at].measures.extend(measures(&item));
            }
        }
    }
    Ok(())
}

/// The stages that read from a stage, directly or through others.
fn behind(project: &Project, stage: StageId) -> BTreeSet<StageId> {
    let mut found = BTreeSet::from([stage]);
    // A stage comes after those that it reads.
    for spec in &project.pipeline.stages {
        if spec.upstream().any(|above| found.contains(&above)) {
            found.insert(spec.id);
        }
    }
    found.remove(&stage);
    found
}

/// The outcome of a stage, now or of its last run.
fn last(
    project: &Project,
    cache: &Cache,
    plan: &Plan,
    spec: &StageSpec,
) -> Result<Option<StageRecord>, CliError> {
    if let Some(record) = items::present(cache, plan.stage(spec.id))? {
        return Ok(Some(record));
    }
    Ok(items::earlier(project, cache, spec)?.map(|(_, record)| record))
}

fn rows(store: &Store, record: &StageRecord, port: &str) -> Result<Vec<Item>, CliError> {
    match record.outputs.get(port) {
        Some(PortValue::Dataset { root, .. }) => Ok(store.items(root)?),
        _ => Ok(Vec::new()),
    }
}
