//! The data set: the known facts about the user's recordings.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::pipeline::{StageId, StageSpec};
use engine::store::ReadError;
use stage_core::{Blob, FieldType, Fields, Work};

use super::audio::{AudioLookup, PageAudio};
use super::run_data::{AUDIO, RunData};

/// The recordings of one source.
pub struct Corpus {
    /// The stage that read them.
    pub source: String,
    pub clips: Vec<Clip>,
}

/// One recording, with the results of the stages.
#[derive(Clone, Debug, Default)]
pub struct Clip {
    pub id: Arc<str>,
    pub text: Option<Arc<str>>,
    pub speaker: Option<Arc<str>>,
    pub(super) measures: BTreeMap<&'static str, f64>,
    pub(super) audio: Option<Arc<Blob>>,
}

/// A numeric measure of a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClipMeasure {
    Seconds,
    Characters,
    /// Characters per second.
    Pace,
    Snr,
    Loudness,
    Bandwidth,
}

impl ClipMeasure {
    pub const ALL: [ClipMeasure; 6] = [
        ClipMeasure::Seconds,
        ClipMeasure::Characters,
        ClipMeasure::Pace,
        ClipMeasure::Snr,
        ClipMeasure::Loudness,
        ClipMeasure::Bandwidth,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ClipMeasure::Seconds => "Duration",
            ClipMeasure::Characters => "Length of the text",
            ClipMeasure::Pace => "Speaking rate",
            ClipMeasure::Snr => "Signal to noise",
            ClipMeasure::Loudness => "Loudness (RMS)",
            ClipMeasure::Bandwidth => "Bandwidth",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            ClipMeasure::Seconds => "s",
            ClipMeasure::Characters => "characters",
            ClipMeasure::Pace => "characters/s",
            ClipMeasure::Snr => "dB",
            ClipMeasure::Loudness => "dBFS",
            ClipMeasure::Bandwidth => "Hz",
        }
    }

    /// Names for the clips at both ends of the measure.
    pub fn ends(self) -> Option<(&'static str, &'static str)> {
        match self {
            ClipMeasure::Seconds => Some(("shortest", "longest")),
            ClipMeasure::Characters | ClipMeasure::Bandwidth => None,
            ClipMeasure::Pace => Some(("slowest", "fastest")),
            ClipMeasure::Snr => Some(("noisiest", "cleanest")),
            ClipMeasure::Loudness => Some(("quietest", "loudest")),
        }
    }
}

/// The fields that measures are read from, as written by `audio.check` and similar stages.
const READ: [&str; 4] = ["seconds", "snr", "rms_dbfs", "bandwidth_hz"];

/// The sound of a telephone, in hertz, with a margin for the measurement.
const TELEPHONE_BANDWIDTH_HZ: f64 = 4_200.0;

impl Clip {
    pub fn measure(&self, measure: ClipMeasure) -> Option<f64> {
        let field = |name| self.measures.get(name).copied();
        match measure {
            ClipMeasure::Seconds => field("seconds"),
            ClipMeasure::Snr => field("snr"),
            ClipMeasure::Loudness => field("rms_dbfs"),
            // `audio.check` writes 0 for clips that are too short or too silent to measure.
            ClipMeasure::Bandwidth => field("bandwidth_hz").filter(|hertz| *hertz > 0.0),
            ClipMeasure::Characters => self.text.as_ref().map(|text| text.chars().count() as f64),
            ClipMeasure::Pace => {
                let seconds = field("seconds").filter(|seconds| *seconds > 0.0)?;
                Some(self.measure(ClipMeasure::Characters)? / seconds)
            }
        }
    }

    /// Adds the fields of a later stage.
    fn learn(&mut self, fields: &Fields) {
        for name in READ {
            if let Some(number) = fields.number(name).filter(|number| number.is_finite()) {
                self.measures.insert(name, number);
            }
        }
        let text = |name| fields.text(name).map(Arc::from);
        self.text = text("text").or(self.text.take());
        self.speaker = text("speaker").or(self.speaker.take());
        self.audio = fields.blob(AUDIO).cloned().or(self.audio.take());
    }
}

