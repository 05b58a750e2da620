//! The posterior encoder of a model that only speaks, trained on what the model itself says: it makes
//! the latents and the sound, in any amount and without recordings.

mod pairs;
mod texts;
mod trainee;

use stage_core::course::{self, ClipCounts, Course, Timetable};
use stage_core::{Blob, Context, GatherInput, Parameters, Setup, StageError};
use stage_families::clips::held_out;
use tch::Device;

use self::pairs::Speaker;
use self::texts::{SpokenText, Texts};
use self::trainee::PosteriorTrainee;
use super::VitsConfig;
use super::artifact::VitsModel;
use super::{Vits, WeightForm, fresh};
use crate::device::Machine;
use crate::nn::weight_norm::split;
use crate::nn::weights::Weights;
use crate::train::adamw::AdamWSettings;
use crate::train::notes::Notes;
use crate::train::order::Grouping;
use crate::train::precision::Precision;
use crate::train::schedule::{Decay, Schedule};
use crate::train::settings::{Checkpoints, Settings};
use crate::train::{ContextHost, TrainingJob, TrainingResult};

/// Separates the draw of held-out sentences from other uses of the hash.
const SALT: &str = "vits.complete";
const HELD_OUT: f64 = 0.05;
/// Validations in a training.
const VALIDATIONS: u64 = 15;
const SAVE_SECONDS: f64 = 600.0;

pub struct VitsCompletion<'a> {
    pub setup: &'a Setup,
    pub machine: &'a Machine,
}

/// The result.
pub struct CompletedVits {
    pub base: VitsModel,
    pub trained: TrainingResult,
    /// The tensors of the posterior encoder.
    pub weights: Vec<(String, Blob)>,
    pub notes: Vec<(String, u64)>,
}

impl VitsCompletion<'_> {
    pub fn run(
        &self,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<CompletedVits, StageError> {
        let parameters = &self.setup.parameters;
        let mut base = VitsModel::read("model", input.artifact("model"), context)?;
        if !base.config.speaks_only {
            return Err(StageError::with_help(
                "the model on port `model` has a posterior encoder",
                "remove this stage: the model can be trained as it is",
            ));
        }
        let device = self.machine.open(self.setup.device)?;
        let mut notes = Notes::default();
        let texts = Texts::read(input, &base, &mut notes)?;
        let spoken = texts.spoken(parameters, base.config.num_speakers)?;
        let sides = sides(&spoken);
        let held = sides.iter().filter(|held| **held).count() as u64;
        let (settings, course) = settings(parameters, spoken.len() as u64, held)?;
        context.begins(&course);

        let prepared = base.prepared(WeightForm::Whole, device, context)?;
        let voice = Vits::load(base.config.clone(), prepared.generator)?;
        // One thread: the layers of a single sentence are too small to be shared, above all on busy cores.
        let pairs = Speaker { voice: &voice }.pairs(&spoken, context)?;
        let threads = self.machine.share_threads(parameters_beside(&base.config), 1);
        notes.add("seconds of speech that the voice made", pairs.seconds(&base.config) as u64);
        base.complete(context)?;
        let trainee = PosteriorTrainee::new(&base.config, self.fresh(&base.config, device)?)?;
        let entries = pairs.entries();
        let frames = parameters.integer("frames")?.max(1);
        let data = pairs.data(frames, base.config.flow_size);
        let job = TrainingJob {
            replicas: &mut [trainee.speaking_as(voice.embed_speaker)],
            data: &data,
            clips: &entries,
            held_out: &sides,
            settings: &settings,
        };
        let trained = ContextHost::new(context, settings.steps).train(job)?;
        drop(threads);
        notes.add("sentences held out", held);
        notes.add("sentences trained on", spoken.len() as u64 - held);
        let weights = trained.taken(true)?;
        Ok(CompletedVits { base, weights, notes: notes.close(&trained), trained })
    }

    /// A new posterior encoder, with the weight norm of training.
    fn fresh(&self, config: &VitsConfig, device: Device) -> Result<Weights, StageError> {
        let seed = self.setup.parameters.integer("seed")? as u64;
        let whole = fresh::posterior_encoder(config, seed).usable(device)?;
        Ok(split(whole, stage_families::vits::is_normed))
    }
}

/// The work of a completion is that of a training: it takes as many threads.
fn parameters_beside(config: &VitsConfig) -> i64 {
    config.speaking_parameters() + config.judging_parameters()
}

/// The sentences that are held out: all of the same text.
fn sides(spoken: &[SpokenText]) -> Vec<bool> {
    let ids: Vec<&str> = spoken.iter().map(|text| &*text.identity).collect();
    held_out(&ids, HELD_OUT, SALT)
}

fn settings(
    parameters: &Parameters,
    sentences: u64,
    held: u64,
) -> Result<(Settings, Course), StageError> {
    let whole = |name: &str| parameters.integer(name).map(|number| number.max(0) as u64);
    let steps = course::steps(parameters, || Ok(sentences as f64))?;
    let rows = whole("batch")?.max(1);
    let timetable = Timetable {
        steps,
        validate_every: steps.div_ceil(VALIDATIONS).max(1),
        ..Timetable::default()
    };
    let record_every = (steps / 100).clamp(1, 10);
    let settings = Settings {
        seed: parameters.integer("seed")? as u64,
        steps,
        until: None,
        grouping: Grouping::Buckets { length: usize::MAX, rows: 1 },
        rows: rows as usize,
        accumulate: 1,
        precision: Precision::F32,
        adamw: AdamWSettings {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.01,
            decays_all: false,
            fused: false,
        },
        phases: Vec::new(),
        schedule: Schedule {
            rate: parameters.number("learning_rate")?,
            warm_up: 0,
            from_zero: false,
            decay: Decay::Cosine { end: steps, floor: 0.0 },
        },
        first: None,
        clip: Some(MAX_NORM),
        validate_every: timetable.validate_every,
        early_stop: None,
        keep_best: 1,
        keep_every: None,
        keep_kind: None,
        checkpoint: Checkpoints { steps: None, seconds: Some(SAVE_SECONDS) },
        bad_steps: 20,
        record_every,
        report_every: record_every,
    };
    let clips = ClipCounts { used: sentences - held, held_out: held, left_out: 0 };
    let rows_of_pass = clips.used as f64;
    Ok((settings, Course { timetable, rows_of_step: rows, rows_of_pass, clips }))
}

/// The largest norm of a gradient.
const MAX_NORM: f64 = 10.0;
