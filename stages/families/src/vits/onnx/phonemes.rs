//! The files beside the graph of a model that reads phonemes, as Piper's voices do: the tokens are the same.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stage_core::StageError;

use super::symbols::PiperReading;
use crate::vits::{Phonemes, VitsConfig, VitsTokenizer};

/// The `.onnx.json` of Piper.
pub fn description(
    config: &VitsConfig,
    tokenizer: &VitsTokenizer,
    speakers: Option<&[String]>,
) -> Value {
    let symbols = tokenizer.symbols();
    let ids: Map<String, Value> =
        symbols.map(|(symbol, token)| (symbol.to_string(), json!([token]))).collect();
    let reading = PiperReading {
        voice: tokenizer.voice().unwrap_or_default(),
        language: tokenizer.voice().map(code).unwrap_or_default(),
        phoneme_type: if tokenizer.reads_phonemes() { "espeak" } else { "text" },
        symbols: config.vocab_size,
        ids,
    };
    reading.description(config, speakers)
}

/// The code of Piper for a voice of espeak-ng: `en_US` for `en-us`.
fn code(voice: &str) -> String {
    match voice.split_once('-') {
        Some((language, region)) => format!("{language}_{}", region.to_uppercase()),
        None => voice.to_owned(),
    }
}

/// The metadata by which sherpa knows a voice of Piper, so that it reads the same graph.
pub fn metadata(config: &VitsConfig, phonemes: &Phonemes) -> BTreeMap<String, String> {
    let voice = phonemes.voice.as_deref().unwrap_or_default();
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    BTreeMap::from([
        text("model_type", "vits"),
        text("comment", "piper"),
        text("language", voice.split('-').next().unwrap_or_default()),
        text("voice", voice),
        text("has_espeak", if voice.is_empty() { "0" } else { "1" }),
        text("n_speakers", &config.num_speakers.to_string()),
        text("sample_rate", &config.sampling_rate.to_string()),
    ])
}

/// `tokens.txt` of sherpa: a symbol and its token on each line.
pub fn tokens(tokenizer: &VitsTokenizer) -> String {
    tokenizer.symbols().map(|(symbol, token)| format!("{symbol} {token}\n")).collect()
}

pub fn refused() -> StageError {
    StageError::with_help(
        "the model reads phonemes of espeak-ng: sherpa reads it as a voice of Piper",
        "use `target = \"piper\"`, which also writes `tokens.txt`",
    )
}
