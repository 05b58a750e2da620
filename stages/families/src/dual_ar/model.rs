//! The cost of a text model, from its configuration.

use stage_core::{Kind, Parameters};

use super::{Config, fresh, kinds};
use crate::model::{Assumed, Model};
use crate::training::{Effort, Memory, Rows, Setting, TokenRows, Trainable};

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

impl Model for Config {
    fn parameters(&self) -> i64 {
        Config::parameters(self)
    }

    fn bytes(&self, stage: &Parameters) -> f64 {
        let each = match stage.text("dtype") {
            Ok("f32") => 2.0 * WEIGHT_BYTES,
            _ => WEIGHT_BYTES,
        };
        self.parameters() as f64 * each
    }

    fn share(&self) -> f64 {
        self.parameters() as f64 / PUBLISHED
    }

    fn trainable(&self) -> Option<&dyn Trainable> {
        Some(self)
    }
}

impl Trainable for Config {
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
}

pub fn read(config: &[u8]) -> Option<Box<dyn Model>> {
    Some(Box::new(Config::parse(config).ok()?))
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

pub fn assumed() -> Option<Assumed> {
    let told = "a text model that is not there is taken for openaudio-s1-mini: 860 million \
                parameters, 28 layers of 1,024, kept in bf16";
    Some(Assumed { model: Box::new(Config::s1_mini().ok()?), told })
}
