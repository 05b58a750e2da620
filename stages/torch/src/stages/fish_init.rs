//! `fish.init`: a text model with random weights.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, Parameters, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::dual_ar::fresh as published;
use stage_families::dual_ar::kinds as fish;

use super::{codec, fresh};
use crate::codec::CodecFormat;
use crate::dual_ar::{Config, DualAr};
use crate::error::{TorchError, guarded};
use crate::fish::vocabulary::{MARKS, byte_level};

pub struct FishInit;

impl Stage for FishInit {
    fn kind(&self) -> &'static Kind {
        &fish::INIT
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(InitJob { parameters: setup.parameters })))
    }
}

struct InitJob {
    parameters: Parameters,
}

impl GatherJob for InitJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let format = match input.artifact("codec") {
            Some(codec) => Some(codec::format(codec, context)?),
            None => None,
        };
        guarded(|| self.make(format.as_ref(), context))
    }
}

impl InitJob {
    fn make(
        &self,
        format: Option<&CodecFormat>,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let (codebooks, entries) = self.codes(format)?;
        let words = 256 + MARKS.len() as i64;
        let shape = published::published(&self.parameters, (codebooks, entries), words)?;
        let text = fresh::config_file(&shape)?;
        let config = Config::parse(&text)?;
        let (ranks, marks) = byte_level(entries);
        let files = vec![
            (artifact::CONFIG, text),
            (artifact::TOKENIZER, ranks.into_bytes()),
            (artifact::SPECIAL_TOKENS, marks.into_bytes()),
        ];
        let kind = match self.parameters.text("dtype")? {
            "bf16" => tch::Kind::BFloat16,
            _ => tch::Kind::Float,
        };
        let tensors = DualAr::fresh(&config, self.parameters.integer("seed")? as u64)?;
        let stored = |(name, tensor): (String, tch::Tensor)| Ok((name, tensor.f_to_kind(kind)?));
        let tensors: Vec<_> = tensors.into_iter().map(stored).collect::<Result<_, TorchError>>()?;
        fresh::output((&fish::INIT, artifact::DUAL_AR), files, tensors, context)
    }

    fn figure(&self, name: &str, default: i64) -> Result<i64, StageError> {
        match self.parameters.is_set(name) {
            true => self.parameters.integer(name),
            false => Ok(default),
        }
    }

    /// The number of codebooks, and the entries of the largest one.
    fn codes(&self, format: Option<&CodecFormat>) -> Result<(i64, i64), StageError> {
        let known = format.map(|format| {
            let entries = format.entries.iter().max().copied().unwrap_or(0);
            (format.entries.len() as i64, entries as i64)
        });
        let preset = match published::is_s1_mini(&self.parameters)? {
            true => Some(published::PUBLISHED_CODES),
            false => None,
        };
        let (codebooks, entries) = known.or(preset).unwrap_or((0, 0));
        let codes = (self.figure("codebooks", codebooks)?, self.figure("entries", entries)?);
        match codes.0 > 0 && codes.1 > 0 {
            true => Ok(codes),
            false => Err(StageError::with_help(
                "it is not said what tokens the model is for",
                "give `codec` the codec, or the parameters `codebooks` and `entries`",
            )),
        }
    }
}
