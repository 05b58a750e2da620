//! `fish.init`: a text model with random weights.

use stage_core::catalogue::fish;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, Parameters, PortOutput,
    Setup, Stage, StageError,
};
use stage_formats::artifact;
use stage_formats::dual_ar::fresh;

use super::codec;
use crate::codec::CodecFormat;
use crate::dual_ar::{Config, DualAr};
use crate::error::{TorchError, guarded};
use crate::fish::vocabulary::{MARKS, byte_level};
use crate::lineage::{self, ModelLineage};
use crate::stored;

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
        let published = fresh::published(&self.parameters, (codebooks, entries), words)?;
        let text = serde_json::to_string_pretty(&published)
            .map_err(|error| StageError::failed(format!("the configuration: {error}")))?;
        let config = Config::parse(text.as_bytes())?;
        let (ranks, marks) = byte_level(entries);
        let lineage = ModelLineage {
            made_by: fish::INIT.name.to_owned(),
            random: true,
            ..ModelLineage::default()
        };
        let file = |kind: &str, text: String| NewValue::bytes(kind, text.into_bytes());
        let mut values = vec![
            (artifact::CONFIG.to_owned(), file(artifact::CONFIG_KIND, text)),
            (artifact::TOKENIZER.to_owned(), file(artifact::TOKENIZER_KIND, ranks)),
            (artifact::SPECIAL_TOKENS.to_owned(), file(artifact::TOKENIZER_KIND, marks)),
            (artifact::FAMILY.to_owned(), NewValue::Text(artifact::DUAL_AR.to_owned())),
            (artifact::LINEAGE.to_owned(), NewValue::Text(lineage::to_text(&lineage))),
        ];
        let kind = match self.parameters.text("dtype")? {
            "bf16" => tch::Kind::BFloat16,
            _ => tch::Kind::Float,
        };
        for (name, tensor) in DualAr::fresh(&config, self.parameters.integer("seed")? as u64)? {
            let tensor = tensor.f_to_kind(kind).map_err(TorchError::from)?;
            let kept = stored::keep(&tensor, context)?;
            values.push((artifact::tensor_field(&name), NewValue::blob(kept)));
        }
        Ok(GatherOutput::default().with("model", PortOutput::Artifact(values)))
    }

    fn figure(&self, name: &str, default: i64) -> Result<i64, StageError> {
        match self.parameters.is_set(name) {
            true => self.parameters.integer(name),
            false => Ok(default),
        }
    }

    /// Codebooks and the entries of the largest one.
    fn codes(&self, format: Option<&CodecFormat>) -> Result<(i64, i64), StageError> {
        let known = format.map(|format| {
            let entries = format.entries.iter().max().copied().unwrap_or(0);
            (format.entries.len() as i64, entries as i64)
        });
        let preset = match fresh::is_s1_mini(&self.parameters)? {
            true => Some(fresh::PUBLISHED_CODES),
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
