//! `speaker.match`: the voice of each clip.

use std::sync::Mutex;

use serde::Serialize;
use stage_core::{
    Blob, Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, PortOutput,
    Reject, Setup, StageError,
};

use super::embedding;
use super::group::groups;
use super::voice::{Direction, Voice, direction, nearest, voices};
use crate::numbers::{mean, quantile, rounded};
use crate::plain::{JSON, to_json};

/// More clips than this are not grouped: the time grows with the square of their number.
const MOST: usize = 20_000;
/// The voice of reference clips that name no speaker.
const UNNAMED: &str = "reference";

struct Match {
    min_cosine: f64,
    halves: f64,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Gather(Box::new(Match {
        min_cosine: setup.parameters.number("min_cosine")?,
        halves: setup.parameters.number("halves")?,
    })))
}

/// A clip with its voice.
struct MatchedClip {
    place: usize,
    voice: String,
    cosine: f64,
}

/// The report on one voice. Numbers are rounded.
#[derive(Serialize)]
struct VoiceReport {
    speaker: String,
    clips: usize,
    lowest_cosine: Option<f64>,
    mean_cosine: Option<f64>,
    median_cosine: Option<f64>,
    nearest: Option<Neighbour>,
}

#[derive(Serialize)]
struct Neighbour {
    speaker: String,
    cosine: f64,
}

impl GatherJob for Match {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        let mut rejects: Vec<(usize, Reject)> = Vec::new();
        let mut clips: Vec<(usize, Direction)> = Vec::new();
        for (place, read) in directions(items, context)?.into_iter().enumerate() {
            match read.and_then(|clip| self.check_halves(&items[place]).map(|()| clip)) {
                Ok(clip) => clips.push((place, clip)),
                Err(reject) => rejects.push((place, reject)),
            }
        }
        let numbers = clips.first().map_or(0, |(_, clip)| clip.len());
        let known = if input.ports.contains_key("reference") {
            Some(known_voices(input.items("reference")?, context)?)
        } else {
            None
        };
        let expected = known.as_ref().and_then(|known| known.first());
        let expected = expected.map_or(numbers, |voice| voice.direction.len());
        let (fitting, others): (Vec<_>, Vec<_>) =
            clips.into_iter().partition(|(_, clip)| clip.len() == expected);
        rejects.extend(others.into_iter().map(|(place, clip)| {
            let reason = format!("its embedding has {} numbers instead of {expected}", clip.len());
            (place, Reject::new("other-embedding", reason))
        }));
        let (known, found) = match known {
            Some(known) => {
                let (found, far) = self.named(&fitting, &known);
                rejects.extend(far);
                (known, found)
            }
            None => self.grouped(&fitting, context)?,
        };
        rejects.sort_by_key(|(place, _)| *place);
        context.set_aside("input", rejects)?;
        let report = NewValue::bytes(JSON, to_json(&report(&known, &found))?);
        Ok(GatherOutput::default()
            .with("output", PortOutput::Dataset(kept(items, found)))
            .with("voices", PortOutput::Artifact(vec![("report".to_owned(), report)])))
    }
}

impl Match {
    fn check_halves(&self, item: &Item) -> Result<(), Reject> {
        match item.fields.number("halves") {
            Some(halves) if halves < self.halves || halves.is_nan() => {
                let reason =
                    format!("the cosine between its halves is {halves:.2}, below {}", self.halves);
                Err(Reject::new("two-voices", reason))
            }
            _ => Ok(()),
        }
    }

    /// The nearest voice of each clip, and the clips that are near none.
    fn named(
        &self,
        clips: &[(usize, Direction)],
        known: &[Voice],
    ) -> (Vec<MatchedClip>, Vec<(usize, Reject)>) {
        let (mut found, mut far) = (Vec::new(), Vec::new());
        for (place, clip) in clips {
            match nearest(known, clip) {
                Some((voice, cosine)) if cosine >= self.min_cosine => {
                    found.push(MatchedClip { place: *place, voice: voice.name.clone(), cosine });
                }
                Some((voice, cosine)) => {
                    let reason = format!(
                        "the nearest voice is `{}` with a cosine of {cosine:.2}, below {}",
                        voice.name, self.min_cosine
                    );
                    far.push((*place, Reject::new("other-speaker", reason)));
                }
                None => {
                    far.push((*place, Reject::new("other-speaker", "`reference` has no voices")))
                }
            }
        }
        (found, far)
    }

