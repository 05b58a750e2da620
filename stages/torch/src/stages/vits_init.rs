//! `vits.init`: a VITS model with random weights.

use stage_core::{Context, GatherInput, GatherOutput, Parameters, StageError};
use stage_families::artifact;
use stage_families::vits::kinds as vits;
use stage_families::vits::{TextRules, fresh_config, tokenizer_config_file, vocabulary_file};

use super::fresh::{self, Init};
use crate::vits::{VitsConfig, fresh as drawn};

pub const STAGE: Init = Init { kind: &vits::INIT, draw };

fn draw(
    parameters: &Parameters,
    _: &GatherInput,
    context: &mut dyn Context,
) -> Result<GatherOutput, StageError> {
    let symbols: Vec<String> = parameters.text("characters")?.chars().map(String::from).collect();
    let rules = TextRules { add_blank: true, is_uroman: false };
    let vocabulary = vocabulary_file(&symbols)?;
    let text = fresh::config_file(&fresh_config(parameters, symbols.len() as i64)?)?;
    let config = VitsConfig::parse(&text)?;
    let files = vec![
        (artifact::CONFIG, text),
        (artifact::VOCABULARY, vocabulary),
        (artifact::TOKENIZER_CONFIG, tokenizer_config_file(&symbols, rules)),
    ];
    let seed = parameters.integer("seed")? as u64;
    let judge = if parameters.flag("discriminator")? {
        Some(drawn::discriminator(&config, seed))
    } else {
        None
    };
    let generator = drawn::generator(&config, seed);
    let tensors = generator.into_iter().chain(judge.into_iter().flatten());
    fresh::output((&vits::INIT, artifact::VITS), files, tensors, context)
}
