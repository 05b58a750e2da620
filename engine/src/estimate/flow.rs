//! The flow of items and sound through a pipeline: from the data if it exists, else from
//! expectations.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use cache::stat::StatIndex;
use cache::{Cache, Digest};
use camino::Utf8Path;
use stage_core::Blob;
use stage_core::key::StageKey;
use stage_core::{Bucket, Fields, Item, ParameterValue, PortType};

use super::assumptions::Assumptions;
use super::kept::kept_by_steps;
use crate::history;
use crate::pipeline::{ITEMS, Pipeline, Reference, StageId, StageSpec, StageWork};
use crate::plan::inputs::base_key;
use crate::plan::{PartialBucket, PartialDataset, PartialItem, Plan, PlannedValue};
use crate::record::{LastRecord, PortValue};
use crate::store::{ReadError, Store};

/// The number of buckets that are sampled from a data set, of 250 to 500 items each. Clips of one
/// corpus have similar lengths: a thousand predict the total within a few percent.
const READ: usize = 4;

/// The assumed number of clips if nothing is known about the recordings.
const CLIPS: f64 = 1000.0;
const CLIP_SECONDS: f64 = 6.0;
/// The assumed steps of a training that ends after epochs.
const STEPS: u64 = 1_000;
/// 16 bit mono of 44.1 kHz.
pub const WAV_BYTES_PER_SECOND: f64 = 88_200.0;
/// The same in a lossless container, and in a lossy one.
const LOSSLESS: f64 = 0.55;
const LOSSY: f64 = 0.2;
/// 21.5 frames of 10 codes of 2 bytes each.
const TOKEN_BYTES_PER_SECOND: f64 = 430.0;
/// The speed of speech.
const LETTERS_PER_SECOND: f64 = 14.0;
const TEXT_TOKENS_PER_SECOND: f64 = 5.5;
/// Frames of published codecs, and text tokens.
pub const TOKENS_PER_SECOND: f64 = 21.5 + TEXT_TOKENS_PER_SECOND;
/// The output port for the checkpoints of a training, and the input port that takes them.
const CHECKPOINTS: &str = "checkpoints";

/// The contents of a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    pub items: f64,
    /// Seconds of sound, or of speech if there is only text.
    pub seconds: f64,
    /// Rows of a text model, in tokens, without the tokens that every clip has.
    pub tokens: f64,
    /// True if neither data nor `[expect]` gives the numbers.
    pub is_guess: bool,
}

impl Flow {
    fn add(&mut self, fields: &Fields, packing: &Packing) {
        let seconds = seconds_of(fields, packing);
        self.items += 1.0;
        self.seconds += seconds;
        self.tokens += tokens_of(fields, seconds);
    }

    fn add_longer(&mut self, fields: &Fields, packing: &Packing, limit: LengthLimit) {
        if is_longer(fields, packing, limit) {
            self.add(fields, packing);
        }
    }

    fn add_all(&mut self, other: Flow) {
        self.items += other.items;
        self.seconds += other.seconds;
        self.tokens += other.tokens;
        self.is_guess |= other.is_guess;
    }

    pub fn mean_seconds(&self) -> f64 {
        if self.items > 0.0 { self.seconds / self.items } else { 0.0 }
    }

    pub fn mean_tokens(&self) -> f64 {
        if self.items > 0.0 { self.tokens / self.items } else { 0.0 }
    }

    /// The same items, in another number.
    pub fn of_items(self, items: f64) -> Flow {
        let (seconds, tokens) = (items * self.mean_seconds(), items * self.mean_tokens());
        Flow { items, seconds, tokens, ..self }
    }
}

/// The length above which an item is too long.
#[derive(Clone, Copy, Debug)]
pub enum LengthLimit {
    Seconds(f64),
    Tokens(f64),
}

pub struct Flows<'a> {
    pipeline: &'a Pipeline,
    plan: &'a Plan,
    pub store: Store,
    packing: Packing,
    known: RefCell<HashMap<(StageId, &'static str), Flow>>,
}

