//! Measured costs of stages in earlier runs, kept in the index for later estimates. They are part
//! of no key, and bounded in size: sums by kind, parameters and device, not observations.

pub mod line;
pub mod weight;

use crate::figure::Basis;
use cache::{Cache, CacheError, Digest};
use serde::{Deserialize, Serialize};
use stage_core::key::{HashSink, Sink};
use stage_core::{Default as Unset, Parameter, Role};
use stage_families::Family;

use crate::pipeline::StageSpec;
use crate::record::{MEASURE, decode, encode};
use line::Line;

/// Sizes are counted in this unit, so that their squares stay small.
pub const MEGABYTE: f64 = 1e6;
/// The ports that take models.
pub const MODEL_PORTS: [&str; 2] = ["base", "model"];
/// The largest number of measures; the oldest ones are removed.
const MOST: usize = 512;
/// Memory peaks decay by this factor per run, so that one bad moment does not last for ever.
const FORGET: f64 = 0.9;

/// The measured cost of a kind of stage on a device. A unit is an item, a training step, or a whole
/// gather; its size is that of the inputs of an item in megabytes, or the number of items of a
/// gather.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    pub kind: String,
    pub device: String,
    /// The parameters of the stage's model; 0 if it has none.
    pub model: i64,
    /// Only probes have run.
    pub is_probe: bool,
    /// Seconds since 1970.
    pub written: i64,
    pub seconds: Line,
    /// Bytes of new objects; for a whole training, not for a step.
    pub bytes: Line,
    pub ram_bytes: f64,
    pub vram_bytes: f64,
    /// For a training, the times beside its steps: a validation, a checkpoint, and the rest with
    /// (1) and without (0) a preflight. These are the last fields, so that older records without
    /// them can still be read.
    #[serde(deserialize_with = "or_empty")]
    pub validation: Line,
    #[serde(deserialize_with = "or_empty")]
    pub save: Line,
    #[serde(deserialize_with = "or_empty")]
    pub start: Line,
    /// The formula's time for the steps of a training, to compare its steps with those of
    /// trainings that have other parameters.
    #[serde(deserialize_with = "or_empty")]
    pub formula: Line,
}

fn or_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Line, D::Error> {
    Ok(Line::deserialize(from).unwrap_or_default())
}

impl Measure {
    /// The sum of both.
    fn with(&self, new: &Measure) -> Measure {
        let peak = |old: f64, new: f64| if new > 0.0 { new.max(old * FORGET) } else { old };
        Measure {
            kind: new.kind.clone(),
            device: new.device.clone(),
            model: new.model,
            is_probe: new.is_probe,
            written: new.written,
            seconds: self.seconds.with(&new.seconds),
            bytes: self.bytes.with(&new.bytes),
            ram_bytes: peak(self.ram_bytes, new.ram_bytes),
            vram_bytes: peak(self.vram_bytes, new.vram_bytes),
            validation: self.validation.with(&new.validation),
            save: self.save.with(&new.save),
            start: self.start.with(&new.start),
            formula: self.formula.with(&new.formula),
        }
    }

    /// The factor between the steps that were measured and the formula; none if it is unknown.
    pub fn step_factor(&self) -> Option<f64> {
        let mean = |line: &Line| line.total(1.0, line.mean_size(), 0.0).map(|mean| mean.likely);
        let formula = mean(&self.formula).filter(|seconds| *seconds > 0.0)?;
        Some(mean(&self.seconds)? / formula)
    }
}

/// The similarity of two pieces of work that share a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    /// The same kind, version, parameters, size of the model, and device.
    Same,
    /// The same kind, version and device.
    Kind,
}

fn key(spec: &StageSpec, device: &str, model: i64, likeness: Likeness) -> Digest {
    let mut sink = HashSink::default();
    sink.text("measure of", spec.kind.name);
    sink.integer("version", i64::from(spec.kind.version));
    sink.text("device", device);
    if likeness == Likeness::Same {
        sink.integer("model", model);
        // Another seed is the same work.
        let counts = |parameter: &&Parameter| {
            parameter.role != Role::Secret && !matches!(parameter.default, Unset::PipelineSeed)
        };
        for parameter in spec.kind.parameters.iter().filter(counts) {
            sink.text(parameter.name, &spec.parameters.get(parameter.name).to_string());
        }
    }
    sink.finish()
}

/// The family of the stage's model, if its size counts.
pub fn sized_family(spec: &StageSpec) -> Option<&'static dyn Family> {
    spec.family().filter(|family| family.is_measured_by_size())
}

/// The best known measure of a stage on a device, and its similarity.
pub fn find(
    cache: &Cache,
    spec: &StageSpec,
    device: &str,
    model: i64,
) -> Result<Option<(Measure, Basis)>, CacheError> {
    for (likeness, basis) in [(Likeness::Same, Basis::Measured), (Likeness::Kind, Basis::Similar)] {
        if let Some(measure) = read(cache, &key(spec, device, model, likeness))? {
            let basis = if measure.is_probe { basis.max(Basis::Probe) } else { basis };
            return Ok(Some((measure, basis)));
        }
    }
    Ok(None)
}

