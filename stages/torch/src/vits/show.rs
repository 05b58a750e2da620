//! The samples of a held-out clip during training: pictures with the names of the original project,
//! and sound with that of finetune-hf-vits.

use tch::{Device, Kind, Tensor};

use super::ClipTensors;
use super::commons::spread_out;
use super::models::SynthesisSettings;
use super::noise::SeededNormal;
use super::train::Networks;
use crate::error::TorchError;
use crate::train::samples::{NamedSamples, picture};

/// A model with untrained durations may ask for hours.
const LONGEST_SECONDS: i64 = 20;

/// The text of the only clip as synthesised with the settings of the configuration; the noise
/// belongs to the clip, the same each time. Empty while it would be too long.
pub fn sound(
    nets: &Networks,
    clips: &ClipTensors,
    number: usize,
) -> Result<NamedSamples, TorchError> {
    let model = nets.generator();
    let most_frames = LONGEST_SECONDS * model.config.sampling_rate / model.config.hop();
    let settings = SynthesisSettings { most_frames, ..SynthesisSettings::of(&model.config) };
    let mut noise = SeededNormal::new(clips.keys.clone());
    let spoken = model.speak(&clips.texts, clips.speakers.as_deref(), &settings, &mut noise);
    let speech = match spoken {
        Err(TorchError::Input(_)) => return Ok(NamedSamples::new()),
        spoken => spoken?,
    };
    let tag = format!("full_generation_sample{number}");
    let waves = speech.waves.into_iter().take(1);
    Ok(waves.map(|wave| (tag.clone(), wave.to_device(Device::Cpu))).collect())
}

/// For the only clip: the mel spectrograms of the segment in validation, recorded and generated, in
/// the same greys; that of the whole recording; and the alignment of its frames to tokens.
pub fn pictures(
    nets: &Networks,
    clips: &ClipTensors,
    seed: u64,
) -> Result<NamedSamples, TorchError> {
    let (made, analysis) = (nets.held_out(clips, seed)?, nets.analysis());
    let whole = analysis.log_mel(&clips.spectrograms);
    let bound = |bound: Tensor| bound.double_value(&[]);
    let (least, most) = (bound(whole.min()), bound(whole.max()));
    let drawn = |mel: &Tensor| picture(&mel.squeeze_dim(0), least, most);
    let named = [
        ("slice/mel_org", drawn(&made.recorded_mel)),
        ("slice/mel_gen", drawn(&made.mel(analysis)?)),
        ("all/mel", drawn(&whole)),
        ("all/attn", alignment(&made.durations)?),
    ];
    let on_cpu = |(tag, picture): (&str, Tensor)| (tag.to_owned(), picture.to_device(Device::Cpu));
    Ok(named.into_iter().map(on_cpu).collect())
}

/// White where a frame belongs to a token: durations [1, N] to [N, T].
fn alignment(durations: &Tensor) -> Result<Tensor, TorchError> {
    let (places, _) = spread_out(durations, i64::MAX >> 8)?;
    let tokens = Tensor::arange(durations.size()[1], (Kind::Int64, Device::Cpu));
    Ok(picture(&places.eq_tensor(&tokens.unsqueeze(1)), 0.0, 1.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_alignment_climbs_from_token_to_token() {
        let drawn = alignment(&Tensor::from_slice(&[2f32, 0.0, 1.0]).view([1, 3])).unwrap();
        assert_eq!(drawn.size(), [3, 3]);
        let greys = Vec::<u8>::try_from(drawn.view(-1)).unwrap();
        assert_eq!(greys, [255, 255, 0, 0, 0, 0, 0, 0, 255]);
    }
}
