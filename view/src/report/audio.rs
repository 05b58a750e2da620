//! Recordings inside the page, with a picture of the waveform: FLAC, which is lossless and which
//! every browser plays. Their total size is limited; the first ones requested are included.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use cache::Digest;
use engine::store::Store;
use stage_core::Blob;
use stage_speech::audio::clip::Clip;
use stage_speech::audio::decode::{DecodeLimits, DecodeOptions, decode};

use crate::flac;

/// The limit for all recordings together, in bytes as they are in the page.
pub const ROOM: usize = 12 << 20;
/// Longer recordings are left out.
const LONGEST_SECONDS: f64 = 120.0;
/// The number of peaks in the picture.
const PEAKS: usize = 72;

/// A recording on the page.
#[derive(Debug, PartialEq)]
pub struct EmbeddedAudio {
    /// Its index among the recordings of the page.
    pub number: usize,
    /// FLAC in base64.
    pub data: String,
    pub seconds: f64,
    pub rate: u32,
    /// The loudest sample of each part, from 0 to 1.
    pub peaks: Vec<f32>,
}

/// The result of a request for a recording.
#[derive(Clone, Debug)]
pub enum AudioLookup {
    Here(Arc<EmbeddedAudio>),
    /// The page is full.
    NoRoom,
    /// It is no longer in the cache, or not a recording, for this reason.
    Not(String),
}

/// The recordings of a page.
pub struct PageAudio<'a> {
    store: &'a Store,
    room: usize,
    known: BTreeMap<Digest, AudioLookup>,
    recordings: Vec<Arc<EmbeddedAudio>>,
    pub left_out: usize,
}

impl PageAudio<'_> {
    pub fn new(store: &Store, room: usize) -> PageAudio<'_> {
        PageAudio { store, room, known: BTreeMap::new(), recordings: Vec::new(), left_out: 0 }
    }

    /// Leaves this number of bytes to something else.
    pub fn give_up(&mut self, bytes: usize) {
        self.room = self.room.saturating_sub(bytes);
    }

    /// The recordings on the page, each once.
    pub fn recordings(&self) -> &[Arc<EmbeddedAudio>] {
        &self.recordings
    }

    /// The recording, if it fits. A second request for it takes no more space.
    pub fn hear(&mut self, blob: &Blob) -> AudioLookup {
        if let Some(known) = self.known.get(&blob.digest) {
            return known.clone();
        }
        let heard = match self.room {
            0 => AudioLookup::NoRoom,
            _ => self.read(blob),
        };
        self.left_out += usize::from(matches!(heard, AudioLookup::NoRoom));
        self.known.insert(blob.digest, heard.clone());
        heard
    }

    fn read(&mut self, blob: &Blob) -> AudioLookup {
        let bytes = match self.store.read(&blob.digest) {
            Ok(bytes) => bytes,
            Err(error) => return AudioLookup::Not(error.to_string()),
        };
        match EmbeddedAudio::of(&bytes, self.recordings.len()) {
            Err(why) => AudioLookup::Not(why),
            Ok(recording) if recording.data.len() > self.room => {
                // A shorter one may still fit, but a nearly full page is treated as full.
                self.room = if self.room < ROOM / 50 { 0 } else { self.room };
                AudioLookup::NoRoom
            }
            Ok(recording) => {
                self.room -= recording.data.len();
                let recording = Arc::new(recording);
                self.recordings.push(recording.clone());
                AudioLookup::Here(recording)
            }
        }
    }
}

impl EmbeddedAudio {
    /// The readable part of a recording, even if it is truncated.
    fn of(bytes: &[u8], number: usize) -> Result<EmbeddedAudio, String> {
        let limits = DecodeLimits { seconds: LONGEST_SECONDS, ..DecodeLimits::default() };
        let options = DecodeOptions { allow_truncated: true, limits, ..DecodeOptions::default() };
        let clip = decode(bytes, &options).map_err(|fault| fault.to_string())?.clip;
        let (seconds, rate) = (clip.seconds(), clip.rate);
        let (channels, samples) = (usize::from(clip.channels), pcm(clip));
        let peaks = peaks(&samples);
        let data = Base64::encode_string(&flac::encode(&samples, channels, rate)?);
        Ok(EmbeddedAudio { number, data, seconds, rate, peaks })
    }
}

