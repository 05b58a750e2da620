//! The model on the inputs of a fixture, with outputs under the names of the reference's results.

use std::collections::BTreeMap;

use serde::Deserialize;
use tch::Tensor;

use super::load::{NetworkWeights, WeightForm, prepare};
use super::losses::LossWeights;
use super::models::{SynthesisSettings, Texts, Vits};
use super::noise::RecordedNormal;
use super::train::{Network, Networks, TrainingOptions};
use super::{ClipTensors, GeneratorOutput};
use crate::error::TorchError;
use crate::fixture::parts::{self, Outputs, Steps, gradient_of, input};
use crate::fixture::setup::Setup;
use crate::nn::layers::Pass;
use crate::nn::weights::Weights;
use crate::train::Totals;
use crate::train::adamw::{AdamW, AdamWSettings};

const NETWORKS: [Network; 2] = [Network::Generator, Network::Discriminator];

/// `settings` of the fixture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VitsFixtureSettings {
    config: serde_json::Value,
    /// Mel bands of the loss.
    bands: usize,
    /// The speaker.
    speaker: Option<i64>,
    runs: BTreeMap<String, SynthesisSettings>,
    loss_weights: Weighting,
    adamw: Steps,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Weighting {
    mel: f64,
    kl: f64,
}

/// Runs everything that the reference ran. `weights` is the model's file, `inputs` has the tensors
/// `input.*`.
pub fn outputs(
    settings: &serde_json::Value,
    weights: &[u8],
    inputs: &Weights,
    setup: &Setup,
) -> Result<Outputs, TorchError> {
    let settings: VitsFixtureSettings = parts::settings(settings)?;
    let config = super::load::parse(settings.config.to_string().as_bytes())?;
    let read = || Weights::from_safetensors(weights);
    let mut outputs = Outputs::new();
    let NetworkWeights { generator, .. } =
        prepare(&config, read()?, WeightForm::Whole, setup.device)?;
    let model = Vits::load(config.clone(), generator)?;
    for (run, synthesis) in &settings.runs {
        spoken(&model, &settings, (run, synthesis), inputs, &mut outputs)?;
    }
    let prepared = prepare(&config, read()?, WeightForm::Normed, setup.device)?;
    let options = TrainingOptions {
        bands: settings.bands,
        weights: LossWeights {
            mel: settings.loss_weights.mel,
            kl: settings.loss_weights.kl,
            ..LossWeights::default()
        },
        dropout: false,
        fade_in: 0,
        kind: setup.kind(),
    };
    let mut trainee = Networks::new(&config, prepared, options)?;
    let clips = clips(&trainee, inputs)?;
    outputs.insert("learn.spectrogram".into(), clips.spectrograms.shallow_clone());
    let made = learn(&trainee, &clips, inputs)?;
    learned(&trainee, &made, &clips, &mut outputs)?;
    let run = FixtureSteps { clips: &clips, weights: &options.weights, setup };
    derived(&mut trainee, &made, &run, &mut outputs)?;
    steps(&mut trainee, inputs, &settings.adamw, &run, &mut outputs)?;
    Ok(outputs)
}

/// The steps of both networks.
struct FixtureSteps<'a> {
    clips: &'a ClipTensors,
    weights: &'a LossWeights,
    setup: &'a Setup,
}

impl FixtureSteps<'_> {
    fn totals(&self) -> Totals {
        Networks::count(self.clips).scaled(self.setup.loss_scale())
    }
}

fn numbers(inputs: &Weights, name: &str) -> Result<Vec<i64>, TorchError> {
    Ok(parts::integers(input(inputs, name)?))
}

/// The recorded noise of a run, in drawing order.
fn noise(inputs: &Weights, run: &str) -> RecordedNormal {
    let draws = (0..).map_while(|at| inputs.get(&format!("input.{run}.noise.{at}")));
    RecordedNormal::new(draws.map(Tensor::shallow_clone))
}

fn texts(model: &Vits, inputs: &Weights, run: &str) -> Result<Texts, TorchError> {
    let ids = numbers(inputs, &format!("{run}.ids"))?;
    let lengths = numbers(inputs, &format!("{run}.lengths"))?;
    let width = ids.len() / lengths.len().max(1);
    let rows = ids.chunks(width.max(1)).zip(&lengths);
    let rows: Vec<Vec<i64>> = rows.map(|(row, length)| row[..*length as usize].to_vec()).collect();
    model.texts(&rows)
}

fn spoken(
    model: &Vits,
    settings: &VitsFixtureSettings,
    (run, synthesis): (&str, &SynthesisSettings),
    inputs: &Weights,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let _guard = tch::no_grad_guard();
    let texts = texts(model, inputs, run)?;
    let speakers = settings.speaker.map(|speaker| vec![speaker; texts.lengths.len()]);
    let speech = model.speak(&texts, speakers.as_deref(), synthesis, &mut noise(inputs, run))?;
    for (name, tensor) in [
        ("log_durations", speech.log_durations * &texts.mask),
        ("durations", speech.durations),
        ("latents", speech.latents),
        ("wave", Tensor::cat(&speech.waves, 0)),
    ] {
        outputs.insert(format!("{run}.{name}"), tensor);
    }
    let prior = model.prior(&texts, Pass::Evaluate);
    for (name, tensor) in
        [("hidden", prior.hidden), ("mean", prior.mean), ("log_deviation", prior.log_deviation)]
    {
        if run == "noisy" {
            outputs.insert(format!("text.{name}"), tensor);
        }
    }
    Ok(())
}

