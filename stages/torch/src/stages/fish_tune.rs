//! `fish.finetune` and `fish.lora`: trains a text model, or adapters for it.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::dual_ar::kinds as fish;

use crate::error::guarded;
use crate::fish::tune::{Method, Tuned, Tuning};
use crate::lineage::{self, AdapterLineage, ModelLineage};
use crate::lora::LoraSettings;
use crate::machine::Machine;
use crate::train::log;
use crate::train::outputs::Outcome;

type Values = Vec<(String, NewValue)>;

pub struct FishFinetune {
    pub machine: Machine,
}

impl Stage for FishFinetune {
    fn kind(&self) -> &'static Kind {
        &fish::FINETUNE
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(TuneJob { setup, machine: self.machine.clone(), lora: None })))
    }
}

pub struct FishLora {
    pub machine: Machine,
}

impl Stage for FishLora {
    fn kind(&self) -> &'static Kind {
        &fish::LORA
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let parameters = &setup.parameters;
        let patterns = parameters.texts("modules")?.into_iter().map(str::to_owned).collect();
        let lora = LoraSettings {
            rank: parameters.integer("rank")?,
            alpha: parameters.number("alpha")?,
            dropout: parameters.number("dropout")?,
            patterns,
        };
        let machine = self.machine.clone();
        Ok(Job::Gather(Box::new(TuneJob { setup, machine, lora: Some(lora) })))
    }
}

struct TuneJob {
    setup: Setup,
    machine: Machine,
    /// None trains the whole model.
    lora: Option<LoraSettings>,
}

impl GatherJob for TuneJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let method = match &self.lora {
            None => Method::Whole,
            Some(lora) => Method::Adapters(lora.clone()),
        };
        let tuning = Tuning { setup: &self.setup, machine: &self.machine, method };
        let tuned = guarded(|| tuning.run(&input, context))?;
        let (kind, port, common) = match &self.lora {
            None => (&fish::FINETUNE, "model", model(&tuned)),
            Some(lora) => (&fish::LORA, "adapters", adapters(&tuned, lora)),
        };
        let parameters = &self.setup.parameters;
        let how = log::LogContext { kind, parameters, more: &[], tag: |name| name, rate: 0 };
        let (weights, trained, notes) = (&tuned.weights, &tuned.trained, tuned.notes);
        Outcome { port, common, weights, trained, notes }.output(&how, context)
    }
}

/// The fields of a trained model, without its tensors.
fn model(tuned: &Tuned) -> Values {
    let lineage = ModelLineage {
        parent: tuned.parent.clone(),
        ..ModelLineage::from(&tuned.base.fields, fish::FINETUNE.name)
    };
    tuned.base.carried(&lineage)
}

/// The fields of trained adapters, without their tensors.
fn adapters(tuned: &Tuned, lora: &LoraSettings) -> Values {
    let lineage = AdapterLineage {
        base: lineage::digest(&tuned.base.fields).to_string(),
        rank: lora.rank,
        alpha: lora.alpha,
        modules: lora.patterns.clone(),
        parent: tuned.parent.clone(),
    };
    let text = |text: &str| NewValue::Text(text.to_owned());
    let mut values = vec![
        (artifact::FAMILY.to_owned(), text(artifact::LORA)),
        (artifact::LINEAGE.to_owned(), text(&lineage::to_text(&lineage))),
    ];
    let license = tuned.base.fields.get(artifact::LICENSE);
    values.extend(
        license.map(|license| (artifact::LICENSE.to_owned(), NewValue::Kept(license.clone()))),
    );
    values
}
