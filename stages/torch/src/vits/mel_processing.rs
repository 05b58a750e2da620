//! Spectrograms for VITS: frames are in the middle of their windows, and the wave is reflected at
//! both ends. They can be stored as blobs.

use stage_formats::npy::{self, FloatArray, NpyError};
use tch::{Device, Kind, Tensor};

use super::VitsConfig;
use crate::error::TorchError;
use crate::sound::mel::{FLOOR, MelShape, hann, slaney_filters};

/// The kind of the blobs.
pub const KIND: &str = "spectrogram/npy";

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
    pub fn new(config: &VitsConfig, bands: usize, device: Device) -> Result<Analysis, TorchError> {
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
        let filters = Tensor::from_slice(&slaney_filters(&shape)).view(size);
        Ok(Analysis {
            filters: filters.transpose(0, 1).contiguous().to_device(device),
            window: Tensor::from_slice(&hann(shape.window)).to_device(device),
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
                "the wave has {length} samples, but the spectrogram needs more than {margin}"
            )));
        }
        let mirrored = waves.unsqueeze(1).reflection_pad1d([margin, margin]).squeeze_dim(1);
        let frames = mirrored.unfold(1, window as i64, hop as i64); // [B, T, window]
        let spectrum = (frames * &self.window).fft_rfft(None, 2, "backward");
        let parts = spectrum.view_as_real().square(); // [B, T, bins, 2]
        let power = parts.sum_dim_intlist([-1i64].as_slice(), false, Kind::Float);
        Ok((power + POWER_FLOOR).sqrt().transpose(1, 2))
    }

    /// Magnitudes [B, bins, T] to logarithms of mel bands [B, bands, T].
    pub fn log_mel(&self, linear: &Tensor) -> Tensor {
        self.filters.matmul(linear).clamp_min(FLOOR).log()
    }
}

/// A NumPy array of floats from a tensor [bins, frames]. The same numbers give the same bytes.
pub fn write(spectrogram: &Tensor) -> Result<Vec<u8>, TorchError> {
    let shape = spectrogram.size().iter().map(|size| *size as u64).collect();
    let flat = spectrogram.to_kind(Kind::Float).contiguous().view(-1);
    npy::write_floats(&FloatArray { shape, values: Vec::try_from(flat)? }).map_err(refused)
}

/// [bins, frames] on the CPU, with as many bins as the model takes.
pub fn read(bytes: &[u8], config: &VitsConfig) -> Result<Tensor, TorchError> {
    let array = npy::read_floats(bytes).map_err(refused)?;
    let bins = config.spectrogram_bins;
    match array.shape[..] {
        [own, frames] if own == bins as u64 => {
            Ok(Tensor::from_slice(&array.values).view([bins, frames as i64]))
        }
        _ => Err(TorchError::Input(format!(
            "the spectrogram has the shape {:?}, not {bins} bins by frames; set `model` of \
             `vits.spectrogram` to the model to train",
            array.shape
        ))),
    }
}

fn refused(error: NpyError) -> TorchError {
    TorchError::Input(format!("the spectrogram cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_bins_are_refused() {
        let config = VitsConfig { spectrogram_bins: 2, ..VitsConfig::default() };
        let stored = Tensor::from_slice(&[0.5f32, 1.0, 2.0, 3.0, 4.0, 5.0]).view([3, 2]);
        let bytes = write(&stored.transpose(0, 1)).unwrap();
        assert_eq!(read(&bytes, &config).unwrap(), stored.transpose(0, 1).contiguous());
        let error = read(&bytes, &VitsConfig::default()).unwrap_err().to_string();
        assert!(error.contains("[2, 3], not 513 bins by frames"), "{error}");
        assert!(read(&bytes[..90], &config).is_err());
    }
}
