//! Log-mel frames of a wave; the bits of a frame depend on its clip alone.
//!
//! Frame `t` is centred on the middle of samples `[t * hop, (t + 1) * hop)`. The last, partial hop
//! of a clip is padded with silence, and so are windows that reach beyond both ends. Matrix
//! products may round differently for another number of rows; hence all work is done in tiles of
//! [`TILE`] frames that start at the clip's beginning.

use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use crate::error::TorchError;

/// Frames that are computed together.
pub const TILE: usize = 64;

/// The floor of amplitudes before the logarithm (the value of the VITS family).
pub const FLOOR: f64 = 1e-5;

/// The figures of the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MelShape {
    /// Samples a second.
    pub rate: u32,
    /// The length of the Hann window, and the FFT size.
    pub window: usize,
    /// Samples from frame to frame.
    pub hop: usize,
    /// Mel bands from 0 Hz to half the rate.
    pub bands: usize,
}

impl MelShape {
    /// The usual analysis of speech models at 16 kHz to 24 kHz: 1024, 256, 80.
    pub fn at_rate(rate: u32) -> MelShape {
        MelShape { rate, window: 1024, hop: 256, bands: 80 }
    }

    /// For linear spectrograms, without mel bands.
    pub fn linear(rate: i64, window: i64, hop: i64) -> MelShape {
        let size = |size: i64| usize::try_from(size).unwrap_or(0);
        MelShape { rate: rate as u32, window: size(window), hop: size(hop), bands: 4 }
    }

    pub fn frames(&self, samples: usize) -> usize {
        samples.div_ceil(self.hop)
    }

    /// The number of bins of the spectrum of a real signal.
    pub fn bins(&self) -> usize {
        self.window / 2 + 1
    }

    /// The part of the first window before the wave begins, in samples.
    pub fn margin(&self) -> usize {
        (self.window - self.hop) / 2
    }

    pub fn check(&self) -> Result<(), TorchError> {
        let wrong = |what: String| Err(TorchError::Model(what));
        if !(1_000..=384_000).contains(&self.rate) {
            return wrong(format!("a rate of {} Hz, expected 1000 to 384000", self.rate));
        }
        if !(64..=8192).contains(&self.window) || !self.window.is_multiple_of(2) {
            return wrong(format!("a window of {}, expected an even 64 to 8192", self.window));
        }
        if self.hop == 0 || self.hop > self.window / 2 || !self.hop.is_multiple_of(2) {
            return wrong(format!("a hop of {}, expected an even 2 to half the window", self.hop));
        }
        if !(4..=512).contains(&self.bands) || self.bands > self.window / 2 {
            return wrong(format!("{} mel bands, expected 4 to 512", self.bands));
        }
        Ok(())
    }
}

/// The tensors of the analysis.
pub struct Mel {
    shape: MelShape,
    window: Tensor,
    filters: Tensor,
}

impl Mel {
    pub fn new(shape: MelShape) -> Result<Mel, TorchError> {
        shape.check()?;
        let filters = Tensor::from_slice(&slaney_filters(&shape))
            .reshape([shape.bins() as i64, shape.bands as i64]);
        let window = Tensor::from_slice(&hann(shape.window));
        Ok(Mel { shape, window, filters })
    }

    pub fn shape(&self) -> &MelShape {
        &self.shape
    }

    pub fn tiles(&self, samples: usize) -> usize {
        self.shape.frames(samples).div_ceil(TILE)
    }

    /// The log-mel frames of one tile of a wave, [TILE, bands]; rows beyond the wave are silence.
    pub fn tile(&self, wave: &[f32], tile: usize) -> Tensor {
        let MelShape { window, hop, .. } = self.shape;
        let samples = Tensor::from_slice(&self.stretch(wave, tile));
        let frames = samples.unfold(0, window as i64, hop as i64); // [TILE, window]
        let spectrum = (frames * &self.window).fft_rfft(None, 1, "backward"); // [TILE, bins]
        let mel = spectrum.abs().matmul(&self.filters); // [TILE, bands]
        mel.clamp_min(FLOOR).log()
    }