impl<'a> Flows<'a> {
    pub fn new(pipeline: &'a Pipeline, plan: &'a Plan, cache: &Cache) -> Flows<'a> {
        let store = Store::new(cache.clone(), &pipeline.base, Arc::new(StatIndex::default()));
        let packing = Packing::new(cache);
        Flows { pipeline, plan, store, packing, known: RefCell::default() }
    }

    /// The flow on an output port of a stage.
    pub fn of(&self, id: StageId, port: &'static str, assumed: &Assumptions) -> Flow {
        if let Some(flow) = self.known.borrow().get(&(id, port)) {
            return *flow;
        }
        // An input that cannot be read is reported when it is used.
        let flow = match self.plan.stage(id).known.outputs.get(port) {
            Some(PlannedValue::Root { root, .. }) => self.stored(root).ok(),
            Some(PlannedValue::Partial(partial)) => self.partial(id, partial, assumed).ok(),
            _ => None,
        };
        let flow = flow.unwrap_or_else(|| self.guessed(id, port, assumed));
        self.known.borrow_mut().insert((id, port), flow);
        flow
    }

    /// The data sets that arrive on one port.
    pub fn on_port(&self, spec: &StageSpec, port: &str, assumed: &Assumptions) -> Flow {
        let references = spec.inputs.get(port).into_iter().flat_map(|input| &input.references);
        let mut sum = Flow::default();
        for reference in references {
            if let Reference::Stage { stage, port } = reference
                && is_dataset(self.pipeline.stage(*stage), port)
            {
                sum.add_all(self.of(*stage, port, assumed));
            }
        }
        sum
    }

    /// The number of items on a port above the limit, if known.
    pub fn longer(&self, spec: &StageSpec, port: &str, limit: LengthLimit) -> Flow {
        let mut long = Flow::default();
        let references = spec.inputs.get(port).into_iter().flat_map(|input| &input.references);
        for reference in references {
            let Reference::Stage { stage, port } = reference else { continue };
            // Unreadable files are reported when they are used.
            let found = match self.plan.stage(*stage).known.outputs.get(port) {
                Some(PlannedValue::Root { root, .. }) => self.longer_stored(root, limit),
                Some(PlannedValue::Partial(partial)) => self.longer_known(partial, limit),
                _ => continue,
            };
            long.add_all(found.unwrap_or_default());
        }
        long
    }

    /// The items on a port, if all of them are known, and few enough to be looked at one by one.
    pub fn known_items(&self, spec: &StageSpec, port: &str) -> Option<Vec<Item>> {
        let references = spec.inputs.get(port).into_iter().flat_map(|input| &input.references);
        let mut items = Vec::new();
        for reference in references {
            let Reference::Stage { stage, port } = reference else { continue };
            let Some(PlannedValue::Root { root, .. }) =
                self.plan.stage(*stage).known.outputs.get(port)
            else {
                return None;
            };
            let buckets = self.store.dataset(root).ok()?.buckets;
            if buckets.len() > READ {
                return None;
            }
            for bucket in buckets {
                items.extend(self.store.chunk(&bucket.chunk).ok()?.items);
            }
        }
        Some(items)
    }

    pub fn is_longer(&self, item: &Item, limit: LengthLimit) -> bool {
        is_longer(&item.fields, &self.packing, limit)
    }

    fn longer_stored(&self, root: &Digest, limit: LengthLimit) -> Result<Flow, ReadError> {
        longer_of(&self.store, &self.packing, &self.store.dataset(root)?.buckets, limit)
    }

    fn longer_known(
        &self,
        partial: &PartialDataset,
        limit: LengthLimit,
    ) -> Result<Flow, ReadError> {
        let (mut closed, mut long) = (Vec::new(), Flow::default());
        for bucket in &partial.buckets {
            match bucket {
                PartialBucket::Closed(bucket) => closed.push(*bucket),
                PartialBucket::Open { items, .. } => items.iter().for_each(|item| match item {
                    PartialItem::Known(item) => {
                        long.add_longer(&item.fields, &self.packing, limit);
                    }
                    PartialItem::Pending(..) => {}
                }),
            }
        }
        long.add_all(longer_of(&self.store, &self.packing, &closed, limit)?);
        Ok(long)
    }

    /// The data sets on these ports, added up.
    pub fn arriving(&self, spec: &StageSpec, assumed: &Assumptions) -> Flow {
        let mut sum = Flow::default();
        spec.inputs.keys().for_each(|port| sum.add_all(self.on_port(spec, port, assumed)));
        sum
    }

    fn main_input(&self, spec: &StageSpec, assumed: &Assumptions) -> Option<Flow> {
        let references = &spec.inputs.get(ITEMS)?.references;
        let flow = |reference: &Reference| match reference {
            Reference::Stage { stage, port } => self.of(*stage, port, assumed),
            Reference::Asset(_) => Flow::default(),
        };
        let mut sum = Flow::default();
        references.iter().map(flow).for_each(|flow| sum.add_all(flow));
        Some(sum)
    }

    fn stored(&self, root: &Digest) -> Result<Flow, ReadError> {
        in_buckets(&self.store, &self.packing, &self.store.dataset(root)?.buckets)
    }

    /// Pending items are assumed to be like those that have arrived.
    fn partial(
        &self,
        id: StageId,
        partial: &PartialDataset,
        assumed: &Assumptions,
    ) -> Result<Flow, ReadError> {
        let (mut closed, mut flow) = (Vec::new(), Flow::default());
        let (mut pending, mut parents) = (0.0, 0.0);
        for bucket in &partial.buckets {
            match bucket {
                PartialBucket::Closed(bucket) => closed.push(*bucket),
                PartialBucket::Open { items, .. } => items.iter().for_each(|item| match item {
                    PartialItem::Known(item) => flow.add(&item.fields, &self.packing),
                    PartialItem::Pending(_, expected) => {
                        pending += f64::from(expected.items);
                        parents += 1.0;
                    }
                }),
            }
        }
        flow.add_all(in_buckets(&self.store, &self.packing, &closed)?);
        let spec = self.pipeline.stage(id);
        let arriving = self.main_input(spec, assumed).unwrap_or_default();
        if pending > 0.0 {
            flow.add_all(match spec.kind.expands {
                // The children of an item share its sound.
                Some(_) => Flow { items: pending, ..arriving.of_items(parents) },
                None => arriving.of_items(pending),
            });
        }
        Ok(flow)
    }

    fn guessed(&self, id: StageId, port: &'static str, assumed: &Assumptions) -> Flow {
        let spec = self.pipeline.stage(id);
        if spec.work == StageWork::Source {
            return self.expected(spec, assumed);
        }
        if port == CHECKPOINTS {
            let parameters = &spec.parameters;
            let kept = parameters.integer("keep").unwrap_or(0).max(0) as f64;
            let steps = parameters.integer("steps").ok().and_then(|steps| steps.try_into().ok());
            let by_steps = kept_by_steps(parameters, steps.unwrap_or(STEPS));
            return Flow { items: kept + by_steps + 1.0, ..Flow::default() };
        }
        let arriving = self.main_input(spec, assumed);
        if spec.work != StageWork::Item
            && let Some(flow) = self.last_time(spec, port, arriving)
        {
            return flow;
        }
        let flow = arriving.unwrap_or_default();
        let flow = match spec.kind.output(port).and_then(|port| port.share) {
            Some(share) => flow.of_items((flow.items * share.under(&spec.parameters)).round()),
            None => flow,
        };
        let states = spec.inputs.get(CHECKPOINTS).and_then(|input| input.references.first());
        match states {
            Some(Reference::Stage { stage, port }) => {
                let states = self.of(*stage, port, assumed).items;
                flow.of_items(flow.items * states)
            }
            _ => flow,
        }
    }

    /// The state after the last run of the stage, if its kind and parameters are the same now.
    pub fn last_run(&self, spec: &StageSpec) -> Option<LastRecord> {
        let last = history::last(self.store.cache(), &self.pipeline.name, &spec.name).ok()??;
        let now = base_key(spec, &last.key.files);
        let StageKey { kind, version, parameters, salt, .. } = &last.key;
        let is_same = (kind, version, parameters, salt)
            == (&now.kind, &now.version, &now.parameters, &now.salt);
        is_same.then_some(last)
    }

    /// The output of the last run of the stage, in proportion to the items that arrive now. Nothing
    /// follows from a run that had no output.
    fn last_time(&self, spec: &StageSpec, port: &str, arriving: Option<Flow>) -> Option<Flow> {
        let last = self.last_run(spec)?;
        let mut outcome = history::outcome(self.store.cache(), &last).ok()??;
        let PortValue::Dataset { root, .. } = outcome.outputs.remove(port)? else { return None };
        let left = self.stored(&root).ok().filter(|left| left.items > 0.0)?;
        let arrived = last.roots.get(ITEMS).into_iter().flatten();
        let arrived: f64 = arrived
            .map(|root| self.store.dataset(root).map_or(0.0, |dataset| dataset.len() as f64))
            .sum();
        match arriving {
            Some(now) if arrived > 0.0 => {
                Some(left.of_items((left.items * now.items / arrived).round()))
            }
            _ => Some(left),
        }
    }

    fn expected(&self, spec: &StageSpec, assumed: &Assumptions) -> Flow {
        if let ParameterValue::List(texts) = spec.parameters.get("sentences")
            && !texts.is_empty()
        {
            let letters: usize = texts.iter().map(|text| text.to_string().chars().count()).sum();
            let seconds = letters as f64 / LETTERS_PER_SECOND;
            let tokens = seconds * TOKENS_PER_SECOND;
            return Flow { items: texts.len() as f64, seconds, tokens, is_guess: false };
        }
        let expected = &self.pipeline.session.expected;
        let lines = expected.lines.get(&spec.id).copied();
        let clips = expected.clips.unwrap_or(CLIPS);
        let mean = expected.sound_seconds.map_or(CLIP_SECONDS, |sound| sound / clips.max(1.0));
        let items = lines.unwrap_or(clips);
        let seconds = items * mean;
        let name = &spec.name;
        let is_known = lines.is_some() || expected.clips.is_some();
        let is_guess = !is_known || expected.sound_seconds.is_none();
        let told = if lines.is_some() {
            "one per line of its file"
        } else if expected.clips.is_some() || expected.sound_seconds.is_some() {
            "from `[expect]`"
        } else {
            "a guess until `[expect]` has numbers or the clips exist"
        };
        assumed.add_count(format!(
            "`{name}` gives {items:.0} clips of {:.1} s each, {told}",
            seconds / items.max(1.0)
        ));
        Flow { items, seconds, tokens: seconds * TOKENS_PER_SECOND, is_guess }
    }
}

