//! `vits.init`: a VITS model with random weights.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, Parameters, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::vits::kinds as vits;
use stage_families::vits::{TextRules, fresh_config, tokenizer_config_file, vocabulary_file};

use super::fresh;
use crate::error::guarded;
use crate::vits::{Config, fresh as drawn};

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
        let text = fresh::config_file(&fresh_config(&self.parameters, symbols.len() as i64)?)?;
        let config = Config::parse(&text)?;
        let files = vec![
            (artifact::CONFIG, text),
            (artifact::VOCABULARY, vocabulary),
            (artifact::TOKENIZER_CONFIG, tokenizer_config_file(&symbols, rules)),
        ];
        let seed = self.parameters.integer("seed")? as u64;
        let judge = match self.parameters.flag("discriminator")? {
            true => Some(drawn::discriminator(&config, seed)?),
            false => None,
        };
        let generator = drawn::generator(&config, seed)?;
        let tensors = generator.into_iter().chain(judge.into_iter().flatten());
        fresh::output((&vits::INIT, artifact::VITS), files, tensors, context)
    }
}
