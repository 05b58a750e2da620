//! The pipeline: the meaning of a manifest, with everything resolved and typed.
//!
//! Immutable once built. Stages are in topological order and known by dense ids; names are for the
//! edges only.

mod executor;
mod hub;
mod sweep;
mod tolerance;

use std::collections::{BTreeMap, BTreeSet};

use cache::Link;
use camino::Utf8PathBuf;
use remote::{Address, Settings};
use stage_core::device::DeviceName;
use stage_core::{FieldType, Kind, Parameter, Parameters};

pub use executor::{Adapter, ExecutorSpec, Slurm};
pub use hub::{HubModel, SCHEME};
pub use sweep::{ScoreMeasure, Sweep, Trial, TrialPosition};
pub use tolerance::Tolerance;

/// The port that the items of an item stage arrive on.
pub const ITEMS: &str = "input";

/// The position of a stage in [`Pipeline::stages`]; its inputs come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageId(pub usize);

#[derive(Clone, Debug)]
pub struct Pipeline {
    pub name: String,
    /// The folder of the manifest; relative paths start here.
    pub base: Utf8PathBuf,
    /// The manifest file itself.
    pub file: Utf8PathBuf,
    pub stages: Vec<StageSpec>,
    pub assets: BTreeMap<String, Asset>,
    pub session: Session,
    pub remote: Option<RemoteSpec>,
    pub executors: BTreeMap<String, ExecutorSpec>,
    pub sweeps: Vec<Sweep>,
    pub written: ManifestText,
    /// Missing paths of stages and assets. A run may not need them.
    pub absent: BTreeSet<Utf8PathBuf>,
}

/// The text that the pipeline was read from, for other machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManifestText {
    pub text: String,
    /// Overrides such as `stage.voice.rate=22050`, in order.
    pub set: Vec<String>,
}

impl Pipeline {
    pub fn stage(&self, id: StageId) -> &StageSpec {
        &self.stages[id.0]
    }

    pub fn find(&self, name: &str) -> Option<&StageSpec> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// The values of the trial of a stage, if it has one.
    pub fn values_of(&self, spec: &StageSpec) -> Option<String> {
        let place = spec.place?;
        let trial = self.sweeps.get(place.sweep)?.trials.get(place.trial)?;
        Some(trial.told())
    }

    /// The files and folders that stages and assets are read from.
    pub fn paths(&self) -> BTreeSet<Utf8PathBuf> {
        let of = |stage: &StageSpec| -> Vec<Utf8PathBuf> {
            stage.paths().map(|(_, path)| self.base.join(path)).collect()
        };
        let assets = self.assets.values().map(|asset| self.base.join(&asset.path));
        self.stages.iter().flat_map(of).chain(assets).collect()
    }

    pub fn ids(&self) -> impl DoubleEndedIterator<Item = StageId> + use<> {
        (0..self.stages.len()).map(StageId)
    }

    /// These stages and all their upstream stages.
    pub fn with_upstream(&self, targets: &[StageId]) -> BTreeSet<StageId> {
        let mut wanted: BTreeSet<StageId> = targets.iter().copied().collect();
        for id in self.ids().rev() {
            if wanted.contains(&id) {
                wanted.extend(self.stage(id).upstream());
            }
        }
        wanted
    }

    /// The assets that these stages read, by name.
    pub fn assets_of(&self, stages: &BTreeSet<StageId>) -> BTreeSet<&str> {
        let inputs = stages.iter().flat_map(|id| self.stage(*id).inputs.values());
        let assets = inputs.flat_map(|input| &input.references).filter_map(Reference::asset);
        assets.collect()
    }

    /// A missing input file of the stage.
    pub fn absent_file(&self, spec: &StageSpec) -> Option<&Utf8PathBuf> {
        self.absent_files(spec).next()
    }

    /// The missing input files of the stage.
    pub fn absent_files(&self, spec: &StageSpec) -> impl Iterator<Item = &Utf8PathBuf> {
        let assets = self.assets_of(&BTreeSet::from([spec.id]));
        let of_assets = assets.iter().filter_map(|name| self.assets.get(*name));
        let mut read: BTreeSet<Utf8PathBuf> =
            of_assets.map(|asset| self.base.join(&asset.path)).collect();
        read.extend(spec.paths().map(|(_, path)| self.base.join(path)));
        self.absent.iter().filter(move |absent| read.contains(*absent))
    }
}

/// The store that machines share; it enters no key.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteSpec {
    pub address: Address,
    pub settings: Settings,
}

/// The conditions of a run; they enter no key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    pub stop_after_seconds: Option<f64>,
    pub price_per_hour: Option<f64>,
    /// The allowed GPU hours in any seven days.
    pub gpu_hours_per_week: Option<f64>,
    /// The allowed cost of all runs of the pipeline together, in the currency of the price.
    pub budget: Option<f64>,
    /// In the order in which they are written.
    pub prices: Vec<Price>,
    pub expected: ExpectedClips,
}

/// A GPU that can be rented by the hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    pub name: String,
    pub per_hour: f64,
    pub vram_bytes: u64,
    /// An A100 has speed 1.
    pub speed: f64,
}

