//! The cost of an XTTS model, from its configuration.

use serde_json::Value;
use stage_core::{Kind, Parameters};
use stage_formats::shapes::Expected;

use super::gpt_tensors::GPT_PREFIX;
use super::published::{Shapes, TextTokens};
use super::tensors::{DECODER_PREFIX, SPEAKER_ENCODER_PREFIX};
use super::{XttsConfig, fresh_config, kinds, parameters, speech};
use crate::model::{AssumedModel, Model, sizes};
use crate::training::Trainable;
use crate::working::{Working, keys_and_values};

/// The parts of the model that hear a voice.
const VOICE_PARTS: [&str; 3] =
    ["gpt.conditioning_encoder.", "gpt.conditioning_perceiver.", SPEAKER_ENCODER_PREFIX];
/// Published weights are in f32.
const WEIGHT_BYTES: f64 = 4.0;
/// Texts are spoken in pieces of about 250 characters at most, which are 100 tokens and 18 s.
const PIECE_TOKENS: i64 = 100;
const PIECE_SECONDS: f64 = 18.0;
/// Codes of 1,024 samples at 22,050 Hz.
const CODES_PER_SECOND: f64 = 22_050.0 / 1_024.0;
/// START and STOP of the text, START of the codes.
const MARKS: i64 = 3;

impl Model for XttsConfig {
    fn parameters(&self) -> i64 {
        parameters(&self.tensors())
    }

    fn bytes(&self, stage: &Parameters) -> f64 {
        let each = match stage.text("dtype") {
            Ok("bf16" | "fp16") => WEIGHT_BYTES / 2.0,
            _ => WEIGHT_BYTES,
        };
        self.parameters() as f64 * each
    }

    fn sizes(&self) -> Vec<i64> {
        sizes(&self.tensors())
    }

    /// A voice needs the conditioning and the speaker encoder, a sentence the GPT and the decoder,
    /// tokens the DVAE.
    fn held_bytes(&self, working: &Working<'_>) -> f64 {
        let parts: &[&str] = match working.kind.name {
            name if name == speech::VOICE.name => &VOICE_PARTS,
            name if name == speech::SYNTHESIZE.name => &[GPT_PREFIX, DECODER_PREFIX],
            _ => return self.bytes(working.parameters),
        };
        let tensors = self.tensors().into_iter();
        let is_held = |(name, _): &Expected| parts.iter().any(|part| name.starts_with(part));
        let held: Vec<Expected> = tensors.filter(is_held).collect();
        parameters(&held) as f64 * working.width(WEIGHT_BYTES)
    }

    fn share(&self) -> f64 {
        let speaking = |config: &XttsConfig| parameters(&config.model_tensors()) as f64;
        speaking(self) / speaking(&XttsConfig::published())
    }

    fn working_bytes(&self, working: &Working<'_>) -> f64 {
        if working.kind.name != speech::SYNTHESIZE.name {
            return 0.0;
        }
        let (gpt, most) = (&self.gpt, self.gpt.max_generated_tokens());
        let codes = working.parameters.integer("max_codes").unwrap_or(most).clamp(1, most.max(1));
        let columns = gpt.latents + PIECE_TOKENS.min(gpt.max_text_tokens) + MARKS + codes;
        let column = keys_and_values(gpt.layers, 1, gpt.width) * working.width(WEIGHT_BYTES);
        working.at_once(working.items * pieces(working)) * columns as f64 * column
    }

    fn spoken_seconds(&self, working: &Working<'_>) -> f64 {
        match working.parameters.integer("max_codes") {
            Ok(most) => working.seconds.min(pieces(working) * most as f64 / CODES_PER_SECOND),
            Err(_) => working.seconds,
        }
    }

    fn trainable(&self) -> Option<&dyn Trainable> {
        Some(self)
    }
}

/// The pieces that a text is split into, on average.
fn pieces(working: &Working<'_>) -> f64 {
    (working.seconds / PIECE_SECONDS).ceil().max(1.0)
}

