//! The sounds of split and joined segments, sample by sample.

use crate::audio::clip::{Clip, Samples};
use crate::audio::decode::{DecodeOptions, decode};
use crate::audio::mix::Mix;
use crate::audio::wav;

/// A part of a recording as WAV.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub bytes: Vec<u8>,
    pub seconds: f64,
}

/// Two parts of a sound, the first with this many seconds. None if it is not so long.
///
/// # Errors
///
/// The reason why the sound cannot be read.
pub fn split(bytes: &[u8], at: f64) -> Result<Option<[Piece; 2]>, String> {
    let clip = read(bytes)?;
    let (frames, rate) = (clip.frames(), f64::from(clip.rate));
    let count = (at * rate).round();
    if !(1.0..frames as f64).contains(&count) {
        return Ok(None);
    }
    let (mut first, mut second) = (clip.clone(), clip);
    first.keep(0..count as usize);
    second.keep(count as usize..frames);
    Ok(Some([write(first)?, write(second)?]))
}

/// Two sounds in a row. None if their rates or channels differ.
///
/// # Errors
///
/// The reason why one of them cannot be read.
pub fn join(one: &[u8], other: &[u8]) -> Result<Option<Piece>, String> {
    let (one, other) = (read(one)?, read(other)?);
    if (one.rate, one.channels) != (other.rate, other.channels) {
        return Ok(None);
    }
    let (rate, channels) = (one.rate, one.channels);
    let mut samples = one.into_pcm().0;
    samples.extend(other.into_pcm().0);
    write(Clip { rate, channels, samples: Samples::Pcm(samples) }).map(Some)
}

fn read(bytes: &[u8]) -> Result<Clip, String> {
    let options = DecodeOptions { mix: Mix::Keep, ..DecodeOptions::default() };
    decode(bytes, &options).map(|decoded| decoded.clip).map_err(|fault| fault.to_string())
}

fn write(clip: Clip) -> Result<Piece, String> {
    let seconds = clip.seconds();
    let (bytes, _) = wav::write(clip).map_err(|fault| fault.to_string())?;
    Ok(Piece { bytes, seconds })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn stereo(samples: std::ops::Range<i16>) -> Vec<u8> {
        let samples = Samples::Pcm(samples.collect());
        wav::write(Clip { rate: 8_000, channels: 2, samples }).unwrap().0
    }

    #[test]
    fn parts_have_the_samples_of_the_whole_and_join_to_it() {
        let whole = stereo(0..16_000);
        let [first, second] = split(&whole, 0.25).unwrap().unwrap();
        assert_eq!((first.seconds, second.seconds), (0.25, 0.75));
        assert_eq!(first.bytes, stereo(0..4_000));
        assert_eq!(second.bytes, stereo(4_000..16_000));
        assert_eq!(join(&first.bytes, &second.bytes).unwrap().unwrap().bytes, whole);
    }

    #[test]
    fn places_outside_of_a_sound_and_other_rates_are_no_cuts() {
        let whole = stereo(0..16_000);
        for at in [0.0, 0.000_01, 1.0, 9.0, f64::NAN] {
            assert_eq!(split(&whole, at), Ok(None), "{at}");
        }
        let mono = wav::write(Clip::mono(8_000, vec![1; 800])).unwrap().0;
        assert_eq!(join(&whole, &mono), Ok(None));
        assert!(split(b"no sound", 1.0).is_err());
    }
}
