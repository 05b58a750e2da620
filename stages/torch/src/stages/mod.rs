//! The stages that the worker serves.

#[cfg(test)]
mod asr_tests;
mod asr_transcribe;
pub mod codec;
mod fish_init;
mod fish_synthesize;
#[cfg(test)]
mod fish_tests;
mod fresh;
#[cfg(test)]
mod trial;
mod vits_init;
mod vits_spectrogram;
mod vits_synthesize;
#[cfg(test)]
mod vits_tests;
mod vits_tune;
#[cfg(test)]
mod vits_tune_tests;
mod vq_decode;
mod vq_encode;
mod vq_fit;
mod xtts_extend;
#[cfg(test)]
mod xtts_file_tests;
mod xtts_init;
mod xtts_synthesize;
#[cfg(test)]
mod xtts_tests;
#[cfg(test)]
mod xtts_tune_tests;
mod xtts_voice;

use stage_core::{Blob, Context, Fields, Item, Reject, Setup, Stage, StageError};

use self::codec::CodecUse;
use crate::codec::Codec;
use crate::device::Machine;
use crate::fish::tune::FishTuning;
use crate::tune::stage as tune;
use crate::xtts::tune::GptTuning;

/// All stages of this crate, on one machine.
pub fn all(machine: &Machine) -> Vec<Box<dyn Stage>> {
    let own: Vec<Box<dyn Stage>> = vec![
        Box::new(vq_fit::VqFit),
        Box::new(vq_encode::VqEncode { machine: machine.clone() }),
        Box::new(vq_decode::VqDecode { machine: machine.clone() }),
        Box::new(fish_init::FishInit),
        Box::new(fish_synthesize::FishSynthesize { machine: machine.clone() }),
        Box::new(vits_init::VitsInit),
        Box::new(vits_spectrogram::VitsSpectrogram),
        Box::new(vits_synthesize::VitsSynthesize { machine: machine.clone() }),
        Box::new(vits_tune::VitsFinetune { machine: machine.clone() }),
        Box::new(xtts_init::XttsInit),
        Box::new(xtts_extend::XttsExtend),
        Box::new(xtts_voice::XttsVoice { machine: machine.clone() }),
        Box::new(xtts_synthesize::XttsSynthesize { machine: machine.clone() }),
        Box::new(asr_transcribe::AsrTranscribe { machine: machine.clone() }),
    ];
    let (fish, xtts) = (tune::stages::<FishTuning>(machine), tune::stages::<GptTuning>(machine));
    own.into_iter().chain(fish).chain(xtts).collect()
}

/// The codec on the port `codec` of an item stage.
fn open_codec(
    setup: &Setup,
    how: CodecUse,
    context: &mut dyn Context,
) -> Result<Box<dyn Codec>, StageError> {
    codec::open(codec_port(setup)?, how, context)
}

fn codec_port(setup: &Setup) -> Result<&Fields, StageError> {
    let artifact = setup.artifacts.get("codec").and_then(|artifacts| artifacts.first());
    artifact.ok_or_else(|| StageError::failed("no codec arrived on port `codec`"))
}

/// The blob in a field that the engine guarantees.
fn blob<'a>(item: &'a Item, field: &str) -> Result<&'a Blob, StageError> {
    let blob = item.fields.blob(field).map(|blob| &**blob);
    blob.ok_or_else(|| StageError::failed(format!("item `{}` has no `{field}`", item.id)))
}

/// Refuses audio at another rate than that of its reader.
fn check_rate(rate: u32, wanted: u32, reader: &str) -> Result<(), Reject> {
    if rate == wanted {
        return Ok(());
    }
    let advice = format!("put `audio.resample` with `rate = {wanted}` before this stage");
    let reason = format!("the audio has {rate} Hz, the {reader} {wanted} Hz; {advice}");
    Err(Reject::new("rate", reason))
}

/// Refuses audio that is too long for the codec.
fn check_length(samples: usize, codec: &dyn Codec) -> Result<(), Reject> {
    let Some(longest) = codec.longest().filter(|longest| samples > *longest) else { return Ok(()) };
    let rate = f64::from(codec.format().rate);
    let (own, most) = (samples as f64 / rate, longest as f64 / rate);
    let reason = format!(
        "the audio lasts {own:.1} s, the codec takes at most {most:.1} s; cut the recording into \
         shorter clips"
    );
    Err(Reject::new("too-long", reason))
}
