//! A training stage for tests: its weights are a chain of hashes, so that a step that is skipped,
//! repeated or made on other data gives another model.

use bytes::Bytes;
use cache::Digest;
use stage_core::ON_CHANGE;
use stage_core::course;
use stage_core::{
    Blob, Context, Default, FieldSet, FieldType, Fields, GatherInput, GatherJob, GatherOutput,
    InputPort, Job, Kind, NewValue, Output, OutputPort, Parameter, ParameterType, Place,
    PortOutput, Reject, Role, Setup, Stage, StageError, Work,
};
use stage_families::kinds::parameters::{SEED, UNTIL};

const KIND: &str = "tensor";
/// A text with this in it is quarantined.
const ODD: &[u8] = b"ODD";
/// A text that begins with this was dropped by a person.
const DROPPED: &[u8] = b"DROPPED";
/// The number of repetitions of the weights, so that they are in a separate file.
const REPEATED: usize = 20_000;

/// In this process.
pub static TRAIN: Kind = Kind {
    name: "test.train",
    summary: "Trains.",
    work: Work::Train,
    inputs: &[
        InputPort { reads: FieldSet::These(&[("body", FieldType::Blob)]), ..InputPort::DATASET },
        InputPort { name: "base", optional: true, ..InputPort::ARTIFACT },
    ],
    outputs: &[OutputPort {
        writes: &[("weights", FieldType::Blob), ("frozen", FieldType::Blob)],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "steps",
            parameter_type: ParameterType::Integer { min: 1, max: 1_000_000 },
            default: Default::Integer(6),
            ..Parameter::BASE
        },
        UNTIL,
        Parameter {
            name: "rate",
            parameter_type: ParameterType::Number { min: 0.0, max: 1.0 },
            default: Default::Number(0.5),
            doc: "Every step depends on it.",
            ..Parameter::BASE
        },
        Parameter {
            name: "fails_at",
            parameter_type: ParameterType::Integer { min: 0, max: 1_000_000 },
            default: Default::Integer(0),
            doc: "The step that fails; 0: none.",
            ..Parameter::BASE
        },
        Parameter {
            name: "dies_at",
            parameter_type: ParameterType::Integer { min: 0, max: 1_000_000 },
            default: Default::Integer(0),
            doc: "The step at which its process ends; 0: none.",
            ..Parameter::BASE
        },
        SEED,
        Parameter {
            name: "every",
            parameter_type: ParameterType::Integer { min: 1, max: 1_000_000 },
            default: Default::Integer(2),
            role: Role::Execution,
            ..Parameter::BASE
        },
        Parameter {
            name: "pause",
            parameter_type: ParameterType::Duration,
            default: Default::Seconds(0.0),
            role: Role::Execution,
            doc: "How long a step takes.",
            ..Parameter::BASE
        },
        Parameter {
            name: "devices",
            parameter_type: ParameterType::List(&ParameterType::Device { or_auto: false }),
            default: Default::Devices(&[]),
            role: Role::Execution,
            ..Parameter::BASE
        },
        Parameter {
            name: "frozen",
            parameter_type: ParameterType::Size,
            // Large enough for a separate file.
            default: Default::Bytes(3 << 19),
            doc: "The size of what training leaves alone.",
            ..Parameter::BASE
        },
        ON_CHANGE,
    ],
    ..Kind::BASE
};

/// The same in the worker.
pub static REMOTE_TRAIN: Kind = Kind { name: "test.remote-train", place: Place::Worker, ..TRAIN };

/// The description alone: the implementation is in the worker.
pub struct Remote;

impl Stage for Remote {
    fn kind(&self) -> &'static Kind {
        &REMOTE_TRAIN
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Err(StageError::failed("this stage runs in the worker"))
    }
}

/// The implementation of one of the two.
pub struct Train(pub &'static Kind);

impl Stage for Train {
    fn kind(&self) -> &'static Kind {
        self.0
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let pause = std::time::Duration::from_secs_f64(setup.parameters.seconds("pause")?);
        let steps = setup.parameters.integer("steps")? as u64;
        let until = course::until(&setup.parameters, steps)?;
        Ok(Job::Gather(Box::new(TrainJob {
            steps,
            last: until.unwrap_or(steps),
            rate: setup.parameters.number("rate")? + setup.parameters.integer("seed")? as f64,
            fails_at: setup.parameters.integer("fails_at")? as u64,
            dies_at: setup.parameters.integer("dies_at")? as u64,
            every: setup.parameters.integer("every")? as u64,
            pause,
            frozen: setup.parameters.bytes("frozen")? as usize,
        })))
    }
}

struct TrainJob {
    steps: u64,
    /// The last step of this training.
    last: u64,
    rate: f64,
    fails_at: u64,
    dies_at: u64,
    every: u64,
    pause: std::time::Duration,
    frozen: usize,
}

/// The contents of a checkpoint.
struct State {
    step: u64,
    weights: Bytes,
    frozen: Blob,
}

