//! `xtts.init`: an XTTS model with random weights.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, Parameters, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::xtts::{Fresh, fresh_config, kinds};

use super::fresh;
use crate::error::guarded;
use crate::xtts::fresh::weights;

pub struct XttsInit;

impl Stage for XttsInit {
    fn kind(&self) -> &'static Kind {
        &kinds::INIT
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
        let Fresh { config, vocabulary } = fresh_config(&self.parameters)?;
        let files = vec![
            (artifact::CONFIG, config.to_json()?),
            (artifact::VOCABULARY, vocabulary.to_json()?),
        ];
        let tensors = weights(&config, self.parameters.integer("seed")? as u64)?;
        fresh::output((&kinds::INIT, artifact::XTTS), files, tensors, context)
    }
}
