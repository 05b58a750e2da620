//! `torchscript.apply`, `speaker.embed` and `quality.rate`: stages that call a module of the user.

use stage_core::output_types::NUMBER;
use stage_core::{
    Context, Item, ItemJob, Job, Kind, NewValue, Output, ParameterValue, Parameters, Reject, Setup,
    Stage, StageError,
};
use stage_families::kinds::torchscript::{self as kinds, ARRAY, EMBEDDING_KIND, FBANK};
use stage_formats::npy::{self, FloatArray};
use tch::{IValue, Tensor};

use super::arrived::{blob, check_rate};
use crate::device::Machine;
use crate::sound::wave;
use crate::torchscript::{
    MethodCall, Module, ModuleFault, ModuleOutputs, OutputForm, ReturnError, array, fbank, frame,
    number, one, sound, vector,
};

pub struct TorchScript {
    /// One of the three kinds.
    pub kind: &'static Kind,
    pub machine: Machine,
}

impl Stage for TorchScript {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        let parameters = &setup.parameters;
        let fields = setup.artifacts.get("module").and_then(|artifacts| artifacts.first());
        let device = self.machine.open(setup.device)?;
        let job = TorchScriptJob {
            work: Work::of(self.kind, parameters)?,
            module: Module::open(fields, device, context)?,
            call: MethodCall {
                method: parameters.text("method")?.to_owned(),
                seed: parameters.integer("seed")?,
            },
            rejects: parameters.text("on_failure")? != "fail",
            machine: self.machine.clone(),
        };
        Ok(Job::Item(Box::new(job)))
    }
}

struct TorchScriptJob {
    work: Work,
    module: Module,
    call: MethodCall,
    /// An exception quarantines the item.
    rejects: bool,
    machine: Machine,
}

/// The input that a stage passes to the module, and the use of its result.
enum Work {
    Apply {
        field: String,
        sound: Option<Sound>,
        dimensions: Option<usize>,
        returned: ModuleOutputs,
    },
    Embed {
        sound: Sound,
        features: bool,
        taken: Option<String>,
        shortest: f64,
    },
    Rate {
        sound: Sound,
        taken: Option<String>,
        window: Option<f64>,
        hop: f64,
    },
}

/// The recordings that a module takes.
struct Sound {
    rate: u32,
    dimensions: usize,
    /// In seconds.
    longest: f64,
}

impl Work {
    fn of(kind: &Kind, parameters: &Parameters) -> Result<Work, StageError> {
        let taken = || {
            let text = parameters.if_set("output", Parameters::text)?;
            Ok::<_, StageError>(text.map(str::to_owned))
        };
        if kind.name == kinds::EMBED.name {
            return Ok(Work::Embed {
                sound: Sound::of(parameters)?,
                features: parameters.text("features")? == FBANK,
                taken: taken()?,
                shortest: parameters.seconds("shortest")?,
            });
        }
        if kind.name == kinds::RATE.name {
            let window = parameters.if_set("window", Parameters::seconds)?;
            let hop = parameters.seconds("hop")?;
            return Ok(Work::Rate { sound: Sound::of(parameters)?, taken: taken()?, window, hop });
        }
        let is_array = parameters.text("form")? == ARRAY;
        let dimensions = parameters.if_set("dimensions", Parameters::integer)?;
        let form = |(name, value): (&str, &ParameterValue)| match value {
            ParameterValue::Text(kind) if kind == NUMBER => (name.to_owned(), OutputForm::Number),
            ParameterValue::Text(kind) => (name.to_owned(), OutputForm::Array(kind.clone())),
            other => (name.to_owned(), OutputForm::Array(other.to_string())),
        };
        let order = parameters.texts("returns")?.into_iter().map(str::to_owned);
        Ok(Work::Apply {
            field: parameters.text("field")?.to_owned(),
            sound: (!is_array).then(|| Sound::of(parameters)).transpose()?,
            dimensions: dimensions.map(|count| count as usize),
            returned: ModuleOutputs {
                outputs: parameters.map("outputs")?.into_iter().map(form).collect(),
                order: order.collect(),
            },
        })
    }

    fn field(&self) -> &str {
        match self {
            Work::Apply { field, .. } => field,
            Work::Embed { .. } | Work::Rate { .. } => "audio",
        }
    }
}

impl Sound {
    fn of(parameters: &Parameters) -> Result<Sound, StageError> {
        let dimensions = parameters.if_set("dimensions", Parameters::integer)?;
        Ok(Sound {
            rate: parameters.integer("rate")? as u32,
            dimensions: dimensions.unwrap_or(2) as usize,
            longest: parameters.seconds("longest")?,
        })
    }

    fn samples(&self, bytes: &[u8]) -> Result<Vec<f32>, Reject> {
        let wave = wave::read(bytes)?;
        check_rate(wave.rate, self.rate, "module")?;
        let (seconds, longest) = (wave.samples.len() as f64 / f64::from(wave.rate), self.longest);
        if seconds > longest {
            let reason = format!(
                "the audio lasts {seconds:.1} s, more than `longest` = {longest:.1} s; cut it into \
                 shorter clips"
            );
            return Err(Reject::new("too-long", reason));
        }
        Ok(wave.samples)
    }

    /// The number of samples in this time.
    fn count(&self, seconds: f64) -> usize {
        (seconds * f64::from(self.rate)).round() as usize
    }
}

