//! Linear spectrograms as blobs.

use stage_formats::npy::{self, FloatArray, NpyError};
use tch::{Kind, Tensor};

use super::config::Config;
use crate::error::TorchError;

/// The kind of the blobs.
pub const KIND: &str = "spectrogram/npy";

/// A NumPy array of floats from a tensor [bins, frames]. The same numbers give the same bytes.
pub fn write(spectrogram: &Tensor) -> Result<Vec<u8>, TorchError> {
    let shape = spectrogram.size().iter().map(|size| *size as u64).collect();
    let flat = spectrogram.f_to_kind(Kind::Float)?.f_contiguous()?.f_view(-1)?;
    npy::write_floats(&FloatArray { shape, values: Vec::try_from(flat)? }).map_err(refused)
}

/// [bins, frames] on the CPU, with as many bins as the model takes.
pub fn read(bytes: &[u8], config: &Config) -> Result<Tensor, TorchError> {
    let array = npy::read_floats(bytes).map_err(refused)?;
    let bins = config.spectrogram_bins;
    match array.shape[..] {
        [own, frames] if own == bins as u64 => {
            Ok(Tensor::f_from_slice(&array.values)?.f_view([bins, frames as i64])?)
        }
        _ => Err(TorchError::Input(format!(
            "the spectrogram has the shape {:?}, not {bins} bins by frames; give `vits.spectrogram` \
             the model that is trained",
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
        let config = Config { spectrogram_bins: 2, ..Config::default() };
        let stored = Tensor::from_slice(&[0.5f32, 1.0, 2.0, 3.0, 4.0, 5.0]).view([3, 2]);
        let bytes = write(&stored.transpose(0, 1)).unwrap();
        assert_eq!(read(&bytes, &config).unwrap(), stored.transpose(0, 1).contiguous());
        let error = read(&bytes, &Config::default()).unwrap_err().to_string();
        assert!(error.contains("[2, 3], not 513 bins by frames"), "{error}");
        assert!(read(&bytes[..90], &config).is_err());
    }
}