    /// The samples of a tile's windows, silence outside the wave.
    fn stretch(&self, wave: &[f32], tile: usize) -> Vec<f32> {
        let MelShape { window, hop, .. } = self.shape;
        let mut stretch = vec![0f32; (TILE - 1) * hop + window];
        let margin = self.shape.margin();
        let first = tile * TILE * hop; // in the wave with its margin before it
        let from = first.saturating_sub(margin).min(wave.len());
        let to = (first + stretch.len()).saturating_sub(margin).min(wave.len());
        let at = (from + margin) - first.min(from + margin);
        stretch[at..at + (to - from)].copy_from_slice(&wave[from..to]);
        stretch
    }

    /// All log-mel frames of a wave, row by row.
    pub fn frames(&self, wave: &[f32]) -> Vec<f32> {
        let mut frames = Vec::with_capacity(self.tiles(wave.len()) * TILE * self.shape.bands);
        for tile in 0..self.tiles(wave.len()) {
            frames.extend(to_vec(&self.tile(wave, tile)));
        }
        frames.truncate(self.shape.frames(wave.len()) * self.shape.bands);
        frames
    }
}

/// The content of a tensor of floats, in the order of its indices.
pub fn to_vec(tensor: &Tensor) -> Vec<f32> {
    let tensor = tensor.to_kind(Kind::Float).to(Device::Cpu).contiguous();
    let mut values = vec![0f32; tensor.numel()];
    let count = values.len();
    tensor.copy_data(&mut values, count);
    values
}

/// The periodic Hann window.
pub fn hann(points: usize) -> Vec<f32> {
    let step = std::f64::consts::TAU / points as f64;
    (0..points).map(|point| (0.5 - 0.5 * (step * point as f64).cos()) as f32).collect()
}

/// The triangular filters of Slaney's Auditory Toolbox, each of unit area: [bins, bands].
pub fn slaney_filters(shape: &MelShape) -> Vec<f32> {
    let nyquist = f64::from(shape.rate) / 2.0;
    let step = hertz_to_mel(nyquist) / (shape.bands + 1) as f64;
    let edges: Vec<f64> =
        (0..shape.bands + 2).map(|edge| mel_to_hertz(step * edge as f64)).collect();
    triangles(shape.bins(), nyquist, &edges)
}

/// Triangular filters on the scale of the Hidden Markov Model Toolkit, from 0 Hz to `highest`,
/// each of unit area: [bins, bands].
pub fn htk_filters((bins, bands): (usize, usize), nyquist: f64, highest: f64) -> Vec<f32> {
    let step = HTK_MEL * (1.0 + highest / HTK_HERTZ).log10() / (bands + 1) as f64;
    let hertz = |mel: f64| HTK_HERTZ * (10f64.powf(mel / HTK_MEL) - 1.0);
    let edges: Vec<f64> = (0..bands + 2).map(|edge| hertz(step * edge as f64)).collect();
    triangles(bins, nyquist, &edges)
}

/// Filters of unit area that rise from one edge to the next and fall to the following one: [bins,
/// bands].
fn triangles(bins: usize, nyquist: f64, edges: &[f64]) -> Vec<f32> {
    let bands = edges.len().saturating_sub(2);
    let mut filters = vec![0f32; bins * bands];
    for bin in 0..bins {
        let hertz = nyquist * bin as f64 / (bins - 1) as f64;
        for (band, edge) in edges.windows(3).enumerate() {
            let [low, middle, high] = [edge[0], edge[1], edge[2]];
            let rising = (hertz - low) / (middle - low);
            let falling = (high - hertz) / (high - middle);
            let height = rising.min(falling).max(0.0) * 2.0 / (high - low);
            filters[bin * bands + band] = height as f32;
        }
    }
    filters
}