impl GatherJob for TrainJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let data = digest_of(&input, context)?;
        let mut state = match context.last_checkpoint()? {
            Some(fields) => State::load(&fields, self.frozen, context)?,
            None => State::begin(self.frozen, context)?,
        };
        let mut saved = state.step;
        while state.step < self.last {
            if context.stopping() {
                if saved < state.step {
                    state.save(context)?;
                }
                return Err(StageError::Stopped);
            }
            std::thread::sleep(self.pause);
            if state.step + 1 == self.fails_at {
                return Err(StageError::failed("the loss is no number"));
            }
            if state.step + 1 == self.dies_at {
                std::process::exit(9);
            }
            state.step(&data, self.rate / self.steps as f64);
            context.metrics(state.step, &[("loss", loss(state.step)), ("rate", 1e-4)]);
            context.progress(state.step, self.last);
            if state.step % self.every == 0 || state.step == self.last {
                state.save(context)?;
                saved = state.step;
            }
        }
        let values = state.output(context)?.values;
        let values = values.into_iter().filter(|(name, _)| name != "step").collect();
        Ok(GatherOutput::default().with("output", PortOutput::Artifact(values)))
    }
}

/// Falls quickly, then slowly, with fluctuations.
fn loss(step: u64) -> f64 {
    let step = step as f64;
    1.8 + 3.0 / (1.0 + step / 60.0) + 0.1 * (step * 0.7).sin()
}

impl State {
    fn begin(size: usize, context: &mut dyn Context) -> Result<State, StageError> {
        let weights = match context.parent()? {
            Some(parent) => once(context.read(blob(&parent, "weights")?)?)?,
            None => Bytes::from_static(b"fresh"),
        };
        let frozen = context.keep(KIND, vec![7; size].into())?;
        Ok(State { step: 0, weights, frozen })
    }

    fn load(fields: &Fields, size: usize, context: &mut dyn Context) -> Result<State, StageError> {
        let step = fields.number("step").ok_or_else(|| StageError::failed("no step"))?;
        let frozen = blob(fields, "frozen")?;
        if context.read(frozen)?.len() != size {
            return Err(StageError::failed("the frozen part is another one"));
        }
        let weights = once(context.read(blob(fields, "weights")?)?)?;
        Ok(State { step: step as u64, weights, frozen: frozen.clone() })
    }

    /// A step of a schedule that ends at the last one.
    fn step(&mut self, data: &Digest, rate: f64) {
        self.step += 1;
        let (step, rate) = (self.step.to_le_bytes(), (self.step as f64 * rate).to_le_bytes());
        let whole = [&self.weights[..], data.as_bytes(), &step, &rate].concat();
        let digest = Digest::of(&whole);
        self.weights = digest.to_string().into_bytes().into();
    }

    fn save(&self, context: &mut dyn Context) -> Result<(), StageError> {
        let output = self.output(context)?;
        context.checkpoint(output).map(drop)
    }

    fn output(&self, context: &mut dyn Context) -> Result<Output, StageError> {
        let weights = context.keep(KIND, self.weights.repeat(REPEATED).into())?;
        Ok(Output::default()
            .with("step", NewValue::Number(self.step as f64))
            .with("weights", NewValue::blob(weights))
            .with("frozen", NewValue::blob(self.frozen.clone())))
    }
}

fn once(weights: Bytes) -> Result<Bytes, StageError> {
    let length = weights.len() / REPEATED;
    let is_whole = weights.chunks(length.max(1)).all(|part| *part == weights[..length]);
    if is_whole && length > 0 {
        Ok(weights.slice(..length))
    } else {
        Err(StageError::failed("these are no weights"))
    }
}

fn blob<'a>(fields: &'a Fields, name: &str) -> Result<&'a Blob, StageError> {
    let blob = fields.blob(name).ok_or_else(|| StageError::failed(format!("no `{name}`")))?;
    Ok(blob)
}

fn digest_of(input: &GatherInput, context: &mut dyn Context) -> Result<Digest, StageError> {
    let (mut all, mut odd) = (Vec::new(), Vec::new());
    for (place, item) in input.items("input")?.iter().enumerate() {
        let text = context.read(blob(&item.fields, "body")?)?;
        match (text.starts_with(DROPPED), text.windows(ODD.len()).any(|part| part == ODD)) {
            (true, _) => odd.push((place, Reject::new(Reject::DROPPED, "a person dropped it"))),
            (_, true) => odd.push((place, Reject::new("odd", "there is nothing to learn from it"))),
            (false, false) => all.extend_from_slice(&text),
        }
    }
    context.set_aside("input", odd)?;
    Ok(Digest::of(&all))
}

/// Gives a model a score that follows from its weights alone.
pub struct Judge;

static JUDGE: Kind = Kind {
    name: "test.judge",
    summary: "Judges.",
    work: Work::Gather,
    inputs: &[InputPort { name: "input", ..InputPort::ARTIFACT }],
    outputs: &[OutputPort { writes: &[("score", FieldType::Number)], ..OutputPort::ARTIFACT }],
    ..Kind::BASE
};

impl Stage for Judge {
    fn kind(&self) -> &'static Kind {
        &JUDGE
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(JudgeJob)))
    }
}

struct JudgeJob;

impl GatherJob for JudgeJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let model = input.artifact("input").ok_or_else(|| StageError::failed("no model"))?;
        let weights = once(context.read(blob(model, "weights")?)?)?;
        let score = NewValue::Number(score(&weights));
        let values = vec![("score".to_owned(), score)];
        Ok(GatherOutput::default().with("output", PortOutput::Artifact(values)))
    }
}

/// A number from 0 up to 1.
pub fn score(weights: &[u8]) -> f64 {
    let first: [u8; 8] = Digest::of(weights).as_bytes()[..8].try_into().unwrap_or_default();
    (u64::from_le_bytes(first) >> 11) as f64 / (1_u64 << 53) as f64
}