/// Words in the names of GPUs of a compute capability below 8.0.
const OLDER_GPUS: [&str; 10] =
    ["t4", "v100", "p100", "p40", "k80", "m60", "rtx20", "2060", "2070", "2080"];

impl Price {
    /// False for GPUs that are known to be too old for bf16 and TF32, by their name in the table.
    pub fn may_have_bf16(&self) -> bool {
        let name = self.name.to_lowercase().replace([' ', '-', '_'], "");
        !OLDER_GPUS.iter().any(|older| name.contains(older))
    }
}

impl StageSpec {
    /// The precision that only newer GPUs have, if the stage demands one.
    pub fn newer_precision(&self) -> Option<&str> {
        let precision = self.parameters.text("precision").ok()?;
        ["bf16", "tf32"].contains(&precision).then_some(precision)
    }
}

/// Assumptions of estimates about recordings that do not exist yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectedClips {
    pub clips: Option<f64>,
    /// Total of all clips.
    pub sound_seconds: Option<f64>,
    /// The number of lines of the text files of sources, one for each item, as far as they were counted.
    pub lines: BTreeMap<StageId, f64>,
}

/// A file or folder that no stage made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// The path as written; relative to the manifest unless absolute.
    pub path: Utf8PathBuf,
    pub license: Option<String>,
    /// The model of the Hugging Face Hub that it is.
    pub hub: Option<HubModel>,
    /// Its commit, if it is on this machine.
    pub commit: Option<String>,
}

/// The work of a stage once its parameters are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageWork {
    Source,
    Item,
    Gather,
    /// A gather with checkpoints.
    Train,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    Stage { stage: StageId, port: &'static str },
    Asset(String),
}

impl Reference {
    pub fn asset(&self) -> Option<&str> {
        match self {
            Reference::Asset(name) => Some(name),
            Reference::Stage { .. } => None,
        }
    }
}

/// The part of an input data set that a stage reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Every field and the id.
    All,
    /// These fields, sorted by name; optional ones count as missing if absent.
    Fields { names: Vec<String>, id: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub references: Vec<Reference>,
    pub reads: Reads,
}

/// The export of an output to files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    pub port: &'static str,
    /// The field; `None` for a whole artifact.
    pub field: Option<String>,
    pub template: Template,
    /// True if large files are hard links to the objects in the cache.
    pub link: Link,
}

/// An export path: text and `{field}` places. `{id}` is the item's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(pub Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Text(String),
    Field(String),
}

/// Settings for the engine; only `salt` enters a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The number of items that may be quarantined before the stage fails.
    pub quarantine: Tolerance,
    /// The number of retries after a transient failure.
    pub retries: u32,
    /// For one item or batch, or for a whole gather.
    pub timeout_seconds: Option<f64>,
    /// Changing this text forces the work to run again.
    pub salt: Option<String>,
    /// `cpu`, `cuda`, `cuda:1`, or `auto`, for stages of the worker.
    pub device: DeviceName,
    /// The executor, unless the stage runs here.
    pub executor: Option<String>,
}

#[derive(Clone, Debug)]
pub struct StageSpec {
    pub id: StageId,
    /// The name in the manifest; for a matrix such as `voice[rate=16000]`.
    pub name: String,
    pub kind: &'static Kind,
    pub work: StageWork,
    /// The parameters of the kind, defaults filled in; absent ones are left out.
    pub parameters: Parameters,
    pub inputs: BTreeMap<&'static str, Input>,
    /// The fields known to be on each output, data set or artifact.
    pub fields: BTreeMap<&'static str, KnownFields>,
    pub exports: Vec<Export>,
    pub policy: Policy,
    /// The licences of every asset that this stage's outputs derive from.
    pub licenses: BTreeSet<String>,
    /// Its trial and rung, if it follows a sweep.
    pub place: Option<TrialPosition>,
    /// The scores that decide if it runs at all.
    pub gate: Vec<StageId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownFields {
    pub fields: BTreeMap<String, FieldType>,
    /// There may be further fields.
    pub open: bool,
    /// The kinds of the artifacts that items carry in `weights`; empty: unknown.
    pub brings: &'static [&'static str],
}

impl StageSpec {
    /// The files and folders that its parameters name.
    pub fn paths(&self) -> impl Iterator<Item = (String, &str)> {
        let of =
            |parameter: &'static Parameter| parameter.paths(self.parameters.get(parameter.name));
        self.kind.parameters.iter().flat_map(of)
    }

    /// The name as it is written in the manifest.
    pub fn written(&self) -> &str {
        self.name.split('[').next().unwrap_or(&self.name)
    }

    /// The family of the model that the stage trains or uses, as its kind declares it.
    pub fn family(&self) -> Option<&'static dyn stage_families::Family> {
        self.kind.cost.family().and_then(stage_families::find)
    }

    /// The stages that it reads, and those with the scores that it waits for.
    pub fn upstream(&self) -> impl Iterator<Item = StageId> + '_ {
        let references = self.inputs.values().flat_map(|input| &input.references);
        let read = references.filter_map(|reference| match reference {
            Reference::Stage { stage, .. } => Some(*stage),
            Reference::Asset(_) => None,
        });
        read.chain(self.gate.iter().copied())
    }
}