    fn grouped(
        &self,
        clips: &[(usize, Direction)],
        context: &mut dyn Context,
    ) -> Result<(Vec<Voice>, Vec<MatchedClip>), StageError> {
        if clips.len() > MOST {
            return Err(StageError::failed(format!(
                "{} clips are more than the {MOST} that can be grouped by voice: set `reference` \
                 to a few clips of each voice",
                clips.len()
            )));
        }
        let all = clips.len() as u64;
        let directions: Vec<&Direction> = clips.iter().map(|(_, clip)| clip).collect();
        let stops = |done: usize| {
            context.progress(done as u64, all);
            context.stopping()
        };
        let groups = groups(&directions, self.min_cosine, stops).ok_or(StageError::Stopped)?;
        let name = |at: usize| format!("voice-{}", at + 1);
        let members = groups
            .iter()
            .enumerate()
            .flat_map(|(at, group)| group.iter().map(move |member| (*member, name(at))));
        let members: Vec<(usize, String)> = members.collect();
        let named = members.iter().map(|(member, name)| (name.as_str(), directions[*member]));
        let known = voices(named);
        let found = members.into_iter().map(|(member, name)| {
            let own = known.iter().filter(|voice| voice.name == name);
            let cosine = nearest(own, directions[member]).map_or(0.0, |(_, cosine)| cosine);
            MatchedClip { place: clips[member].0, voice: name, cosine }
        });
        let found = found.collect();
        Ok((known, found))
    }
}

/// The direction of each item.
fn directions(
    items: &[Item],
    context: &mut dyn Context,
) -> Result<Vec<Result<Direction, Reject>>, StageError> {
    let places: Vec<usize> =
        (0..items.len()).filter(|at| items[*at].fields.blob("embedding").is_some()).collect();
    let blobs: Vec<&Blob> = places
        .iter()
        .filter_map(|at| items[*at].fields.blob("embedding").map(|blob| &**blob))
        .collect();
    let missing = || {
        let reason = "it has no field `embedding`: read items of `speaker.embed`";
        Err(Reject::new("no-embedding", reason))
    };
    let read = Mutex::new(items.iter().map(|_| missing()).collect::<Vec<_>>());
    context.read_each(&blobs, &|at, bytes| {
        let damaged =
            |reason: String| Reject::new("damaged-embedding", format!("its embedding {reason}"));
        let found = embedding(&bytes).map_err(damaged).and_then(|numbers| {
            direction(&numbers).ok_or_else(|| damaged("is all zeros or not finite".to_owned()))
        });
        let mut read = read.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        read[places[at]] = found;
        Ok(())
    })?;
    Ok(read.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn known_voices(items: &[Item], context: &mut dyn Context) -> Result<Vec<Voice>, StageError> {
    let mut clips: Vec<(&str, Direction)> = Vec::new();
    for (item, direction) in items.iter().zip(directions(items, context)?) {
        let failed = |reject: Reject| {
            StageError::failed(format!("a clip of `reference` cannot be used: {}", reject.reason))
        };
        clips.push((item.fields.text("speaker").unwrap_or(UNNAMED), direction.map_err(failed)?));
    }
    let numbers = clips.first().map_or(0, |(_, clip)| clip.len());
    if let Some((speaker, clip)) = clips.iter().find(|(_, clip)| clip.len() != numbers) {
        return Err(StageError::failed(format!(
            "the embeddings of `reference` have {numbers} and {} numbers (`{speaker}`): compute \
             all of them with one model",
            clip.len()
        )));
    }
    // Sums do not depend on the order of the items.
    clips.sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| compare(a, b)));
    let voices = voices(clips.iter().map(|(name, clip)| (*name, clip)));
    if voices.is_empty() {
        Err(StageError::failed("`reference` has no clip with a speaker"))
    } else {
        Ok(voices)
    }
}

fn compare(one: &[f64], other: &[f64]) -> std::cmp::Ordering {
    let pairs = one.iter().zip(other).map(|(one, other)| one.total_cmp(other));
    pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
}

fn kept(items: &[Item], mut found: Vec<MatchedClip>) -> Vec<NewItem> {
    found.sort_by_key(|found| found.place);
    let keep = |found: MatchedClip| {
        NewItem::kept(&items[found.place])
            .with("speaker", NewValue::Text(found.voice))
            .with("speaker_cosine", NewValue::Number(rounded(found.cosine)))
    };
    found.into_iter().map(keep).collect()
}

fn report(known: &[Voice], found: &[MatchedClip]) -> Vec<VoiceReport> {
    let line = |voice: &Voice| {
        let own = found.iter().filter(|found| found.voice == voice.name);
        let mut cosines: Vec<f64> = own.map(|found| found.cosine).collect();
        let others = known.iter().filter(|other| other.name != voice.name);
        let nearest = nearest(others, &voice.direction).map(|(other, cosine)| Neighbour {
            speaker: other.name.clone(),
            cosine: rounded(cosine),
        });
        VoiceReport {
            speaker: voice.name.clone(),
            clips: cosines.len(),
            lowest_cosine: quantile(&mut cosines, 0.0).map(rounded),
            mean_cosine: mean(&mut cosines).map(rounded),
            median_cosine: quantile(&mut cosines, 0.5).map(rounded),
            nearest,
        }
    };
    let mut lines: Vec<VoiceReport> = known.iter().map(line).collect();
    lines.sort_by(|one, other| {
        other.clips.cmp(&one.clips).then_with(|| one.speaker.cmp(&other.speaker))
    });
    lines
}
