//! Spectrograms for VITS: frames are in the middle of their windows, and the wave is reflected at
//! both ends.

use tch::{Device, Kind, Tensor};

use super::config::Config;
use crate::error::TorchError;
use crate::mel::{FLOOR, MelShape, hann, slaney_filters};

/// Added to the power, so that the root has a gradient at zero.
const POWER_FLOOR: f64 = 1e-6;

#[derive(Debug)]
pub struct Analysis {
    shape: MelShape,
    window: Tensor,
    /// [bands, bins].
    filters: Tensor,
}

impl Analysis {
    /// The analysis of the configuration, with this number of mel bands for the loss.
    pub fn new(config: &Config, bands: usize, device: Device) -> Result<Analysis, TorchError> {
        Analysis::of(
            MelShape {
                rate: config.sampling_rate as u32,
                window: config.transform() as usize,
                hop: config.hop() as usize,
                bands,
            },
            device,
        )
    }

    pub fn of(shape: MelShape, device: Device) -> Result<Analysis, TorchError> {
        shape.check()?;
        let size = [shape.bins() as i64, shape.bands as i64];
        let filters = Tensor::f_from_slice(&slaney_filters(&shape))?.f_view(size)?;
        Ok(Analysis {
            filters: filters.f_transpose(0, 1)?.f_contiguous()?.f_to_device(device)?,
            window: Tensor::f_from_slice(&hann(shape.window))?.f_to_device(device)?,
            shape,
        })
    }

    /// The number of reflected samples at an end; a wave must be longer.
    pub fn margin(&self) -> i64 {
        self.shape.margin() as i64
    }

    /// Waves [B, L] to magnitudes [B, bins, L / hop], rounded down.
    pub fn linear(&self, waves: &Tensor) -> Result<Tensor, TorchError> {
        let MelShape { window, hop, .. } = self.shape;
        let (length, margin) = (waves.size()[1], self.margin());
        if length <= margin {
            return Err(TorchError::Input(format!(
                "a wave of {length} samples, and the spectrogram needs more than {margin}"
            )));
        }
        let mirrored =
            waves.f_unsqueeze(1)?.f_reflection_pad1d([margin, margin])?.f_squeeze_dim(1)?;
        let frames = mirrored.f_unfold(1, window as i64, hop as i64)?; // [B, T, window]
        let spectrum = frames.f_mul(&self.window)?.f_fft_rfft(None, 2, "backward")?;
        let parts = spectrum.f_view_as_real()?.f_square()?; // [B, T, bins, 2]
        let power = parts.f_sum_dim_intlist([-1i64].as_slice(), false, Kind::Float)?;
        Ok((power + POWER_FLOOR).f_sqrt()?.f_transpose(1, 2)?)
    }

    /// Magnitudes [B, bins, T] to logarithms of mel bands [B, bands, T].
    pub fn log_mel(&self, linear: &Tensor) -> Result<Tensor, TorchError> {
        Ok(self.filters.f_matmul(linear)?.f_clamp_min(FLOOR)?.f_log()?)
    }
}