/// Buckets are chosen by a hash of ids, so a few buckets represent all.
fn in_buckets(store: &Store, packing: &Packing, buckets: &[Bucket]) -> Result<Flow, ReadError> {
    let step = buckets.len().div_ceil(READ).max(1);
    let mut flow = Flow::default();
    for bucket in buckets.iter().step_by(step) {
        let items = store.chunk(&bucket.chunk)?.items;
        items.iter().for_each(|item| flow.add(&item.fields, packing));
    }
    if step > 1 {
        let items = buckets.iter().map(|bucket| f64::from(bucket.items)).sum();
        flow = flow.of_items(items);
    }
    Ok(flow)
}

/// The number of longer items; scaled up from the sample if the data set is large.
fn longer_of(
    store: &Store,
    packing: &Packing,
    buckets: &[Bucket],
    limit: LengthLimit,
) -> Result<Flow, ReadError> {
    let step = buckets.len().div_ceil(READ).max(1);
    let mut long = Flow::default();
    for bucket in buckets.iter().step_by(step) {
        let chunk = store.chunk(&bucket.chunk)?;
        chunk.items.iter().for_each(|item| long.add_longer(&item.fields, packing, limit));
    }
    Ok(long.of_items(long.items * step as f64))
}

fn is_longer(fields: &Fields, packing: &Packing, limit: LengthLimit) -> bool {
    let seconds = seconds_of(fields, packing);
    match limit {
        LengthLimit::Seconds(most) => seconds > most,
        LengthLimit::Tokens(most) => tokens_of(fields, seconds) > most,
    }
}