// mel = 2595 log10(1 + hertz / 700).
const HTK_MEL: f64 = 2595.0;
const HTK_HERTZ: f64 = 700.0;

// Slaney's scale: linear below 1 kHz at 3 mel per 200 Hz, logarithmic above.
const STRAIGHT: f64 = 200.0 / 3.0;
const BEND_HERTZ: f64 = 1000.0;
const BEND_MEL: f64 = BEND_HERTZ / STRAIGHT;

/// Mel above the bend from 1 kHz to 6.4 kHz.
const MEL_TO_6400: f64 = 27.0;

fn hertz_to_mel(hertz: f64) -> f64 {
    if hertz < BEND_HERTZ {
        hertz / STRAIGHT
    } else {
        BEND_MEL + (hertz / BEND_HERTZ).ln() * MEL_TO_6400 / 6.4f64.ln()
    }
}

fn mel_to_hertz(mel: f64) -> f64 {
    if mel < BEND_MEL {
        mel * STRAIGHT
    } else {
        BEND_HERTZ * ((mel - BEND_MEL) * 6.4f64.ln() / MEL_TO_6400).exp()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn mel() -> Mel {
        Mel::new(MelShape::at_rate(16_000)).unwrap()
    }

    fn tone(samples: usize, hertz: f64) -> Vec<f32> {
        let step = std::f64::consts::TAU * hertz / 16_000.0;
        (0..samples).map(|at| (0.5 * (step * at as f64).sin()) as f32).collect()
    }

    #[test]
    fn a_begun_hop_is_a_frame() {
        let shape = MelShape::at_rate(16_000);
        let counts = [0, 1, 255, 256, 257, 16_384, 16_385].map(|samples| shape.frames(samples));
        assert_eq!(counts, [0, 1, 1, 1, 2, 64, 65]);
        let lengths = [1, 256, 16_384, 16_385, 40_000];
        for samples in lengths {
            let frames = mel().frames(&tone(samples, 300.0));
            assert_eq!(frames.len(), shape.frames(samples) * shape.bands);
        }
    }

    #[test]
    fn the_band_of_a_tone_is_the_loudest() {
        let frames = mel().frames(&tone(16_000, 1000.0));
        let row = &frames[30 * 80..31 * 80];
        let loudest = (0..80).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
        // 80 bands over 45.2 mel (0 to 8 kHz); 1 kHz is at 15 mel, in the 26th or 27th.
        assert!((25..=26).contains(&loudest), "{loudest}");
    }

    #[test]
    fn a_frame_shows_a_click_only_where_its_window_reaches() {
        let mut wave = vec![0f32; 64 * 256 * 2];
        wave[64 * 256] = 1.0; // the first sample of frame 64, the first of the second tile
        let frames = mel().frames(&wave);
        let silence = (FLOOR as f32).ln();
        let heard: Vec<usize> = (0..128)
            .filter(|t| frames[t * 80..(t + 1) * 80].iter().any(|v| *v > silence + 1e-3))
            .collect();
        assert_eq!(heard, [62, 63, 64, 65]);
    }

    #[test]
    fn what_follows_a_frame_beyond_its_window_does_not_move_a_bit() {
        let long = tone(50_000, 440.0);
        let all = mel().frames(&long);
        let cut = mel().frames(&long[..30_000]);
        let same = (30_000 / 256 - 2) * 80;
        assert_eq!(all[..same], cut[..same]);
    }

    #[test]
    fn impossible_figures_are_refused() {
        let good = MelShape::at_rate(16_000);
        for bad in [
            MelShape { rate: 0, ..good },
            MelShape { window: 63, ..good },
            MelShape { window: 1 << 40, ..good },
            MelShape { hop: 0, ..good },
            MelShape { hop: 1024, ..good },
            MelShape { bands: 1 << 40, ..good },
        ] {
            assert!(Mel::new(bad).is_err(), "{bad:?}");
        }
    }
}
