//! The codecs that `vq.encode` works with.

use crate::artifact;
use crate::family::Family;

/// The codec of Fish Speech.
pub struct Dac;

impl Family for Dac {
    fn name(&self) -> &'static str {
        artifact::DAC
    }

    fn title(&self) -> &'static str {
        "the codec of Fish Speech"
    }
}

/// The embedded codec.
pub struct MelRvq;

impl Family for MelRvq {
    fn name(&self) -> &'static str {
        artifact::MEL_RVQ
    }

    fn title(&self) -> &'static str {
        "the codec that `vq.fit` fits"
    }
}