fn is_dataset(spec: &StageSpec, port: &str) -> bool {
    spec.kind.output(port).is_some_and(|port| port.port_type == PortType::Dataset)
}

/// The size of a format relative to uncompressed sound; `None` if the format is not sound.
fn part_of(format: &str) -> Option<f64> {
    match format {
        "wav" | "wave" | "aiff" | "aif" => Some(1.0),
        "flac" => Some(LOSSLESS),
        "mp3" | "ogg" | "oga" | "opus" | "m4a" | "mp4" | "aac" | "wma" => Some(LOSSY),
        _ => None,
    }
}

/// The formats of the user's recordings, from a sample of file names. Computed on demand: a no-op
/// run does not need it.
struct Packing {
    cache: Option<Cache>,
    part: OnceCell<f64>,
}

/// The number of file names in the sample of a source.
const NAMES: usize = 32;

impl Packing {
    fn new(cache: &Cache) -> Packing {
        Packing { cache: Some(cache.clone()), part: OnceCell::new() }
    }

    fn part(&self) -> f64 {
        *self.part.get_or_init(|| {
            let index = self.cache.as_ref().and_then(|cache| StatIndex::load(cache).ok());
            let index = index.unwrap_or_default();
            let sections = index.sections().map(|(_, section)| section);
            let recordings = sections.flat_map(|section| {
                let entries = section.iter().filter(|entry| entry.by_digest);
                entries.take(NAMES).collect::<Vec<_>>()
            });
            let parts = recordings.filter_map(|entry| {
                let extension = Utf8Path::new(&entry.path).extension().unwrap_or_default();
                part_of(&extension.to_ascii_lowercase())
            });
            let parts: Vec<f64> = parts.collect();
            match parts.len() {
                0 => 1.0,
                count => parts.iter().sum::<f64>() / count as f64,
            }
        })
    }
}