impl ItemJob for TorchScriptJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let _shared = self.machine.share_threads(self.module.parameters, 1);
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            let bytes = context.read(blob(item, self.work.field())?)?;
            outputs.push(match self.one(&bytes) {
                Ok(output) => Ok(output),
                Err(ReturnError::Reject(reject)) => Err(reject),
                Err(ReturnError::Error(error)) => return Err(error),
            });
        }
        Ok(outputs)
    }
}

impl TorchScriptJob {
    fn one(&self, bytes: &[u8]) -> Result<Output, ReturnError> {
        match &self.work {
            Work::Apply { sound: Some(sound), returned, .. } => {
                let samples = sound.samples(bytes).map_err(ReturnError::Reject)?;
                let values = returned.take(self.hear(sound, &samples)?)?;
                Ok(Output { values, notes: Vec::new() })
            }
            Work::Apply { dimensions, returned, .. } => {
                let input = array(bytes, *dimensions).map_err(ReturnError::Reject)?;
                let values = returned.take(self.call(&input)?)?;
                Ok(Output { values, notes: Vec::new() })
            }
            Work::Embed { sound, features, taken, shortest } => {
                let samples = sound.samples(bytes).map_err(ReturnError::Reject)?;
                let embedding = |part: &[f32]| {
                    let result = if *features {
                        self.call(&fbank(part, sound.rate))?
                    } else {
                        self.hear(sound, part)?
                    };
                    unit_length(&vector("embedding", &one(result, taken.as_deref())?)?)
                };
                embedded(sound, *shortest, &samples, embedding)
            }
            Work::Rate { sound, taken, window, hop } => {
                let samples = sound.samples(bytes).map_err(ReturnError::Reject)?;
                let (window, hop) = (window.map(|time| sound.count(time)), sound.count(*hop));
                let mut scores = Vec::new();
                for part in windows(&samples, window, hop) {
                    scores.push(number("mos", &one(self.hear(sound, &part)?, taken.as_deref())?)?);
                }
                let mos = scores.iter().sum::<f64>() / scores.len() as f64;
                Ok(Output::default().with("mos", NewValue::Number(mos)))
            }
        }
    }

    fn hear(&self, sound_of: &Sound, samples: &[f32]) -> Result<IValue, ReturnError> {
        self.call(&sound(samples, sound_of.dimensions))
    }

    fn call(&self, input: &Tensor) -> Result<IValue, ReturnError> {
        self.module.call(&self.call, input).map_err(|fault| match fault {
            ModuleFault::Raised(said) => {
                let reject = Reject::said("torchscript-failed", "the module failed", &said);
                if self.rejects {
                    ReturnError::Reject(reject)
                } else {
                    ReturnError::Error(StageError::Unable { message: reject.reason, help: None })
                }
            }
            ModuleFault::Other(error) => ReturnError::Error(error),
        })
    }
}

/// The embedding of a recording, and the cosine between those of its halves.
fn embedded(
    sound: &Sound,
    shortest: f64,
    samples: &[f32],
    embedding: impl Fn(&[f32]) -> Result<Vec<f32>, ReturnError>,
) -> Result<Output, ReturnError> {
    let least = sound.count(shortest).max(frame(sound.rate));
    if samples.len() < least {
        let seconds = samples.len() as f64 / f64::from(sound.rate);
        let reason = format!(
            "the audio lasts {seconds:.2} s, less than `shortest` = {shortest:.2} s; leave such \
             clips out with `audio.check` and `min_duration`"
        );
        return Err(ReturnError::Reject(Reject::new("too-short", reason)));
    }
    let whole = embedding(samples)?;
    let array = FloatArray { shape: vec![whole.len() as u64], values: whole };
    let failed = |error: npy::NpyError| ReturnError::Error(StageError::failed(error.to_string()));
    let bytes = npy::write_floats(&array).map_err(failed)?;
    let output = Output::default().with("embedding", NewValue::bytes(EMBEDDING_KIND, bytes));
    if samples.len() / 2 < least {
        return Ok(output);
    }
    let (first, second) = samples.split_at(samples.len() / 2);
    let halves = cosine(&embedding(first)?, &embedding(second)?);
    Ok(output.with("halves", NewValue::Number(halves)))
}

/// The recording, or windows of it. A recording that is too short for one is repeated.
fn windows(samples: &[f32], window: Option<usize>, hop: usize) -> Vec<Vec<f32>> {
    let Some(length) = window.map(|length| length.max(1)) else { return vec![samples.to_vec()] };
    let mut samples = samples.to_vec();
    while samples.len() < length {
        let missing = length - samples.len();
        samples.extend_from_within(..missing.min(samples.len()));
    }
    let starts = (0..=samples.len() - length).step_by(hop.max(1));
    starts.map(|start| samples[start..start + length].to_vec()).collect()
}

fn unit_length(values: &[f32]) -> Result<Vec<f32>, ReturnError> {
    let square = |value: &f32| f64::from(*value).powi(2);
    let length = values.iter().map(square).sum::<f64>().sqrt();
    if length == 0.0 {
        let reason = "the embedding is all zeros".to_owned();
        return Err(ReturnError::Reject(Reject::new("zero-embedding", reason)));
    }
    Ok(values.iter().map(|value| (f64::from(*value) / length) as f32).collect())
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_heard_in_windows_and_a_short_one_is_repeated() {
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(windows(&samples, None, 1), [samples.to_vec()]);
        assert_eq!(windows(&samples, Some(3), 2), [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]);
        assert_eq!(windows(&samples, Some(4), 3), [[1.0, 2.0, 3.0, 4.0]]);
        assert_eq!(windows(&samples[..2], Some(5), 1), [[1.0, 2.0, 1.0, 2.0, 1.0]]);
    }
}
