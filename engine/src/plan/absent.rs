//! Files and folders that do not exist yet: a plan can be made without them.

use camino::Utf8PathBuf;

use super::planner::Planner;
use super::stage::StagePlan;
use super::work::Work;
use crate::reason::Reason;

impl Planner<'_> {
    pub fn is_absent(&self, path: &Utf8PathBuf) -> bool {
        self.pipeline.absent.contains(&self.pipeline.base.join(path))
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