/// The corpora of a pipeline, in the order of their sources.
pub fn corpora(seen: &RunData) -> Result<Vec<Corpus>, ReadError> {
    let mut found: BTreeMap<StageId, BTreeMap<Arc<str>, Clip>> = BTreeMap::new();
    for spec in seen.pipeline.stages.iter().filter(|spec| tells(spec)) {
        let Some(source) = recorded_by(seen, spec) else { continue };
        let port = spec.kind.outputs.first().map_or("", |port| port.name);
        found.entry(source).or_default();
        for item in seen.items(spec.id, port)? {
            let known = found.entry(owner(&found, source, &item.id)).or_default();
            let known = known.entry(item.id.clone());
            known.or_insert_with(|| Clip { id: item.id, ..Clip::default() }).learn(&item.fields);
        }
    }
    let corpus = |(source, clips): (StageId, BTreeMap<Arc<str>, Clip>)| Corpus {
        source: seen.pipeline.stage(source).name.clone(),
        clips: clips.into_values().filter(|clip| clip.audio.is_some()).collect(),
    };
    Ok(found.into_iter().map(corpus).filter(|corpus| !corpus.clips.is_empty()).collect())
}

/// The source of a clip at a stage that carries on another one, whose clips may have been merged with those of others.
fn owner(
    found: &BTreeMap<StageId, BTreeMap<Arc<str>, Clip>>,
    source: StageId,
    id: &Arc<str>,
) -> StageId {
    let is_own = found.get(&source).is_some_and(|clips| clips.contains_key(id));
    let other = || found.iter().find(|(_, clips)| clips.contains_key(id)).map(|(other, _)| *other);
    if is_own { source } else { other().unwrap_or(source) }
}

/// Tests if the stage adds information about clips that its upstream stages did not have.
fn tells(spec: &StageSpec) -> bool {
    let writes = spec.kind.outputs.first().map_or(&[][..], |port| port.writes);
    let is_told = |(name, field): &(&str, FieldType)| match field {
        FieldType::Number => READ.contains(name),
        FieldType::Text => matches!(*name, "text" | "speaker"),
        _ => *name == AUDIO,
    };
    spec.kind.work == Work::Source || writes.iter().any(is_told)
}

/// The source of the recordings that a stage passes on; `None` if a model made them.
fn recorded_by(seen: &RunData, spec: &StageSpec) -> Option<StageId> {
    if seen.speaks(spec) {
        return None;
    }
    match seen.carries_on(spec) {
        Some((above, _)) => recorded_by(seen, seen.pipeline.stage(above)),
        None => (spec.kind.work == Work::Source).then_some(spec.id),
    }
}

/// The statistics of a measure over a corpus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub clips: usize,
    pub least: f64,
    pub tenth: f64,
    pub median: f64,
    pub ninetieth: f64,
    pub most: f64,
    pub total: f64,
}

impl Corpus {
    /// The values of the clips that have one.
    pub fn values(&self, measure: ClipMeasure) -> Vec<f64> {
        self.clips.iter().filter_map(|clip| clip.measure(measure)).collect()
    }

    pub fn spread(&self, measure: ClipMeasure) -> Option<Spread> {
        let mut values = self.values(measure);
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let share = |share: f64| values[(last as f64 * share).round() as usize];
        Some(Spread {
            clips: values.len(),
            least: values[0],
            tenth: share(0.1),
            median: share(0.5),
            ninetieth: share(0.9),
            most: values[last],
            total: values.iter().sum(),
        })
    }

    /// The median bandwidth, if it is that of a telephone.
    pub fn telephone(&self) -> Option<f64> {
        let median = self.spread(ClipMeasure::Bandwidth)?.median;
        (median < TELEPHONE_BANDWIDTH_HZ).then_some(median)
    }

    /// Clips and seconds of each speaker, the largest first. Clips without a speaker are missing.
    pub fn speakers(&self) -> Vec<(Arc<str>, u64, f64)> {
        let mut speakers: BTreeMap<Arc<str>, (u64, f64)> = BTreeMap::new();
        for clip in &self.clips {
            let Some(speaker) = &clip.speaker else { continue };
            let sums = speakers.entry(speaker.clone()).or_default();
            sums.0 += 1;
            sums.1 += clip.measure(ClipMeasure::Seconds).unwrap_or(0.0);
        }
        let mut speakers: Vec<_> =
            speakers.into_iter().map(|(name, (clips, seconds))| (name, clips, seconds)).collect();
        speakers.sort_by(|a, b| b.2.total_cmp(&a.2).then(b.1.cmp(&a.1)));
        speakers
    }

