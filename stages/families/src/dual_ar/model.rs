//! The cost of a text model, from its configuration.

use cache::Digest;
use stage_core::{Fields, Kind, Parameters};

use super::{DualArConfig, Stack, clip, fresh, kinds};
use crate::model::{AssumedModel, Model, sizes};
use crate::training::{Effort, Memory, Rows, Setting, TokenRows, Trainable};
use crate::working::{Working, keys_and_values};

/// Published weights are in bf16.
const WEIGHT_BYTES: f64 = 2.0;
/// The size of the tokenizer of `fish.init` without the codes, to the nearest multiple of the
/// table.
const WORDS: i64 = 271;
/// Parameters of the published model.
const PUBLISHED: f64 = 860e6;
/// Special tokens and the prompt of each clip.
const TOKENS_PER_CLIP: f64 = 20.0;
/// The share of a row that is filled with whole clips.
const FILLED: f64 = 0.95;
/// Frames of published codecs, and tokens of the text, for a second of speech.
const FRAMES_PER_SECOND: f64 = 21.5;
const TEXT_PER_SECOND: f64 = 5.5;
/// The speaking rate for estimating the duration of a text.
const LETTERS_PER_SECOND: f64 = 14.0;
/// Columns of the prompt beside the text: its marks, and a reference of some seconds.
const PROMPT: f64 = 200.0;

impl Model for DualArConfig {
    fn parameters(&self) -> i64 {
        DualArConfig::parameters(self)
    }

    fn bytes(&self, stage: &Parameters) -> f64 {
        let each = match stage.text("dtype") {
            Ok("f32") => 2.0 * WEIGHT_BYTES,
            _ => WEIGHT_BYTES,
        };
        self.parameters() as f64 * each
    }

    fn sizes(&self) -> Vec<i64> {
        sizes(&self.tensors())
    }

    /// In the type that is computed in. While its largest tensor is loaded it is also in memory as
    /// it is stored.
    fn held_bytes(&self, working: &Working<'_>) -> f64 {
        let width = working.width(WEIGHT_BYTES);
        self.parameters() as f64 * width + self.largest_tensor() as f64 * WEIGHT_BYTES
    }

    fn share(&self) -> f64 {
        self.parameters() as f64 / PUBLISHED
    }

    fn working_bytes(&self, working: &Working<'_>) -> f64 {
        if working.kind.name != kinds::SYNTHESIZE.name {
            return 0.0;
        }
        let parameters = working.parameters;
        let number = |name: &str, usual: f64| parameters.number(name).unwrap_or(usual);
        let pace = LETTERS_PER_SECOND / number("characters_per_second", LETTERS_PER_SECOND);
        let limit = working.seconds * pace * number("limit", 1.0) * FRAMES_PER_SECOND;
        let frames = match parameters.integer("max_frames") {
            Ok(most) if most > 0 => limit.min(most as f64),
            _ => limit,
        };
        let columns = PROMPT + working.seconds * TEXT_PER_SECOND + frames;
        let columns = columns.min(self.max_seq_len as f64);
        let cached = |stack: &Stack| keys_and_values(stack.layers, stack.kv_heads, stack.head_dim);
        let row = cached(&self.slow) * columns + cached(&self.fast) * self.num_codebooks as f64;
        working.at_once(working.items) * row * working.width(WEIGHT_BYTES)
    }

    fn spoken_seconds(&self, working: &Working<'_>) -> f64 {
        match working.parameters.integer("max_frames") {
            Ok(most) if most > 0 => working.seconds.min(most as f64 / FRAMES_PER_SECOND),
            _ => working.seconds,
        }
    }

    fn trainable(&self) -> Option<&dyn Trainable> {
        Some(self)
    }
}

impl Trainable for DualArConfig {
    fn rows(&self, parameters: &Parameters) -> Rows {
        let is_packed = parameters.flag("packing").unwrap_or(true);
        Rows::Tokens(TokenRows {
            longest: self.max_seq_len,
            per_clip: TOKENS_PER_CLIP,
            filled: is_packed.then_some(FILLED),
            told: "a second of speech is 27 tokens with its text, and rows are 95 % full",
        })
    }

