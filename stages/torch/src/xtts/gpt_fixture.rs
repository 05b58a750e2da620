//! The GPT on the inputs of a fixture, with outputs under the names of the reference's results.

use serde::Deserialize;
use tch::Tensor;

use super::batch::{GptBatch, GptClip, Packer, RowLayout};
use super::decode::{GptSampling, GptSentence};
use super::gpt::Gpt;
use super::trainee::{AUDIO, GptMemory, GptTrainee, TEXT};
use crate::error::TorchError;
use crate::fixture::parts::{self, Outputs, RecordedNoise, Steps, integers};
use crate::fixture::setup::Setup;
use crate::nn::layers::Pass;
use crate::nn::lora::Adaptable;
use crate::nn::weights::Weights;
use crate::runtime::parity::Parity;
use crate::train::Trainee;
use crate::train::run::Purpose;
use stage_families::xtts::GptConfig;

/// `settings` of the fixture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GptFixtureSettings {
    config: GptConfig,
    /// The batches by name.
    cases: Vec<String>,
    adamw: Steps,
    sampling: GptSampling,
}

const STEP: Purpose = Purpose::Step { seed: 0 };

/// The batches of the training; all intermediate tensors are compared for the first.
const TRAINED: [&str; 2] = ["unequal", "one"];

/// Runs everything that the reference ran. `weights` is the model's file, `inputs` has the tensors
/// `input.*`.
pub fn outputs(
    settings: &serde_json::Value,
    weights: &[u8],
    inputs: &Weights,
    setup: &Setup,
) -> Result<Outputs, TorchError> {
    let settings: GptFixtureSettings = parts::settings(settings)?;
    let weights = Weights::from_safetensors(weights)?.moved(setup.device, Some(setup.kind()));
    let model = Gpt::load(&settings.config, weights)?;
    let memory = GptMemory { recompute: true, positions: 7 };
    let mut trainee = GptTrainee::new(model.train_all(), memory);
    let mut outputs = Outputs::new();
    for name in &settings.cases {
        let clips = clips(inputs, name)?;
        evaluated(&trainee, name, &clips, &mut outputs)?;
    }
    let [first, second] = TRAINED.map(|name| clips(inputs, name));
    let (first, second) = (first?, second?);
    let noise = parts::input(inputs, "noise")?;
    decoded(trainee.network(), &second[0], &settings.sampling, noise, &mut outputs)?;
    let pack = |clips: &[GptClip]| {
        let packer = packer(trainee.network().config(), Parity::Correct, RowLayout::Packed);
        packer.pack(&uncropped(clips).iter().collect::<Vec<_>>(), STEP)
    };
    let batches = [pack(&first)?, pack(&second)?];
    parts::gradients(&mut trainee, &batches[0], &mut outputs, setup)?;
    parts::trained(&mut trainee, &batches, &settings.adamw, &mut outputs, setup)?;
    Ok(outputs)
}

fn packer(config: &GptConfig, parity: Parity, layout: RowLayout) -> Packer<'_> {
    Packer { config, parity, layout }
}

fn uncropped(clips: &[GptClip]) -> Vec<GptClip> {
    clips.iter().map(|clip| GptClip { crop: None, ..clip.clone() }).collect()
}

/// The clips of a batch.
fn clips(inputs: &Weights, name: &str) -> Result<Vec<GptClip>, TorchError> {
    let part = |part: &str| parts::input(inputs, &format!("{name}.{part}"));
    let text_lengths = integers(part("text_lengths")?);
    let samples = integers(part("wav_lengths")?);
    let (texts, codes) = (part("text_inputs")?, part("audio_codes")?);
    let mels = part("cond_mels")?;
    let crops = part("crops").ok().map(integers);
    let clip = |row: usize| {
        let first =
            |tensor: &Tensor, count: i64| integers(&tensor.get(row as i64).narrow(0, 0, count));
        let crop = crops.as_ref().map(|crops| crops[2 * row] as usize..crops[2 * row + 1] as usize);
        Ok(GptClip {
            text: first(texts, text_lengths[row]),
            codes: first(codes, (samples[row] as u64).div_ceil(1024) as i64),
            mel: Vec::try_from(mels.get(row as i64).contiguous().view(-1))?,
            crop,
        })
    };
    (0..samples.len()).map(clip).collect()
}

