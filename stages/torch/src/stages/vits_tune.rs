//! `vits.finetune`: trains VITS on clips.

use serde_json::json;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::vits::tune as vits_tune;

use crate::device::Machine;
use crate::lineage::ModelLineage;
use crate::train::log;
use crate::train::outputs::{NamedValues, TrainingOutcome};
use crate::vits::tune::{TunedVits, VitsTuning};

pub struct VitsFinetune {
    pub machine: Machine,
}

impl Stage for VitsFinetune {
    fn kind(&self) -> &'static Kind {
        &vits_tune::FINETUNE
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(TuneJob { setup, machine: self.machine.clone() })))
    }
}

struct TuneJob {
    setup: Setup,
    machine: Machine,
}

impl GatherJob for TuneJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let tuning = VitsTuning { setup: &self.setup, machine: &self.machine };
        let tuned = tuning.run(&input, context)?;
        let common = [model(&tuned), artifact::stored_tensors(&tuned.frozen)].concat();
        let more = [("discriminator", json!(tuned.discriminator))];
        let (kind, parameters) = (&vits_tune::FINETUNE, &self.setup.parameters);
        let rate = tuned.base.config.sampling_rate as u32;
        let how = log::LogContext { kind, parameters, more: &more, tag, rate };
        let (weights, trained, notes) = (&tuned.weights, &tuned.trained, tuned.notes);
        TrainingOutcome { port: "model", common, weights, trained, notes }.output(&how, context)
    }
}

/// The fields of a trained model, without its tensors.
fn model(tuned: &TunedVits) -> NamedValues {
    let lineage = ModelLineage {
        parent: tuned.parent.clone(),
        ..ModelLineage::from(&tuned.base.fields, vits_tune::FINETUNE.name)
    };
    tuned.base.carried(&lineage)
}

/// The original project's name of a figure in TensorBoard.
fn tag(name: &str) -> &str {
    match name {
        "loss" => "loss/g/total",
        "loss/mel" => "loss/g/mel",
        "loss/kl" => "loss/g/kl",
        "loss/duration" => "loss/g/dur",
        "loss/features" => "loss/g/fm",
        "loss/adversarial" => "loss/g/adv",
        "loss/discriminator" => "loss/d/total",
        "gradient_norm/generator" => "grad_norm_g",
        "gradient_norm/discriminator" => "grad_norm_d",
        "rate" => "learning_rate",
        other => other,
    }
}