/// From our own stored format, or from a published file without its tensors.
pub fn read(config: &[u8]) -> Option<Box<dyn Model>> {
    if let Ok(config) = XttsConfig::parse(config) {
        return Some(Box::new(config));
    }
    let file: Value = serde_json::from_slice(config).ok()?;
    let args = file.get("model_args")?;
    let published = XttsConfig::published().gpt;
    let given = args.get("gpt_number_text_tokens").and_then(Value::as_i64);
    let tokens = TextTokens {
        rows: given.unwrap_or(published.text_tokens),
        start: published.start_text_token,
        stop: published.stop_text_token,
    };
    let is_xtts = args.get("gpt_n_model_channels").is_some() || file.get("model")? == "xtts";
    let config = is_xtts.then(|| XttsConfig::read_published(config, &Shapes::new(), tokens).ok());
    Some(Box::new(config.flatten()?))
}

/// The model that `xtts.init` makes.
pub fn fresh(kind: &Kind, parameters: &Parameters) -> Option<Box<dyn Model>> {
    if kind.name != kinds::INIT.name {
        return None;
    }
    let (config, _) = fresh_config(parameters).ok()?;
    Some(Box::new(config))
}

pub fn assumed() -> AssumedModel {
    let told = "an XTTS model of unknown size has the size of XTTS v2: 518 million parameters \
                with its DVAE, kept in f32";
    AssumedModel { model: Box::new(XttsConfig::published()), told }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::ParameterValue;

    use super::*;
    use crate::working::tests::written_over_usual;

    /// 30 layers keep 1,024 channels of keys and of values for each of 737 columns.
    #[test]
    fn sentences_that_are_spoken_at_once_keep_keys_and_values_each() {
        let bytes = |written: &[(&str, ParameterValue)], items: f64, seconds: f64| {
            let parameters = written_over_usual(written);
            let (kind, is_gpu) = (&speech::SYNTHESIZE, true);
            let working =
                Working { kind, parameters: &parameters, items, seconds, threads: 1.0, is_gpu };
            XttsConfig::published().working_bytes(&working)
        };
        let row = 2.0 * 30.0 * 1024.0 * 4.0 * 737.0;
        let batch = |batch| ("batch", ParameterValue::Integer(batch));
        assert_eq!(bytes(&[], 100.0, 5.0), 8.0 * row);
        assert_eq!(bytes(&[batch(32)], 100.0, 5.0), 32.0 * row);
        assert_eq!(bytes(&[], 3.0, 5.0), 3.0 * row);
        assert_eq!(bytes(&[], 1.0, 60.0), 4.0 * row);
        let half = ("precision", ParameterValue::Text("fp16".into()));
        assert_eq!(bytes(&[half], 100.0, 5.0), 4.0 * row);
        let short = ("max_codes", ParameterValue::Integer(135));
        assert_eq!(bytes(&[short], 1.0, 5.0), row * 270.0 / 737.0);
    }

    #[test]
    fn a_limit_on_codes_shortens_each_piece() {
        let seconds = |written: &[(&str, ParameterValue)], seconds: f64| {
            let parameters = written_over_usual(written);
            let (kind, items, is_gpu) = (&speech::SYNTHESIZE, 1.0, false);
            let working =
                Working { kind, parameters: &parameters, items, seconds, threads: 1.0, is_gpu };
            XttsConfig::published().spoken_seconds(&working)
        };
        let short = [("max_codes", ParameterValue::Integer(43))];
        assert_eq!((seconds(&[], 60.0), seconds(&short, 1.5)), (60.0, 1.5));
        // 43 codes are 2 s, and a minute is four pieces.
        assert!((seconds(&short, 15.0) - 2.0).abs() < 0.01);
        assert!((seconds(&short, 60.0) - 8.0).abs() < 0.02);
    }

    #[test]
    fn both_forms_of_a_configuration_tell_the_size() {
        let config = XttsConfig::published();
        let stored = read(&config.to_json().unwrap()).unwrap();
        let published = read(&config.published_file(None).unwrap()).unwrap();
        assert_eq!((stored.parameters(), published.parameters()), (518_442_047, 518_442_047));
        assert_eq!(stored.bytes(&Parameters::default()), 518_442_047.0 * 4.0);
        assert!((stored.share() - 1.0).abs() < 1e-9);
        for other in [&b"{}"[..], b"[]", br#"{"model_type": "vits"}"#] {
            assert!(read(other).is_none());
        }
    }
}
