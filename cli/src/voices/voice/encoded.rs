//! Sounds in compressed formats, by ffmpeg if it is installed.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::thread::Builder;

use super::sound::Sound;

const PROGRAM: &str = "ffmpeg";

/// A format that ffmpeg writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressedFormat {
    Mp3,
    Opus,
    Aac,
}

impl CompressedFormat {
    pub fn media_type(self) -> &'static str {
        match self {
            CompressedFormat::Mp3 => "audio/mpeg",
            CompressedFormat::Opus => "audio/ogg",
            CompressedFormat::Aac => "audio/aac",
        }
    }

    /// The options for the output of ffmpeg.
    fn options(self) -> &'static [&'static str] {
        match self {
            CompressedFormat::Mp3 => &["-f", "mp3", "-b:a", "96k"],
            CompressedFormat::Opus => &["-c:a", "libopus", "-f", "opus", "-b:a", "48k"],
            CompressedFormat::Aac => &["-f", "adts", "-b:a", "96k"],
        }
    }

    /// The bytes of a sound in this format.
    ///
    /// # Errors
    ///
    /// The reason in words, if ffmpeg is not installed or cannot write the format.
    pub fn write(self, sound: &Sound) -> Result<Vec<u8>, String> {
        self.run(sound).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "compressed formats need `ffmpeg`, which is not installed; choose wav or flac"
                    .to_owned()
            }
            _ => format!("`ffmpeg` failed: {error}; choose wav or flac"),
        })
    }

    fn run(self, sound: &Sound) -> io::Result<Vec<u8>> {
        let rate = sound.rate.to_string();
        let mut child = Command::new(PROGRAM)
            .args([
                "-nostdin", "-v", "error", "-f", "s16le", "-ac", "1", "-ar", &rate, "-i", "pipe:0",
            ])
            .args(self.options())
            .arg("pipe:1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let samples = Sound::pcm(&sound.samples);
        let (mut stdin, mut stderr) = (child.stdin.take(), child.stderr.take());
        let output = std::thread::scope(|scope| {
            // Both pipes are served while the output is read: none of the three may fill up.
            Builder::new().spawn_scoped(scope, move || {
                // A program that ended early tells why on standard error.
                let _ = stdin.take().map(|mut stdin| stdin.write_all(&samples));
            })?;
            let told = Builder::new().spawn_scoped(scope, move || {
                let mut told = String::new();
                let _ = stderr.take().map(|mut stderr| stderr.read_to_string(&mut told));
                told
            })?;
            let output = child.wait_with_output()?;
            io::Result::Ok((output, told.join().unwrap_or_default()))
        });
        let (output, told) = output?;
        if output.status.success() && !output.stdout.is_empty() {
            Ok(output.stdout)
        } else {
            let last = told.lines().last().unwrap_or("it wrote nothing").trim().to_owned();
            Err(io::Error::other(last))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stage_speech::audio::decode::{DecodeOptions, decode};

    #[test]
    fn compressed_sounds_are_as_long_as_their_samples() {
        if Command::new(PROGRAM).arg("-version").output().is_err() {
            println!("skipped: `ffmpeg` is not installed");
            return;
        }
        let tone = |at: u32| ((f64::from(at) * 0.2).sin() * 9_000.0) as i16;
        let sound = Sound { rate: 16_000, samples: (0..32_000).map(tone).collect() };
        let mp3 = CompressedFormat::Mp3.write(&sound).unwrap();
        assert!(mp3.len() < 40_000, "{} bytes of 64,000", mp3.len());
        let clip = decode(&mp3, &DecodeOptions::default()).unwrap().clip;
        let seconds = f64::from(clip.rate).recip() * clip.into_pcm().0.len() as f64;
        assert!((1.9..2.2).contains(&seconds), "{seconds} s");
        assert_eq!(CompressedFormat::Opus.write(&sound).unwrap()[..4], *b"OggS");
        assert_eq!(CompressedFormat::Aac.write(&sound).unwrap()[0], 0xff, "the sync word of ADTS");
    }
}
