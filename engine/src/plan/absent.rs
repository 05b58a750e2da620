//! Files and folders that do not exist yet: a plan can be made without them, a run cannot.

use camino::Utf8PathBuf;

use super::planner::Planner;
use super::stage::StagePlan;
use super::work::Work;
use crate::pipeline::{Reference, StageSpec};
use crate::reason::Reason;

impl<'a> Planner<'a> {
    /// A missing input file of the stage.
    pub fn absent(&self, spec: &StageSpec) -> Option<&'a Utf8PathBuf> {
        let pipeline = self.pipeline;
        let mut absent = pipeline.absent.iter();
        absent.find(|absent| {
            let is_it = |path: &str| pipeline.base.join(path) == **absent;
            let is_asset = |reference: &Reference| match reference {
                Reference::Asset(name) => {
                    pipeline.assets.get(name).is_some_and(|asset| is_it(asset.path.as_str()))
                }
                Reference::Stage { .. } => false,
            };
            let mut references = spec.inputs.values().flat_map(|input| &input.references);
            references.any(is_asset) || spec.paths().any(|(_, path)| is_it(path))
        })
    }

    pub fn is_absent(&self, path: &Utf8PathBuf) -> bool {
        self.pipeline.absent.contains(&self.pipeline.base.join(path))
    }
}

impl StagePlan {
    /// The plan of a stage with a missing input file.
    pub fn without_file(path: &Utf8PathBuf) -> StagePlan {
        let stages = vec![format!("`{path}`, which is not there")];
        StagePlan {
            pending: 1,
            reasons: vec![Reason::WaitsFor { stages }],
            work: Work::AwaitsFile,
            ..StagePlan::unwanted()
        }
    }
}
