//! `fish.init`: a text model with random weights.

use stage_core::{Context, GatherInput, GatherOutput, Parameters, StageError};
use stage_families::artifact;
use stage_families::dual_ar::fresh as published;
use stage_families::dual_ar::kinds as fish;

use super::codec;
use super::fresh::{self, Init};
use crate::dual_ar::{DualAr, DualArConfig};
use crate::error::TorchError;
use crate::fish::vocabulary::{MARKS, byte_level};
use crate::sound::codec::CodecFormat;

pub const STAGE: Init = Init { kind: &fish::INIT, draw };

fn draw(
    parameters: &Parameters,
    input: &GatherInput,
    context: &mut dyn Context,
) -> Result<GatherOutput, StageError> {
    let codec = input.artifact("codec");
    let format = codec.map(|codec| codec::format(codec, context)).transpose()?;
    let (codebooks, entries) = codes(parameters, format.as_ref())?;
    let words = 256 + MARKS.len() as i64;
    let shape = published::published(parameters, (codebooks, entries), words)?;
    let text = fresh::config_file(&shape)?;
    let config = DualArConfig::parse(&text)?;
    // The published vocabulary is far larger than a tokenizer of bytes.
    let unused =
        if published::is_s1_mini(parameters)? { config.vocab_size - words - entries } else { 0 };
    let (ranks, marks) = byte_level(entries, unused);
    let files = vec![
        (artifact::CONFIG, text),
        (artifact::TOKENIZER, ranks.into_bytes()),
        (artifact::SPECIAL_TOKENS, marks.into_bytes()),
    ];
    let kind = match parameters.text("dtype")? {
        "bf16" => tch::Kind::BFloat16,
        _ => tch::Kind::Float,
    };
    let tensors = DualAr::fresh(&config, parameters.integer("seed")? as u64);
    let stored = |(name, tensor): (String, tch::Tensor)| Ok((name, tensor.to_kind(kind)));
    let tensors: Vec<_> = tensors.into_iter().map(stored).collect::<Result<_, TorchError>>()?;
    fresh::output((&fish::INIT, artifact::DUAL_AR), files, tensors, context)
}

/// The number of codebooks, and the entries of the largest one.
fn codes(parameters: &Parameters, format: Option<&CodecFormat>) -> Result<(i64, i64), StageError> {
    let known = format.map(|format| {
        let entries = format.entries.iter().max().copied().unwrap_or(0);
        (format.entries.len() as i64, entries as i64)
    });
    let preset =
        if published::is_s1_mini(parameters)? { Some(published::PUBLISHED_CODES) } else { None };
    let (codebooks, entries) = known.or(preset).unwrap_or((0, 0));
    let codes = (
        parameters.integer_or("codebooks", codebooks)?,
        parameters.integer_or("entries", entries)?,
    );
    if codes.0 > 0 && codes.1 > 0 {
        Ok(codes)
    } else {
        Err(StageError::with_help(
            "the number of codebooks and entries is unknown",
            "set `codec`, or the parameters `codebooks` and `entries`",
        ))
    }
}
