//! Mel spectrograms as in torchaudio's `MelSpectrogram`: power, centred frames, the wave reflected
//! at both ends, filters on the HTK scale.

use stage_families::xtts::MEL_STATS;
use tch::{Device, Tensor};

use crate::error::{InTch, TorchError};
use crate::nn::weights::usable;
use crate::sound::mel::{FLOOR, hann, htk_filters};

/// The highest frequency in the input of GPT and DVAE, in Hz.
const HIGHEST: f64 = 8_000.0;
/// Samples from frame to frame of both.
pub const HOP: i64 = 256;
const WINDOW: i64 = 1_024;

#[derive(Debug)]
pub struct MelSpectrogram {
    hop: i64,
    /// [n_fft].
    window: Tensor,
    /// [bins, mels].
    pub filters: Tensor,
}

/// The logarithm of a mel spectrogram divided by the usual value of each band.
#[derive(Debug)]
pub struct LogMel {
    pub spectrogram: MelSpectrogram,
    /// [mels, 1].
    mel_stats: Tensor,
}

/// The divisors of spectrograms for computing: `[mels]`.
pub fn usable_stats(stats: Tensor, device: Device) -> Result<Tensor, TorchError> {
    let stats = usable(MEL_STATS, stats, device)?;
    let smallest = stats.abs().min().double_value(&[]);
    if smallest >= f64::from(f32::MIN_POSITIVE) {
        Ok(stats)
    } else {
        Err(TorchError::Model(format!(
            "`{MEL_STATS}` has {smallest:e}, which is too small to divide by"
        )))
    }
}

impl MelSpectrogram {
    /// The window is centred in the FFT; `filters` are [bins, mels], row by row.
    pub fn new(
        [n_fft, hop]: [i64; 2],
        window: &[f32],
        filters: &[f32],
        device: Device,
    ) -> MelSpectrogram {
        let before = (n_fft - window.len() as i64) / 2;
        let after = n_fft - window.len() as i64 - before;
        let window = Tensor::from_slice(window).constant_pad_nd([before, after]);
        let filters = Tensor::from_slice(filters).view([n_fft / 2 + 1, -1]);
        let (window, filters) = (window.to_device(device), filters.to_device(device));
        MelSpectrogram { hop, window, filters }
    }

    /// Waves [B, L] to power [B, mels, L / hop + 1].
    pub fn forward(&self, waves: &Tensor) -> Result<Tensor, TorchError> {
        let n_fft = self.window.size()[0];
        let (length, margin) = (waves.size2()?.1, n_fft / 2);
        if length <= margin {
            return Err(TorchError::Input(format!(
                "the wave has {length} samples, but its spectrogram needs more than {margin}"
            )));
        }
        let mirrored = waves.unsqueeze(1).reflection_pad1d([margin, margin]);
        let frames = mirrored.squeeze_dim(1).unfold(1, n_fft, self.hop); // [B, T, n_fft]
        let spectrum = (frames * &self.window).fft_rfft(None, 2, "backward"); // [B, T, bins]
        let power = spectrum.abs().square();
        Ok(power.matmul(&self.filters).transpose(1, 2))
    }
}

impl LogMel {
    /// The input of the DVAE; `mel_stats` is `[mels]`.
    pub fn dvae(sample_rate: i64, mel_stats: &Tensor) -> LogMel {
        LogMel::new(sample_rate, WINDOW, mel_stats)
    }

    /// The input of the conditioning encoder.
    pub fn conditioning(sample_rate: i64, mel_stats: &Tensor) -> LogMel {
        LogMel::new(sample_rate, 2 * WINDOW, mel_stats)
    }

    fn new(sample_rate: i64, n_fft: i64, mel_stats: &Tensor) -> LogMel {
        let bands = ((n_fft / 2 + 1) as usize, mel_stats.size1().in_tch() as usize);
        let filters = htk_filters(bands, (sample_rate / 2) as f64, HIGHEST);
        let (window, device) = (hann(WINDOW as usize), mel_stats.device());
        let spectrogram = MelSpectrogram::new([n_fft, HOP], &window, &filters, device);
        LogMel { spectrogram, mel_stats: mel_stats.unsqueeze(1) }
    }

    /// Waves [B, L] to [B, mels, L / 256 + 1].
    pub fn forward(&self, waves: &Tensor) -> Result<Tensor, TorchError> {
        let power = self.spectrogram.forward(waves)?;
        Ok(power.clamp_min(FLOOR).log() / &self.mel_stats)
    }

    /// The power of such values [B, mels, T].
    pub fn power(&self, log_mel: &Tensor) -> Tensor {
        (log_mel * &self.mel_stats).exp()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Kind;

    use super::*;

    #[test]
    fn a_begun_hop_is_a_frame_and_one_more() {
        let stats = Tensor::ones([80], (Kind::Float, Device::Cpu));
        for mel in [LogMel::dvae(22_050, &stats), LogMel::conditioning(22_050, &stats)] {
            let waves = Tensor::zeros([2, 5_000], (Kind::Float, Device::Cpu));
            let frames = mel.forward(&waves).unwrap();
            assert_eq!(frames.size(), [2, 80, 5_000 / 256 + 1]);
            let silence = FLOOR.ln();
            assert!((frames - silence).abs().max().double_value(&[]) < 1e-5);
        }
    }

    #[test]
    fn a_wave_too_short_to_be_mirrored_is_refused() {
        let stats = Tensor::ones([80], (Kind::Float, Device::Cpu));
        let mel = LogMel::dvae(22_050, &stats);
        let waves = Tensor::zeros([1, 512], (Kind::Float, Device::Cpu));
        let error = mel.forward(&waves).unwrap_err().to_string();
        assert_eq!(error, "the wave has 512 samples, but its spectrogram needs more than 512");
    }
}
