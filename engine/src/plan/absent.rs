//! Files and folders that do not exist yet: a plan can be made without them.

use camino::Utf8PathBuf;
use stage_core::ParameterType;

use super::planner::Planner;
use super::stage::StagePlan;
use super::work::Work;
use crate::pipeline::StageSpec;
use crate::reason::Reason;

impl Planner<'_> {
    pub fn is_absent(&self, path: &Utf8PathBuf) -> bool {
        self.pipeline.absent.contains(&self.pipeline.base.join(path))
    }

    /// Tests if the file of a parameter is missing, and may be.
    pub fn is_omitted(&self, spec: &StageSpec, parameter: &str, path: &Utf8PathBuf) -> bool {
        let parameter = spec.kind.parameter(parameter);
        let is_optional =
            parameter.is_some_and(|one| matches!(one.parameter_type, ParameterType::OptionalFile));
        let found = || self.store.cache().fs().metadata(&self.pipeline.base.join(path));
        is_optional && found().is_err_and(|error| error.is_not_found())
    }
}

impl StagePlan {
    /// The plan of a stage with a missing input file.
    pub fn without_file(path: &Utf8PathBuf) -> StagePlan {
        let stages = vec![format!("the missing file `{path}`")];
        StagePlan {
            pending: 1,
            reasons: vec![Reason::WaitsFor { stages }],
            work: Work::AwaitsFile,
            ..StagePlan::unwanted()
        }
    }
}