    fn memory(&self, setting: &Setting) -> Memory {
        self.training_memory(setting)
    }

    fn effort(&self, setting: &Setting) -> Effort {
        Effort::Operations(self.training_operations(setting))
    }

    fn clip(&self, _: &Parameters, fields: &Fields) -> Option<Digest> {
        clip::of_fields(fields)
    }

    fn clip_salt(&self) -> &'static str {
        clip::CLIP_SALT
    }
}

pub fn read(config: &[u8]) -> Option<Box<dyn Model>> {
    Some(Box::new(DualArConfig::parse(config).ok()?))
}

/// The model that `fish.init` makes.
pub fn fresh(
    kind: &Kind,
    parameters: &Parameters,
    codec: Option<&Parameters>,
) -> Option<Box<dyn Model>> {
    if kind.name != kinds::INIT.name {
        return None;
    }
    let codes =
        |of: &Parameters| Some((of.integer("codebooks").ok()?, of.integer("entries").ok()?));
    let codes = codes(parameters).or_else(|| codec.and_then(codes));
    let codes = codes.unwrap_or(fresh::PUBLISHED_CODES);
    read(fresh::published(parameters, codes, WORDS).ok()?.to_string().as_bytes())
}

pub fn assumed() -> Option<AssumedModel> {
    let told = "a text model of unknown size has the size of openaudio-s1-mini: 860 million \
                parameters, 28 layers of 1,024, kept in bf16";
    Some(AssumedModel { model: Box::new(DualArConfig::s1_mini().ok()?), told })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::ParameterValue;

    use super::*;
    use crate::working::tests::written_over_usual;

    /// A figure of the published model that speaks sentences of 10 s.
    fn with(
        written: &[(&str, ParameterValue)],
        items: f64,
        figure: fn(&DualArConfig, &Working<'_>) -> f64,
    ) -> f64 {
        let parameters = written_over_usual(written);
        let (kind, seconds, is_gpu) = (&kinds::SYNTHESIZE, 10.0, true);
        let working =
            Working { kind, parameters: &parameters, items, seconds, threads: 1.0, is_gpu };
        figure(&DualArConfig::s1_mini().unwrap(), &working)
    }

    #[test]
    fn a_limit_on_frames_shortens_a_sentence() {
        let seconds = |most| {
            let written = [("max_frames", ParameterValue::Integer(most))];
            with(&written, 1.0, |model, working| model.spoken_seconds(working))
        };
        assert_eq!((seconds(0), seconds(43), seconds(430)), (10.0, 2.0, 10.0));
    }

    /// 28 layers keep 8 heads of 128 keys and of values for each column; the fast ones are 4 layers
    /// with heads of 64, for 10 columns.
    #[test]
    fn sentences_that_are_spoken_at_once_keep_keys_and_values_each() {
        let bytes = |written: &[(&str, ParameterValue)], items: f64| {
            with(written, items, |model, working| model.working_bytes(working))
        };
        let column = 2.0 * 8.0 * 128.0 * 2.0;
        let row = |frames: f64| column * (28.0 * (255.0 + frames) + 4.0 * 10.0 / 2.0);
        let batch = |batch| ("batch", ParameterValue::Integer(batch));
        let usual = bytes(&[], 100.0);
        assert!((usual / (8.0 * row(645.0)) - 1.0).abs() < 1e-9, "{usual}");
        assert_eq!(bytes(&[batch(32)], 100.0), 4.0 * usual);
        assert_eq!(bytes(&[], 2.0), usual / 4.0);
        let single = ("precision", ParameterValue::Text("f32".into()));
        assert_eq!(bytes(&[single], 100.0), 2.0 * usual);
        let short = ("max_frames", ParameterValue::Integer(45));
        assert_eq!(bytes(&[short], 1.0), row(45.0));
        // No row is longer than the model has positions.
        let long = ("limit", ParameterValue::Number(1000.0));
        let most = DualArConfig::s1_mini().unwrap().max_seq_len as f64;
        assert_eq!(bytes(&[long], 1.0), row(most - 255.0));
    }
}
