//! A recogniser on the recording of a fixture.

use serde::Deserialize;
use stage_families::wav2vec2::{CtcVocabulary, Preprocessor, Wav2Vec2Config};
use tch::Tensor;

use super::model::Wav2Vec2;
use crate::error::TorchError;
use crate::fixture::parts::{self, Outputs};
use crate::fixture::setup::Setup;
use crate::nn::weights::Weights;

/// `settings` of the fixture: the three files around the weights.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wav2Vec2FixtureSettings {
    config: serde_json::Value,
    preprocessor: serde_json::Value,
    vocabulary: serde_json::Value,
}

/// The output of the feature encoder, the logits, and the text as numbers of its characters.
pub fn outputs(
    settings: &serde_json::Value,
    weights: &[u8],
    samples: &[f32],
    setup: &Setup,
) -> Result<Outputs, TorchError> {
    let settings: Wav2Vec2FixtureSettings = parts::settings(settings)?;
    let config = Wav2Vec2Config::parse(settings.config.to_string().as_bytes())?;
    let preprocessor = Preprocessor::parse(settings.preprocessor.to_string().as_bytes())?;
    let vocabulary = CtcVocabulary::read(settings.vocabulary.to_string().as_bytes(), &config)?;
    let weights = Weights::from_safetensors(weights)?;
    let model = Wav2Vec2::load(&config, preprocessor, weights, setup.device)?;
    let frames = model.frames(samples);
    let logits = model.logits(&frames);
    let text = vocabulary.spell(&model.hear(samples));
    let text: Vec<i32> = text.chars().map(|character| character as i32).collect();
    Ok(Outputs::from([
        ("frames".into(), frames),
        ("logits".into(), logits),
        ("text".into(), Tensor::from_slice(&text)),
    ]))
}
