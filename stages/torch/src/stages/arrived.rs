//! The inputs of stages: what arrives on a port or in an item, and checks of it.

use stage_core::{Blob, Context, Fields, Item, Reject, Setup, StageError};

use super::codec::{self, CodecUse};
use crate::sound::codec::Codec;

/// The codec on the port `codec` of an item stage.
pub fn open_codec(
    setup: &Setup,
    how: CodecUse,
    context: &mut dyn Context,
) -> Result<Box<dyn Codec>, StageError> {
    codec::open(codec_port(setup)?, how, context)
}

pub fn codec_port(setup: &Setup) -> Result<&Fields, StageError> {
    let artifact = setup.artifacts.get("codec").and_then(|artifacts| artifacts.first());
    artifact.ok_or_else(|| StageError::failed("no codec arrived on port `codec`"))
}

/// The blob in a field that the engine guarantees.
pub fn blob<'a>(item: &'a Item, field: &str) -> Result<&'a Blob, StageError> {
    let blob = item.fields.blob(field).map(|blob| &**blob);
    blob.ok_or_else(|| StageError::failed(format!("item `{}` has no `{field}`", item.id)))
}

/// Refuses audio at another rate than that of its reader.
pub fn check_rate(rate: u32, wanted: u32, reader: &str) -> Result<(), Reject> {
    if rate == wanted {
        return Ok(());
    }
    let advice = format!("put `audio.resample` with `rate = {wanted}` before this stage");
    let reason = format!("the audio has {rate} Hz, but the {reader} needs {wanted} Hz; {advice}");
    Err(Reject::new("rate", reason))
}

/// Refuses audio that is too long for the codec.
pub fn check_length(samples: usize, codec: &dyn Codec) -> Result<(), Reject> {
    let Some(longest) = codec.longest().filter(|longest| samples > *longest) else { return Ok(()) };
    let rate = f64::from(codec.format().rate);
    let (own, most) = (samples as f64 / rate, longest as f64 / rate);
    let reason = format!(
        "the audio lasts {own:.1} s, but the codec takes at most {most:.1} s; cut the recording \
         into shorter clips"
    );
    Err(Reject::new("too-long", reason))
}
