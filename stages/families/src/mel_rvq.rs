//! The embedded codec, which a pipeline fits on its own clips.

use crate::artifact;
use crate::family::Family;

pub struct MelRvq;

impl Family for MelRvq {
    fn name(&self) -> &'static str {
        artifact::MEL_RVQ
    }

    fn title(&self) -> &'static str {
        "the codec that `vq.fit` fits"
    }
}
