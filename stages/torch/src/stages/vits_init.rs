//! `vits.init`: a VITS model with random weights.

use stage_core::catalogue::vits;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, Parameters, PortOutput,
    Setup, Stage, StageError,
};
use stage_formats::artifact::{self, CONFIG_KIND, TOKENIZER_KIND};
use stage_formats::vits::{TextRules, fresh_config, tokenizer_config_file, vocabulary_file};

use crate::error::guarded;
use crate::lineage::{self, ModelLineage};
use crate::stored;
use crate::vits::{Config, fresh};

pub struct VitsInit;

impl Stage for VitsInit {
    fn kind(&self) -> &'static Kind {
        &vits::INIT
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
        _: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        guarded(|| self.make(context))
    }
}

impl InitJob {
    fn make(&self, context: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let symbols: Vec<String> =
            self.parameters.text("characters")?.chars().map(String::from).collect();
        let rules = TextRules { add_blank: true, is_uroman: false };
        let vocabulary = vocabulary_file(&symbols)?;
        let text =
            serde_json::to_string_pretty(&fresh_config(&self.parameters, symbols.len() as i64)?)
                .map_err(|error| StageError::failed(format!("the configuration: {error}")))?;
        let config = Config::parse(text.as_bytes())?;
        let lineage = ModelLineage {
            made_by: vits::INIT.name.to_owned(),
            random: true,
            ..ModelLineage::default()
        };
        let file = |kind: &str, bytes: Vec<u8>| NewValue::bytes(kind, bytes);
        let reading = tokenizer_config_file(&symbols, rules);
        let mut values = vec![
            (artifact::CONFIG.to_owned(), file(CONFIG_KIND, text.into_bytes())),
            (artifact::VOCABULARY.to_owned(), file(TOKENIZER_KIND, vocabulary)),
            (artifact::TOKENIZER_CONFIG.to_owned(), file(TOKENIZER_KIND, reading)),
            (artifact::FAMILY.to_owned(), NewValue::Text(artifact::VITS.to_owned())),
            (artifact::LINEAGE.to_owned(), NewValue::Text(lineage::to_text(&lineage))),
        ];
        let seed = self.parameters.integer("seed")? as u64;
        let judge = match self.parameters.flag("discriminator")? {
            true => Some(fresh::discriminator(&config, seed)?),
            false => None,
        };
        let weights = fresh::generator(&config, seed)?;
        for (name, tensor) in weights.into_iter().chain(judge.into_iter().flatten()) {
            let kept = stored::keep(&tensor, context)?;
            values.push((artifact::tensor_field(&name), NewValue::blob(kept)));
        }
        Ok(GatherOutput::default().with("model", PortOutput::Artifact(values)))
    }
}
