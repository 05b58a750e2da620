//! Sounds as samples, and as files.

use std::io::{self, Write};

use camino::Utf8Path;
use stage_speech::audio::clip::Clip;
use stage_speech::audio::decode::{DecodeOptions, decode};
use stage_speech::audio::wav;

/// The pause between sentences.
const PAUSE_SECONDS: f64 = 0.15;
/// Programs that play a WAV file, the usual ones first, with their arguments before it.
const PLAYERS: [(&str, &[&str]); 4] = [
    ("pw-play", &[]),
    ("paplay", &[]),
    ("aplay", &["-q"]),
    ("ffplay", &["-nodisp", "-autoexit", "-loglevel", "error"]),
];

/// A mono sound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sound {
    /// Samples a second.
    pub rate: u32,
    pub samples: Vec<i16>,
}

impl Sound {
    /// From a WAV file.
    pub fn read(bytes: &[u8]) -> Result<Sound, String> {
        let clip =
            decode(bytes, &DecodeOptions::default()).map_err(|fault| fault.to_string())?.clip;
        Ok(Sound { rate: clip.rate, samples: clip.into_pcm().0 })
    }

    /// Appends a sentence after a pause.
    pub fn append(&mut self, next: &Sound) {
        if self.samples.is_empty() {
            *self = next.clone();
            return;
        }
        self.samples.extend(self.pause());
        self.samples.extend(&next.samples);
    }

    /// The silence between sentences.
    pub fn pause(&self) -> Vec<i16> {
        vec![0; (f64::from(self.rate) * PAUSE_SECONDS) as usize]
    }

    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.rate.max(1))
    }

    pub fn wav(self) -> Result<Vec<u8>, String> {
        let written = wav::write(Clip::mono(self.rate, self.samples));
        written.map(|(bytes, _)| bytes).map_err(|fault| fault.to_string())
    }

    pub fn flac(&self) -> Result<Vec<u8>, String> {
        let samples: Vec<i32> = self.samples.iter().map(|sample| i32::from(*sample)).collect();
        view::flac::encode(&samples, 1, self.rate)
    }

    /// The samples as bytes, little-endian.
    pub fn pcm(samples: &[i16]) -> Vec<u8> {
        samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
    }

    /// The head of a WAV file of unknown length: players read until the end.
    pub fn endless_head(rate: u32) -> Vec<u8> {
        let mut head = Vec::with_capacity(44);
        head.extend(b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0");
        head.extend(rate.to_le_bytes());
        head.extend((rate * 2).to_le_bytes());
        head.extend(b"\x02\0\x10\0data\xff\xff\xff\xff");
        head
    }
}

/// Plays a WAV file with the first of the known programs. None if there is none of them.
fn play(file: &Utf8Path) -> io::Result<Option<&'static str>> {
    for (program, arguments) in PLAYERS {
        let mut command = std::process::Command::new(program);
        match command.args(arguments).arg(file).status() {
            Ok(status) if status.success() => return Ok(Some(program)),
            Ok(status) => return Err(io::Error::other(format!("`{program}` failed ({status})"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Plays a WAV file from memory.
pub fn play_bytes(wav: &[u8]) -> io::Result<Option<&'static str>> {
    let mut file = tempfile::Builder::new().prefix("throstle-").suffix(".wav").tempfile()?;
    file.write_all(wav)?;
    let path = Utf8Path::from_path(file.path());
    play(path.ok_or_else(|| io::Error::other("the folder for temporary files is not UTF-8"))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sound(level: i16) -> Sound {
        Sound { rate: 16_000, samples: (0..800).map(|at| at % 50 * level).collect() }
    }

    #[test]
    fn every_format_has_the_same_samples() {
        let sound = sound(70);
        let wav = sound.clone().wav().unwrap();
        assert_eq!(Sound::read(&wav).unwrap(), sound);
        assert_eq!(Sound::read(&sound.flac().unwrap()).unwrap(), sound);
        assert_eq!(wav[44..], Sound::pcm(&sound.samples));
        let mut endless = Sound::endless_head(16_000);
        assert_eq!((endless.len(), &endless[8..40]), (44, &wav[8..40]));
        endless.extend(Sound::pcm(&sound.samples));
        let options = DecodeOptions { allow_truncated: true, ..DecodeOptions::default() };
        let clip = decode(&endless, &options).unwrap().clip;
        assert_eq!(clip.into_pcm().0, sound.samples);
    }

    #[test]
    fn sentences_are_joined_with_a_pause_between_them() {
        let (one, two) = (sound(10), sound(20));
        let mut all = Sound::default();
        all.append(&one);
        assert_eq!(all, one);
        all.append(&two);
        assert_eq!(all.samples.len(), 800 + 2_400 + 800);
        assert_eq!(all.samples[3_200..], two.samples);
    }
}