/// A row of a text model has one token per frame of sound, and some for its text.
fn tokens_of(fields: &Fields, seconds: f64) -> f64 {
    let frames = fields.blob("tokens").and_then(|_| fields.number("frames"));
    match frames.filter(|frames| frames.is_finite()) {
        Some(frames) => frames.max(0.0) + TEXT_TOKENS_PER_SECOND * seconds,
        None => TOKENS_PER_SECOND * seconds,
    }
}

/// The length of an item's sound, if a stage has measured it in the field `seconds`.
fn seconds_of(fields: &Fields, packing: &Packing) -> f64 {
    if let Some(seconds) = fields.number("seconds").filter(|seconds| seconds.is_finite()) {
        return seconds.max(0.0);
    }
    if let Some(audio) = fields.blob("audio") {
        let part = match &*audio.kind {
            Blob::RECORDING => packing.part(),
            kind => part_of(kind.rsplit('/').next().unwrap_or_default()).unwrap_or(LOSSY),
        };
        return audio.size as f64 / (WAV_BYTES_PER_SECOND * part);
    }
    if let Some(tokens) = fields.blob("tokens") {
        return tokens.size as f64 / TOKEN_BYTES_PER_SECOND;
    }
    fields.text("text").map_or(0.0, |text| text.chars().count() as f64 / LETTERS_PER_SECOND)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cache::Access;
    use cache::fs::MemoryFs;
    use stage_core::{Blob, Dataset, Value};

    use super::*;
    use crate::plan::{ExpectedItem, StagePlan};

    /// With uncompressed recordings.
    fn plain() -> Packing {
        Packing { cache: None, part: OnceCell::new() }
    }

    /// A data set with items of 1 to 9 seconds.
    fn stored(items: usize) -> (Store, Vec<Bucket>) {
        let fs = Arc::new(MemoryFs::new());
        let cache = Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap();
        let store = Store::new(cache, "/".into(), Arc::new(StatIndex::default()));
        let item = |at: usize| {
            let seconds = Value::Number((at % 9 + 1) as f64);
            Item::new(format!("clip{at}"), [("seconds", seconds)].into_iter().collect())
        };
        let parts = Dataset::build((0..items).map(item).collect()).unwrap();
        for chunk in parts.chunks {
            store.put(chunk.into()).unwrap();
        }
        (store, parts.dataset.buckets)
    }

    fn flow_of(items: usize) -> Flow {
        let (store, buckets) = stored(items);
        in_buckets(&store, &plain(), &buckets).unwrap()
    }

    #[test]
    fn of_a_small_data_set_all_is_added_and_of_a_large_one_a_part_stands_for_it() {
        assert_eq!(flow_of(0), Flow::default());
        assert_eq!(
            flow_of(900),
            Flow { items: 900.0, seconds: 4_500.0, tokens: 121_500.0, is_guess: false }
        );
        let large = flow_of(45_000);
        assert_eq!(large.items, 45_000.0);
        assert!((large.mean_seconds() / 5.0 - 1.0).abs() < 0.03, "{large:?}");
    }

    #[test]
    fn items_that_last_longer_are_counted_in_a_small_data_set_and_told_from_a_part_of_a_large_one()
    {
        let long = |items: usize| {
            let (store, buckets) = stored(items);
            longer_of(&store, &plain(), &buckets, LengthLimit::Seconds(7.0)).unwrap()
        };
        assert_eq!(
            long(900),
            Flow { items: 200.0, seconds: 1_700.0, tokens: 45_900.0, is_guess: false }
        );
        assert!((long(45_000).items / 10_000.0 - 1.0).abs() < 0.1);
    }

    #[test]
    fn the_parts_of_a_recording_share_its_sound() {
        let text = "[pipeline]\nname = \"x\"\n[stage.recordings]\nuse = \"corpus.recordings\"\n\
             folder = \"data\"\n[stage.pauses]\nuse = \"audio.pauses\"\ninput = \"recordings\"\n\
             [stage.segments]\nuse = \"audio.segment\"\ninput = \"pauses\"\n";
        let options = manifest::LoadOptions::default();
        let there = |_: &Utf8Path| manifest::FileKind::File;
        let catalogue = stage_speech::catalogue();
        let loaded =
            manifest::load(text, Utf8Path::new("pipeline.toml"), &catalogue, &options, &there);
        let pipeline = loaded.unwrap_or_else(|problems| panic!("{problems:?}")).pipeline;
        let partial = |items| {
            let buckets = vec![PartialBucket::Open { number: 0, items }];
            PlannedValue::Partial(Arc::new(PartialDataset { bits: 0, buckets }))
        };
        let recording = |name: &str| {
            let fields = [("seconds", Value::Number(600.0))].into_iter().collect();
            PartialItem::Known(Item::new(name, fields))
        };
        let parts = |name: &str| {
            PartialItem::Pending(name.into(), ExpectedItem { items: 65, bytes: 800_000 })
        };
        let outputs = [
            PlannedValue::Unknown,
            partial(vec![recording("a"), recording("b")]),
            partial(vec![parts("a"), parts("b")]),
        ];
        let stage = |(spec, output): (&StageSpec, PlannedValue)| {
            let mut stage = StagePlan::unwanted();
            stage.known.outputs.insert(spec.kind.outputs[0].name, output);
            stage
        };
        let stages = pipeline.stages.iter().zip(outputs).map(stage).collect();
        let plan = Plan { stages, seconds: 0.0 };
        let cache = stored(0).0.cache().clone();
        let flows = Flows::new(&pipeline, &plan, &cache);
        let segments = &pipeline.stages[2];
        let port = segments.kind.outputs[0].name;
        let flow = flows.of(segments.id, port, &Assumptions::default());
        assert_eq!((flow.items, flow.seconds), (130.0, 1_200.0));
    }

    fn blob(kind: &str, size: u64) -> Value {
        let digest = Digest::of(kind.as_bytes());
        Value::Blob(Arc::new(Blob { digest, size, kind: kind.into() }))
    }

    fn seconds(fields: &[(&str, Value)]) -> f64 {
        seconds_of(&fields.iter().cloned().collect(), &plain())
    }

    #[test]
    fn the_length_is_what_was_measured_or_follows_from_the_size() {
        let wav = blob("audio/wav", 441_000);
        assert_eq!(seconds(&[("audio", wav.clone())]), 5.0);
        assert_eq!(seconds(&[("audio", blob(Blob::RECORDING, 441_000))]), 5.0);
        assert_eq!(seconds(&[("audio", wav), ("seconds", Value::Number(4.0))]), 4.0);
        assert_eq!(seconds(&[("tokens", blob("tokens/npy", 860))]), 2.0);
        assert_eq!(seconds(&[("text", Value::text("x".repeat(28)))]), 2.0);
        assert_eq!(seconds(&[]), 0.0);
    }
}
