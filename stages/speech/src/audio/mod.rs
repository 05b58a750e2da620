//! Recordings: reading any common container, resampling, normalising, trimming and measuring. All
//! of it is pure: bytes or a clip in, a clip and findings out. Stages wrap these functions; files
//! and keys are unknown here.

pub mod check;
pub mod clip;
pub mod cuts;
pub mod decode;
pub mod fault;
pub mod kinds;
pub mod loudness;
pub mod measure;
pub mod mix;
pub mod note;
pub mod pauses;
pub mod resample;
pub mod sniff;
pub mod stream;
pub mod trim;
pub mod wav;

mod adpcm;
mod aiff;
mod block;
mod codec;
mod container;
mod flac;
mod flac_frame;
mod input;
pub(crate) mod long;
mod movie;
mod mp3;
mod mp4;
mod mpeg;
mod ogg;
mod ogg_page;
mod part;
mod pcm;
mod plain;
mod riff;
mod snr;
mod sound;
pub(crate) mod source;
mod spectrum;
mod stage;
mod wave_format;

pub use clip::{Clip, Samples};
pub use decode::{DecodedClip, decode};
pub use fault::Fault;
pub use note::Note;
pub use stage::stages;
