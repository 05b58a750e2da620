//! ffmpeg as the reference: that of `tools/players.sh`, or one on the PATH. Tests print that they are
//! skipped without it.

use stage_speech::audio::decode::DecodedClip;
use stage_speech::audio::{Fault, Note};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Ffmpeg(PathBuf);

/// Frames that ffmpeg plays and that are none of the recording: the tag of a joined MP3 as a frame of
/// silence, and the added frames of both files.
const ADDED_FRAMES: usize = 4 * 1_152;

impl Ffmpeg {
    pub fn find() -> Option<Ffmpeg> {
        let found = installed().into_iter().chain([PathBuf::from("ffmpeg")]).find(|program| {
            let output = Command::new(program).arg("-version").output();
            output.is_ok_and(|output| output.status.success())
        });
        if found.is_none() {
            eprintln!("comparison skipped: there is no ffmpeg; tools/players.sh installs one");
        }
        found.map(Ffmpeg)
    }

    /// The samples of a file as interleaved 16-bit integers.
    fn decode(&self, bytes: &[u8]) -> Vec<i16> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let output = Command::new(&self.0)
            .args(["-v", "quiet", "-nostdin", "-i"])
            .arg(file.path())
            .args(["-map", "0:a:0", "-f", "s16le", "-"])
            .output()
            .unwrap();
        let (samples, _) = output.stdout.as_chunks::<2>();
        samples.iter().map(|sample| i16::from_le_bytes(*sample)).collect()
    }

    /// The reasons why a recording is not what ffmpeg reads. A refused one is no reason, and neither
    /// is one with more frames.
    pub fn compare(&self, bytes: &[u8], found: Result<DecodedClip, Fault>) -> Vec<String> {
        let Ok(DecodedClip { clip, notes, .. }) = found else { return Vec::new() };
        let expected = self.decode(bytes);
        let channels = usize::from(clip.channels);
        let (frames, expected_frames) = (clip.frames(), expected.len() / channels);
        let is_told = notes
            .iter()
            .any(|note| matches!(note, Note::LeftOut { .. } | Note::SkippedPackets { .. }));
        let mut reasons = Vec::new();
        if frames + ADDED_FRAMES < expected_frames && !is_told {
            reasons.push(format!("ffmpeg reads {expected_frames} frames, not {frames}"));
        }
        if frames == expected_frames && notes.is_empty() {
            let pairs = clip.into_pcm().0.into_iter().zip(&expected);
            let far = pairs.map(|(one, other)| one.abs_diff(*other)).max().unwrap_or(0);
            // Dither and rounding differ by a step.
            if far > 2 {
                reasons.push(format!("samples differ from those of ffmpeg by {far}"));
            }
        }
        reasons
    }
}

/// That of the Python package `imageio-ffmpeg` in `.players`.
fn installed() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let below = |folder: PathBuf| std::fs::read_dir(folder).ok()?.next()?.ok().map(|it| it.path());
    let python = below(root.join(".players/lib"))?;
    let programs = python.join("site-packages/imageio_ffmpeg/binaries");
    let files = std::fs::read_dir(programs).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.into_iter().find(|file| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ffmpeg-"))
    })
}
