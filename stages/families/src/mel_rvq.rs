//! The built-in codec, which a pipeline fits on its own clips.

use crate::artifact;
use crate::family::Family;
use crate::model::Codec;

pub struct MelRvq;

impl Family for MelRvq {
    fn name(&self) -> &'static str {
        artifact::MEL_RVQ
    }

    fn title(&self) -> &'static str {
        "the codec that `vq.fit` fits"
    }

    fn codec(&self) -> Option<Codec> {
        let told = "the embedded codec takes a five-hundredth of the time of the published one";
        Some(Codec { share: 0.002, told: Some(told), bytes: 0.0, working_bytes: |_| 0.0 })
    }
}