fn read(cache: &Cache, key: &Digest) -> Result<Option<Measure>, CacheError> {
    Ok(cache.get(MEASURE, key)?.and_then(|bytes| decode(&bytes)))
}

/// Adds a measure of a stage to the stored one.
pub fn add(cache: &Cache, spec: &StageSpec, new: &Measure) -> Result<(), CacheError> {
    for likeness in [Likeness::Same, Likeness::Kind] {
        let key = key(spec, &new.device, new.model, likeness);
        let merged = match read(cache, &key)? {
            Some(known) if new.is_probe && !known.is_probe => continue,
            Some(known) if known.is_probe == new.is_probe => known.with(new),
            _ => new.clone(),
        };
        cache.record(MEASURE, &key, encode(&merged))?;
    }
    Ok(())
}

/// Keeps the number of measures within its bound.
pub fn forget_old(cache: &Cache) -> Result<(), CacheError> {
    let records = cache.scan(MEASURE)?;
    if records.len() <= MOST {
        return Ok(());
    }
    let written = |bytes: &[u8]| decode::<Measure>(bytes).map_or(0, |measure| measure.written);
    let mut old: Vec<(i64, Digest)> =
        records.iter().map(|(key, bytes)| (written(bytes), *key)).collect();
    old.sort_unstable();
    old[..records.len() - MOST].iter().try_for_each(|(_, key)| cache.forget(MEASURE, key))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cache::Access;
    use cache::fs::MemoryFs;
    use std::sync::Arc;

    fn cache() -> Cache {
        Cache::open("/cache".into(), Arc::new(MemoryFs::new()), Access::ReadWrite).unwrap()
    }

    fn spec(rate: &str) -> StageSpec {
        let text = format!(
            "[pipeline]\nname = \"p\"\n[stage.clips]\nuse = \"corpus.folder\"\nfolder = \"data\"\n\
             [stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nrate = {rate}\n"
        );
        crate::testing::pipeline(&text).find("voice").unwrap().clone()
    }

    /// A run of this number of items at one second each.
    fn measured(items: usize, is_probe: bool) -> Measure {
        let mut seconds = Line::default();
        (0..items).for_each(|_| seconds.add(0.0, 1.0));
        let (kind, device) = ("audio.resample".to_owned(), "cpu".to_owned());
        Measure { kind, device, is_probe, seconds, ..Measure::default() }
    }

    #[test]
    fn a_measure_without_what_a_training_takes_beside_its_steps_is_still_read() {
        let measure = measured(3, false);
        let mut bytes = encode(&measure);
        let new = 4 * encode(&Line::default()).len();
        bytes.truncate(bytes.len() - new);
        assert_eq!(decode(&bytes), Some(measure));
    }

    #[test]
    fn other_parameters_and_other_devices_are_not_the_same() {
        let cache = cache();
        add(&cache, &spec("16000"), &measured(3, false)).unwrap();
        let found = |rate: &str, device: &str| {
            find(&cache, &spec(rate), device, 0).unwrap().map(|(_, basis)| basis)
        };
        assert_eq!(found("16000", "cpu"), Some(Basis::Measured));
        assert_eq!(found("22050", "cpu"), Some(Basis::Similar));
        assert_eq!(found("16000", "another"), None);
        let other_model = find(&cache, &spec("16000"), "cpu", 7).unwrap();
        assert_eq!(other_model.map(|(_, basis)| basis), Some(Basis::Similar));
    }

    #[test]
    fn a_run_takes_the_place_of_a_probe_and_not_the_other_way_round() {
        let cache = cache();
        let count = || find(&cache, &spec("16000"), "cpu", 0).unwrap().unwrap().0.seconds.count;
        add(&cache, &spec("16000"), &measured(3, true)).unwrap();
        assert_eq!(find(&cache, &spec("16000"), "cpu", 0).unwrap().unwrap().1, Basis::Probe);
        add(&cache, &spec("16000"), &measured(100, false)).unwrap();
        assert_eq!(count(), 100.0);
        add(&cache, &spec("16000"), &measured(10, false)).unwrap();
        add(&cache, &spec("16000"), &measured(3, true)).unwrap();
        assert_eq!(count(), 110.0);
    }

    #[test]
    fn the_number_of_measures_is_bounded() {
        let cache = cache();
        for at in 0..MOST as i64 + 10 {
            let measure = Measure { written: at, ..Measure::default() };
            let key = Digest::of(&at.to_le_bytes());
            cache.record(MEASURE, &key, encode(&measure)).unwrap();
        }
        forget_old(&cache).unwrap();
        let left = cache.scan(MEASURE).unwrap();
        let oldest = left.iter().map(|(_, bytes)| decode::<Measure>(bytes).unwrap().written).min();
        assert_eq!((left.len(), oldest), (MOST, Some(10)));
    }
}
