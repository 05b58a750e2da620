//! `vits.finetune`: VITS trained on clips.

use serde_json::json;
use stage_core::catalogue::vits_tune;
use stage_core::{
    Blob, Context, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, PortOutput, Setup,
    Stage, StageError,
};
use stage_formats::artifact;

use crate::error::guarded;
use crate::lineage::ModelLineage;
use crate::machine::Machine;
use crate::train::{kept, log};
use crate::vits::tune::{Tuned, Tuning};

type Values = Vec<(String, NewValue)>;

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
        let tuning = Tuning { setup: &self.setup, machine: &self.machine };
        let tuned = guarded(|| tuning.run(&input, context))?;
        let common = [model(&tuned), artifact::stored_tensors(&tuned.frozen)].concat();
        let with = |weights: &[(String, Blob)]| {
            [common.clone(), artifact::stored_tensors(weights)].concat()
        };
        let more = [("discriminator", json!(tuned.discriminator))];
        let how =
            log::How { kind: self.kind(), parameters: &self.setup.parameters, more: &more, tag };
        let log = log::fields(&tuned.trained, &how)?;
        let output = GatherOutput::default()
            .with("model", PortOutput::Artifact(with(&tuned.weights)))
            .with("log", PortOutput::Artifact(log))
            .with("checkpoints", PortOutput::Dataset(kept::items(&tuned.trained, with)?));
        Ok(GatherOutput { notes: tuned.notes, ..output })
    }
}

impl TuneJob {
    fn kind(&self) -> &'static Kind {
        &vits_tune::FINETUNE
    }
}

/// The fields of a model that was trained, without its tensors.
fn model(tuned: &Tuned) -> Values {
    let lineage = ModelLineage {
        parent: tuned.parent.clone(),
        ..ModelLineage::from(&tuned.base.fields, vits_tune::FINETUNE.name)
    };
    tuned.base.carried(&lineage)
}

/// As the original project calls a figure in TensorBoard.
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