/// The intermediate tensors, layer by layer, and the losses of a batch in every layout and parity.
fn evaluated(
    trainee: &GptTrainee,
    name: &str,
    clips: &[GptClip],
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let config = trainee.network().config();
    let refs: Vec<&GptClip> = clips.iter().collect();
    let held_out = packer(config, Parity::Upstream, RowLayout::Packed);
    let batch = held_out.pack(&refs, Purpose::HeldOut)?;
    forward(trainee.network(), name, &batch, outputs);
    let mut add = |loss: &str, value: f64| {
        outputs.insert(format!("{name}.loss.{loss}"), Tensor::from_slice(&[value]));
    };
    let (text, audio) = losses(trainee, &batch)?;
    add("text", text);
    add("held_out", audio);
    for (parity, name) in [(Parity::Upstream, "upstream"), (Parity::Correct, "correct")] {
        // The layouts agree, so either may be compared with the reference.
        let layout = if parity == Parity::Upstream { RowLayout::Padded } else { RowLayout::Packed };
        let batch = packer(config, parity, layout).pack(&refs, STEP)?;
        add(name, losses(trainee, &batch)?.1);
    }
    Ok(())
}

fn losses(trainee: &GptTrainee, batch: &GptBatch) -> Result<(f64, f64), TorchError> {
    let means = trainee.evaluate(batch)?.means(&GptTrainee::count(batch));
    let of = |name| means.of(name).unwrap_or(f64::NAN);
    Ok((of(TEXT), of(AUDIO)))
}

fn forward(model: &Gpt, name: &str, batch: &GptBatch, outputs: &mut Outputs) {
    let _guard = tch::no_grad_guard();
    let (at, pass) = (model.place(batch), Pass::Evaluate);
    let mut add = |part: &str, tensor: Tensor| outputs.insert(format!("{name}.{part}"), tensor);
    let frames = model.conditioning_encoder.forward(&at.mels);
    let latents = model.conditioning_perceiver.forward(&frames, pass);
    add("encoder", frames);
    add("perceiver", latents.shallow_clone());
    let mut x = model.embed(&latents, &at, pass);
    let live: Vec<bool> = batch.live(model.config()).collect();
    let live = Tensor::from_slice(&live).nonzero().squeeze_dim(1).to_device(model.device());
    for (layer, block) in model.gpt.h.iter().enumerate() {
        x = block.forward(&x, &at.mask, pass);
        add(&format!("block.{layer}"), x.flatten(0, 1).index_select(0, &live));
    }
    let flat = x.flatten(0, 1);
    let states = |columns: &Tensor| flat.index_select(0, columns);
    add("logits.text", model.logits(&model.text_head, &states(&at.text.columns), pass));
    add("logits.audio", model.logits(&model.mel_head, &states(&at.audio.columns), pass));
}

/// The latents of a clip, its codes through the cache, codes drawn with the reference's noise, and
/// the states of the second pass.
fn decoded(
    model: &Gpt,
    clip: &GptClip,
    sampling: &GptSampling,
    noise: &Tensor,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let _guard = tch::no_grad_guard();
    let mel = Tensor::from_slice(&clip.mel).view([1, model.config().mels, -1]);
    let mel = mel.to_device(model.device()).to_kind(model.kind());
    let latents = model.conditioning(&mel, Pass::Evaluate).squeeze_dim(0);
    let prefix = model.prefix(&latents, &clip.text)?.squeeze_dim(0);
    let (mut caches, mut state) = model.prefill(&[&prefix], clip.codes.len() as i64);
    let mut logits = vec![model.step_logits(&state)];
    for code in &clip.codes {
        let code = Tensor::from_slice(&[*code]).view([1, 1]).to_device(model.device());
        state = model.follow(&code, &mut caches);
        logits.push(model.step_logits(&state));
    }
    outputs.insert("cache.logits".into(), Tensor::cat(&logits, 0));
    for (parity, name) in [(Parity::Upstream, "upstream"), (Parity::Correct, "correct")] {
        let (latents, text, most) = (&latents, &clip.text[..], usize::MAX);
        let mut noise = RecordedNoise { noise: noise.shallow_clone(), taken: 0 };
        let sentence = GptSentence { latents, text, most, noise: &mut noise };
        let spoken = model.speak(vec![sentence], sampling, parity)?;
        outputs.insert(format!("sampled.{name}"), Tensor::from_slice(&spoken[0].codes));
    }
    outputs.insert("hidden".into(), model.hidden_states(&latents, &clip.text, &clip.codes)?);
    outputs.insert("latents".into(), latents);
    Ok(())
}
