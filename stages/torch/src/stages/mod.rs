//! The stages that the worker serves.

mod fish_init;
mod fish_merge;
mod fish_synthesize;
mod fish_tune;
mod vq_decode;
mod vq_encode;
mod vq_fit;

use stage_core::{Blob, Context, Fields, Item, Setup, Stage, StageError};

use crate::codec::Codec;
use crate::machine::Machine;
use crate::mel_rvq::MelRvq;

/// All stages of this crate, on one machine.
pub fn all(machine: &Machine) -> Vec<Box<dyn Stage>> {
    vec![
        Box::new(vq_fit::VqFit),
        Box::new(vq_encode::VqEncode { machine: machine.clone() }),
        Box::new(vq_decode::VqDecode { machine: machine.clone() }),
        Box::new(fish_init::FishInit),
        Box::new(fish_tune::FishFinetune { machine: machine.clone() }),
        Box::new(fish_tune::FishLora { machine: machine.clone() }),
        Box::new(fish_merge::FishMerge),
        Box::new(fish_synthesize::FishSynthesize { machine: machine.clone() }),
    ]
}

/// The bytes of the model on the port `codec`.
fn read_codec(setup: &Setup, context: &mut dyn Context) -> Result<MelRvq, StageError> {
    let artifact = setup.artifacts.get("codec").and_then(|artifacts| artifacts.first());
    let blob = artifact.and_then(model_blob);
    let blob = blob.ok_or_else(|| StageError::failed("no codec arrived on port `codec`"))?;
    let model = MelRvq::load(&context.read(blob)?);
    model.map_err(|error| {
        let help = "give `codec` a `vq.fit` stage, or a file that one has made";
        StageError::with_help(error.to_string(), help)
    })
}

/// The codec of an artifact.
fn codec_of(artifact: &Fields, context: &mut dyn Context) -> Result<Box<dyn Codec>, StageError> {
    let blob = model_blob(artifact);
    let blob = blob.ok_or_else(|| StageError::failed("no codec arrived on port `codec`"))?;
    Ok(Box::new(MelRvq::load(&context.read(blob)?)?))
}

/// The field `model`, or the only file of an asset.
fn model_blob(artifact: &Fields) -> Option<&Blob> {
    let model = artifact.blob("model").or_else(|| artifact.blobs().next());
    model.map(|blob| &**blob)
}

/// The blob in a field that the engine has promised.
fn blob<'a>(item: &'a Item, field: &str) -> Result<&'a Blob, StageError> {
    let blob = item.fields.blob(field).map(|blob| &**blob);
    blob.ok_or_else(|| StageError::failed(format!("item `{}` has no `{field}`", item.id)))
}

/// Refuses audio at another rate than the codec's.
fn check_rate(rate: u32, codec: &dyn Codec) -> Result<(), stage_core::Reject> {
    let wanted = codec.format().rate;
    if rate == wanted {
        return Ok(());
    }
    let advice = format!("put `audio.resample` with `rate = {wanted}` before this stage");
    let reason = format!("the audio has {rate} Hz, the codec {wanted} Hz; {advice}");
    Err(stage_core::Reject::new("rate", reason))
}
