//! Compares the tokens of clips with those that the DVAE of the base has for their audio.
//!
//! Tokens of another DVAE look like any others, and the model would learn codes that it does not
//! speak.

use stage_core::{Context, StageError};
use tch::Device;

use super::clip::XttsClips;
use crate::sound::codec::Codec;
use crate::sound::wave;
use crate::xtts::artifact::XttsModel;

/// The number of compared clips.
const CLIPS: usize = 2;

/// Refuses tokens if more than half of them differ: devices round differently, so that a few codes
/// between two entries may. A base without a DVAE has nothing to compare with.
pub fn check(
    model: &XttsModel,
    clips: &XttsClips,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    if !model.has_dvae() {
        return Ok(());
    }
    let codec = model.codec(Device::Cpu, context)?;
    let (mut equal, mut all) = (0, 0);
    for clip in &clips.sample(CLIPS).clips {
        let wave =
            wave::read(&clip.content.audio).map_err(|reject| StageError::failed(reject.reason))?;
        for own in codec.encode(&[&wave.samples])? {
            let same = own.values.iter().zip(&clip.content.codes);
            equal += same.filter(|(own, given)| i64::from(**own) == **given).count();
            all += own.values.len();
        }
    }
    if 2 * equal >= all {
        Ok(())
    } else {
        Err(StageError::with_help(
            format!(
                "the tokens are from another model: {equal} of {all} codes equal those of the \
                 DVAE of `base` for the same audio"
            ),
            "encode the clips with the DVAE of this model: set `codec` of `vq.encode` to the \
             model on `base` of this stage",
        ))
    }
}