/// Clips with waves that are padded to the longest.
fn clips(trainee: &Networks, inputs: &Weights) -> Result<ClipTensors, TorchError> {
    let (model, frames) = (trainee.generator(), numbers(inputs, "learn.frames")?);
    let waves = Vec::<f32>::try_from(input(inputs, "learn.waves")?.contiguous().view(-1))?;
    let width = waves.len() / frames.len().max(1);
    let rows = waves.chunks(width.max(1)).zip(&frames);
    let hop = model.config.hop();
    let rows: Vec<&[f32]> = rows.map(|(row, frames)| &row[..(frames * hop) as usize]).collect();
    let speakers = numbers(inputs, "learn.speakers")?;
    let speakers = (model.config.num_speakers > 1).then_some(speakers);
    ClipTensors::new(model, trainee.analysis(), texts(model, inputs, "learn")?, &rows, speakers)
}

fn learn(
    trainee: &Networks,
    clips: &ClipTensors,
    inputs: &Weights,
) -> Result<GeneratorOutput, TorchError> {
    let starts = numbers(inputs, "learn.starts")?;
    trainee.make_of(clips, &starts, &mut noise(inputs, "learn"), Pass::Evaluate)
}

fn learned(
    trainee: &Networks,
    made: &GeneratorOutput,
    clips: &ClipTensors,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let within = &clips.texts.mask * clips.mask.transpose(1, 2);
    for (name, tensor) in [
        ("posterior.mean", made.posterior.mean.detach()),
        ("posterior.log_deviation", made.posterior.log_deviation.detach()),
        ("posterior.latents", made.posterior.latents.detach()),
        ("flowed", made.flowed.detach()),
        ("scores", &made.scores * within),
        ("durations", made.durations.shallow_clone()),
        ("wave", made.wave.detach()),
        ("mel", made.mel(trainee.analysis())?.detach()),
        ("recorded", made.recorded.shallow_clone()),
        ("recorded_mel", made.recorded_mel.shallow_clone()),
    ] {
        outputs.insert(format!("learn.{name}"), tensor);
    }
    if let Some(loss) = &made.duration_loss {
        outputs.insert("learn.duration_loss".into(), loss.detach());
    }
    Ok(())
}

/// The gradients of both networks, each from its own loss, and the losses.
fn derived(
    trainee: &mut Networks,
    made: &GeneratorOutput,
    run: &FixtureSteps<'_>,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let totals = run.totals();
    let mut losses = trainee.judge(made, &totals).means(&totals).0;
    let spoken = trainee.speak(made, &totals)?.means(&totals);
    losses.push(("total", run.weights.total(&spoken)));
    losses.extend(spoken.0);
    for (name, loss) in losses {
        outputs.insert(format!("loss.{name}"), Tensor::from_slice(&[loss]));
    }
    for net in NETWORKS {
        for (name, parameter) in trainee.parameters(net) {
            outputs.insert(format!("gradient.{name}"), run.setup.unscaled(&gradient_of(parameter)));
        }
    }
    Ok(())
}

/// First the discriminator, then the generator with the updated discriminator.
fn steps(
    trainee: &mut Networks,
    inputs: &Weights,
    steps: &Steps,
    run: &FixtureSteps<'_>,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let (totals, factor) = (run.totals(), 1.0 / run.setup.loss_scale());
    let optimiser = |net: Network| {
        let parameters = trainee.parameters(net).iter();
        let parameters = parameters.map(|(name, tensor)| (name.clone(), tensor.shallow_clone()));
        let settings = AdamWSettings { decays_all: true, ..steps.settings() };
        AdamW::new(settings, parameters.collect())
    };
    let (mut judging, mut speaking) =
        (optimiser(Network::Discriminator), optimiser(Network::Generator));
    let mut curve = Vec::with_capacity(2 * steps.steps);
    for _ in 0..steps.steps {
        NETWORKS.into_iter().for_each(|net| trainee.forget(net));
        let made = learn(trainee, run.clips, inputs)?;
        curve.push(trainee.judge(&made, &totals).means(&totals).total());
        judging.step(&gradients(trainee, Network::Discriminator), steps.lr, factor)?;
        curve.push(run.weights.total(&trainee.speak(&made, &totals)?.means(&totals)));
        speaking.step(&gradients(trainee, Network::Generator), steps.lr, factor)?;
    }
    outputs.insert("curve".into(), Tensor::from_slice(&curve));
    for (name, parameter) in NETWORKS.into_iter().flat_map(|net| trainee.parameters(net)) {
        outputs.insert(format!("trained.{name}"), parameter.detach().copy());
    }
    Ok(())
}

fn gradients(trainee: &Networks, net: Network) -> Vec<Option<Tensor>> {
    trainee.parameters(net).iter().map(|(_, parameter)| Some(gradient_of(parameter))).collect()
}
