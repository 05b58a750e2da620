//! Waves as blobs: mono WAV of 16 bits, in memory.

use std::io::Cursor;

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use stage_core::Reject;

/// The kind of the blobs.
pub const KIND: &str = "audio/wav";

const FULL_SCALE: f32 = 32_768.0;

/// A mono wave.
#[derive(Clone, Debug, PartialEq)]
pub struct Wave {
    pub rate: u32,
    pub samples: Vec<f32>,
}

/// Reads outputs of `audio.resample` and similar stages, and refuses others with advice.
pub fn read(bytes: &[u8]) -> Result<Wave, Reject> {
    let refused = |what: &str| {
        let advice = "put `audio.decode` or `audio.resample` before this stage";
        Reject::new("not-wav", format!("{what}; {advice}"))
    };
    let damaged = |_: hound::Error| refused("not a plain WAV file");
    let mut reader = WavReader::new(Cursor::new(bytes)).map_err(damaged)?;
    let WavSpec { channels, sample_rate, bits_per_sample, sample_format } = reader.spec();
    if channels != 1 {
        let advice = "put `audio.resample` before this stage";
        return Err(Reject::new("channels", format!("{channels} channels, expected 1; {advice}")));
    }
    if (bits_per_sample, sample_format) != (16, SampleFormat::Int) {
        let reason =
            format!("{bits_per_sample}-bit {sample_format:?} samples, expected 16-bit Int");
        return Err(Reject::new("sample-format", reason));
    }
    let samples: Result<Vec<f32>, _> =
        reader.samples::<i16>().map(|sample| sample.map(|s| f32::from(s) / FULL_SCALE)).collect();
    let samples = samples.map_err(damaged)?;
    let end = usize::try_from(reader.into_inner().position()).unwrap_or(usize::MAX);
    if !is_metadata(bytes.get(end..).unwrap_or_default()) {
        return Err(refused("more bytes follow than the header of the WAV file states"));
    }
    if samples.is_empty() {
        return Err(Reject::new("empty", "the audio has no samples"));
    }
    Ok(Wave { rate: sample_rate, samples })
}

/// True if only chunks follow the samples: neither sound that a false length leaves out, nor another
/// file.
fn is_metadata(mut rest: &[u8]) -> bool {
    // Chunks are padded to an even length.
    while rest.len() > 1 {
        let Some((header, body)) = rest.split_at_checked(8) else { return false };
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let is_name = header[..4].iter().all(|letter| (b' '..=b'~').contains(letter));
        if !is_name || header.starts_with(b"RIFF") || length > body.len() {
            return false;
        }
        rest = &body[(length + (length & 1)).min(body.len())..];
    }
    true
}

/// The WAV file of a wave; samples beyond full scale are clipped.
pub fn write(rate: u32, samples: &[f32]) -> Result<Vec<u8>, hound::Error> {
    let spec = WavSpec {
        channels: 1,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut bytes = Cursor::new(Vec::with_capacity(44 + 2 * samples.len()));
    let mut writer = WavWriter::new(&mut bytes, spec)?;
    for sample in samples {
        writer.write_sample((sample * FULL_SCALE).round().clamp(-32_768.0, 32_767.0) as i16)?;
    }
    writer.finalize()?;
    Ok(bytes.into_inner())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let samples = vec![0.0, 0.5, -0.5, -1.0, 32_767.0 / 32_768.0];
        let wave = read(&write(16_000, &samples).unwrap()).unwrap();
        assert_eq!(wave, Wave { rate: 16_000, samples });
    }

    #[test]
    fn loud_samples_are_cut_and_do_not_wrap() {
        let wave = read(&write(16_000, &[3.0, -3.0, f32::NAN]).unwrap()).unwrap();
        assert_eq!(wave.samples, [32_767.0 / 32_768.0, -1.0, 0.0]);
    }

    #[test]
    fn foreign_bytes_are_refused_with_advice() {
        let code = |bytes: &[u8]| read(bytes).unwrap_err().code;
        let good = write(16_000, &[0.0; 100]).unwrap();
        assert_eq!(code(b"ID3 and more"), "not-wav");
        assert_eq!(code(&[]), "not-wav");
        assert_eq!(code(&good[..100]), "not-wav");
        assert_eq!(code(&write(16_000, &[]).unwrap()), "empty");
        let mut stereo = good.clone();
        stereo[22] = 2; // channels, bytes a second, bytes a frame
        stereo[28..32].copy_from_slice(&64_000u32.to_le_bytes());
        stereo[32] = 4;
        assert_eq!(code(&stereo), "channels");
    }

    #[test]
    fn sound_that_the_header_does_not_cover_is_not_left_out_in_silence() {
        let good = write(16_000, &[0.25; 100]).unwrap();
        let tagged = [&good[..], b"LIST\x04\0\0\0INFO"].concat();
        assert_eq!(read(&tagged).unwrap().samples.len(), 100);
        let mut short = good.clone();
        short[40..44].copy_from_slice(&100_u32.to_le_bytes());
        for bytes in [[&good[..], &good[..]].concat(), short] {
            let reject = read(&bytes).unwrap_err();
            assert_eq!(reject.code, "not-wav");
            assert!(reject.reason.contains("audio.decode"), "{}", reject.reason);
        }
    }

    proptest::proptest! {
        #[test]
        fn hostile_headers_never_panic(at in 0usize..44, byte: u8, cut in 0usize..100) {
            let mut bytes = write(16_000, &[0.1; 20]).unwrap();
            bytes[at] = byte;
            bytes.truncate(100 - cut);
            let _ = read(&bytes);
        }
    }
}