fn pcm(clip: Clip) -> Vec<i32> {
    clip.into_pcm().0.into_iter().map(i32::from).collect()
}

fn peaks(samples: &[i32]) -> Vec<f32> {
    let loudest = |part: &[i32]| {
        let peak = part.iter().map(|sample| sample.unsigned_abs()).max().unwrap_or(0);
        peak as f32 / -f32::from(i16::MIN)
    };
    samples.chunks(samples.len().div_ceil(PEAKS).max(1)).map(loudest).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cache::fs::MemoryFs;
    use cache::stat::StatIndex;
    use cache::{Access, Cache};
    use stage_speech::audio::wav;

    fn store() -> Store {
        let cache = Cache::open("/cache".into(), Arc::new(MemoryFs::new()), Access::ReadWrite);
        let cache = cache.unwrap();
        let index = Arc::new(StatIndex::load(&cache).unwrap());
        Store::new(cache, "/".into(), index)
    }

    fn sound(store: &Store, level: i16) -> (Blob, Vec<i16>) {
        let samples: Vec<i16> =
            (0..8_000).map(|at: i16| if at < 4_000 { at % 50 * level } else { level }).collect();
        let (bytes, _) = wav::write(Clip::mono(16_000, samples.clone())).unwrap();
        let size = bytes.len() as u64;
        let digest = store.put(bytes.into()).unwrap();
        (Blob { digest, size, kind: wav::KIND.into() }, samples)
    }

    fn here(heard: AudioLookup) -> Arc<EmbeddedAudio> {
        match heard {
            AudioLookup::Here(recording) => recording,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_page_plays_is_the_recording_to_the_bit() {
        let store = store();
        let (blob, samples) = sound(&store, 70);
        let recording = here(PageAudio::new(&store, ROOM).hear(&blob));
        let flac = Base64::decode_vec(&recording.data).unwrap();
        let decoded = decode(&flac, &DecodeOptions::default()).unwrap().clip;
        assert_eq!((decoded.rate, recording.rate, recording.seconds), (16_000, 16_000, 0.5));
        assert_eq!(decoded.into_pcm().0, samples);
        assert_eq!(recording.peaks.len(), PEAKS);
        assert!((recording.peaks[0] - 49.0 * 70.0 / 32_768.0).abs() < 1e-6);
    }

    #[test]
    fn a_full_page_takes_no_more_and_says_how_many() {
        let store = store();
        let (first, second) = (sound(&store, 70).0, sound(&store, 71).0);
        let needed = here(PageAudio::new(&store, ROOM).hear(&first)).data.len();
        let mut page_audio = PageAudio::new(&store, needed);
        here(page_audio.hear(&first));
        assert!(matches!(page_audio.hear(&second), AudioLookup::NoRoom));
        here(page_audio.hear(&first));
        assert!(matches!(page_audio.hear(&second), AudioLookup::NoRoom));
        assert_eq!(page_audio.left_out, 1);
    }

    #[test]
    fn what_is_no_recording_or_is_gone_is_told() {
        let store = store();
        let bytes = b"not a sound at all, but a text".as_slice();
        let digest = store.put(bytes.into()).unwrap();
        let blob = |digest| Blob { digest, size: 30, kind: "audio/wav".into() };
        let mut page_audio = PageAudio::new(&store, ROOM);
        assert!(matches!(page_audio.hear(&blob(digest)), AudioLookup::Not(_)));
        assert!(matches!(page_audio.hear(&blob(Digest::of(b"gone"))), AudioLookup::Not(_)));
    }
}