    /// The positions of the clips at the ends of each measure, with all reasons.
    pub fn odd(&self, at_each_end: usize) -> Vec<(usize, Vec<&'static str>)> {
        let mut odd: Vec<(usize, Vec<&'static str>)> = Vec::new();
        let mut add = |why, at| match odd.iter_mut().find(|(own, _)| *own == at) {
            Some((_, all)) => all.push(why),
            None => odd.push((at, vec![why])),
        };
        for measure in ClipMeasure::ALL {
            let Some((low, high)) = measure.ends() else { continue };
            let clips = self.clips.iter().enumerate();
            let mut clips: Vec<(f64, usize)> =
                clips.filter_map(|(at, clip)| Some((clip.measure(measure)?, at))).collect();
            // With fewer clips, every one would be at an end.
            if clips.len() < 4 * at_each_end {
                continue;
            }
            clips.sort_by(|a, b| a.0.total_cmp(&b.0));
            clips.iter().take(at_each_end).for_each(|(_, at)| add(low, *at));
            clips.iter().rev().take(at_each_end).for_each(|(_, at)| add(high, *at));
        }
        odd
    }
}

impl Clip {
    pub fn hear(&self, page_audio: &mut PageAudio) -> Option<AudioLookup> {
        self.audio.as_ref().map(|blob| page_audio.hear(blob))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn clip(id: usize, seconds: f64, speaker: &str) -> Clip {
        Clip {
            id: format!("{id:02}").into(),
            text: Some("äiti".into()),
            speaker: Some(speaker.into()),
            measures: [("seconds", seconds)].into(),
            audio: None,
        }
    }

    fn corpus() -> Corpus {
        let clips = (1..=20).map(|at| clip(at, at as f64, if at > 15 { "b" } else { "a" }));
        Corpus { source: "clips".into(), clips: clips.collect() }
    }

    #[test]
    fn a_measure_comes_to_its_ranks_and_total() {
        let spread = corpus().spread(ClipMeasure::Seconds).unwrap();
        let expected = Spread {
            clips: 20,
            least: 1.0,
            tenth: 3.0,
            median: 11.0,
            ninetieth: 18.0,
            most: 20.0,
            total: 210.0,
        };
        assert_eq!(spread, expected);
        assert_eq!(corpus().spread(ClipMeasure::Snr), None);
        assert_eq!(clip(1, 2.0, "a").measure(ClipMeasure::Pace), Some(2.0));
        assert_eq!(clip(1, 0.0, "a").measure(ClipMeasure::Pace), None);
    }

    #[test]
    fn clips_from_a_telephone_are_known_by_their_median() {
        let of = |hertz: [f64; 3]| {
            let clips = hertz.map(|hertz| Clip {
                measures: [("bandwidth_hz", hertz)].into(),
                ..Clip::default()
            });
            Corpus { source: "clips".into(), clips: clips.into() }.telephone()
        };
        assert_eq!(of([3_906.0, 3_400.0, 11_025.0]), Some(3_906.0));
        assert_eq!(of([3_906.0, 8_000.0, 11_025.0]), None);
        assert_eq!(of([0.0, 0.0, 0.0]), None, "nothing was measured");
    }

    #[test]
    fn speakers_come_by_their_time() {
        let speakers = corpus().speakers();
        assert_eq!(speakers, [("a".into(), 15, 120.0), ("b".into(), 5, 90.0)]);
    }

    #[test]
    fn the_ends_are_named_unless_there_are_few_clips_and_each_clip_once() {
        let corpus = corpus();
        let odd = corpus.odd(2);
        // All have the same text, so that the longest are the slowest.
        let expected = [
            (0, vec!["shortest", "fastest"]),
            (1, vec!["shortest", "fastest"]),
            (19, vec!["longest", "slowest"]),
            (18, vec!["longest", "slowest"]),
        ];
        assert_eq!(odd, expected);
        assert!(corpus.odd(6).is_empty());
    }
}
