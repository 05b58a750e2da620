//! The stages that the worker serves.

mod arrived;
#[cfg(test)]
mod asr_tests;
mod asr_transcribe;
pub mod codec;
mod fish_init;
mod fish_synthesize;
#[cfg(test)]
mod fish_tests;
mod fresh;
mod panic_boundary;
mod torchscript;
#[cfg(test)]
mod torchscript_tests;
#[cfg(test)]
mod trial;
mod vits_complete;
#[cfg(test)]
mod vits_complete_tests;
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

use stage_core::Stage;
use stage_families::kinds::torchscript as scripted;
use stage_families::wav2vec2::kinds as asr;

use self::panic_boundary::PanicBoundary;
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
        Box::new(fish_init::STAGE),
        Box::new(fish_synthesize::FishSynthesize { machine: machine.clone() }),
        Box::new(vits_init::STAGE),
        Box::new(vits_spectrogram::VitsSpectrogram),
        Box::new(vits_synthesize::VitsSynthesize { machine: machine.clone() }),
        Box::new(vits_complete::VitsComplete { machine: machine.clone() }),
        Box::new(vits_tune::VitsFinetune { machine: machine.clone() }),
        Box::new(xtts_init::STAGE),
        Box::new(xtts_extend::STAGE),
        Box::new(xtts_voice::XttsVoice { machine: machine.clone() }),
        Box::new(xtts_synthesize::XttsSynthesize { machine: machine.clone() }),
        Box::new(asr_transcribe::AsrTranscribe {
            kind: &asr::TRANSCRIBE,
            machine: machine.clone(),
        }),
        Box::new(asr_transcribe::AsrTranscribe { kind: &asr::EMIT, machine: machine.clone() }),
    ];
    let modules = [&scripted::APPLY, &scripted::EMBED, &scripted::RATE].map(|kind| {
        Box::new(torchscript::TorchScript { kind, machine: machine.clone() }) as Box<dyn Stage>
    });
    let (fish, xtts) = (tune::stages::<FishTuning>(machine), tune::stages::<GptTuning>(machine));
    let all = own.into_iter().chain(modules).chain(fish).chain(xtts);
    all.map(|stage| Box::new(PanicBoundary(stage)) as Box<dyn Stage>).collect()
}
