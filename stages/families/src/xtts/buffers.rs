//! Tables in the published files that follow from the sizes: those of the speaker encoder's mel
//! spectrogram.

use std::f64::consts::TAU;

use super::config::SpeakerEncoderConfig;

impl SpeakerEncoderConfig {
    /// The taps of the pre-emphasis, oldest sample first.
    pub fn emphasis_filter(&self) -> Vec<f32> {
        vec![-self.preemphasis as f32, 1.0]
    }

    /// A periodic Hamming window.
    pub fn hamming_window(&self) -> Vec<f32> {
        let turn = TAU / self.window as f64;
        (0..self.window).map(|at| (0.54 - 0.46 * (turn * at as f64).cos()) as f32).collect()
    }

    /// Triangles on the HTK scale from 0 Hz to half the rate, `[n_fft / 2 + 1, mels]`, not
    /// normalised.
    pub fn mel_filters(&self) -> Vec<f32> {
        let (bins, highest) = (self.n_fft / 2 + 1, self.sample_rate as f64 / 2.0);
        let top = to_mel(highest);
        let corner = |at: i64| to_hertz(top * at as f64 / (self.mels + 1) as f64);
        let corners: Vec<f64> = (0..self.mels + 2).map(corner).collect();
        let mut filters = Vec::with_capacity((bins * self.mels) as usize);
        for bin in 0..bins {
            let hertz = highest * bin as f64 / (bins - 1) as f64;
            filters.extend(corners.windows(3).map(|corner| {
                let rising = (hertz - corner[0]) / (corner[1] - corner[0]);
                let falling = (corner[2] - hertz) / (corner[2] - corner[1]);
                rising.min(falling).max(0.0) as f32
            }));
        }
        filters
    }
}

fn to_mel(hertz: f64) -> f64 {
    2595.0 * (1.0 + hertz / 700.0).log10()
}

fn to_hertz(mel: f64) -> f64 {
    700.0 * (10f64.powf(mel / 2595.0) - 1.0)
}

#[cfg(test)]
mod tests {
    use crate::xtts::XttsConfig;

    /// Values of torchaudio 2.11.0 in `MelSpectrogram(16000, 512, 400, 160, n_mels=64,
    /// window_fn=torch.hamming_window)`.
    #[test]
    fn the_tables_are_those_of_the_reference() {
        let encoder = XttsConfig::published().speaker_encoder;
        let (window, filters) = (encoder.hamming_window(), encoder.mel_filters());
        let close = |own: f32, wanted: f32| assert!((own - wanted).abs() < 5e-5, "{own} {wanted}");
        close(window[0], 0.08);
        close(window[123], 0.7026);
        let at = |bin: usize, mel: usize| filters[bin * 64 + mel];
        for (bin, mel, wanted) in [(3, 2, 0.761_582), (20, 17, 0.0), (250, 63, 0.566_741)] {
            close(at(bin, mel), wanted);
        }
        let sum: f32 = filters.iter().sum();
        assert!((sum - 250.1951).abs() < 1e-2, "{sum}");
    }
}
