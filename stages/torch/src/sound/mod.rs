//! Waves, mel frames, the codec over them, and measures of synthesised speech.

pub mod codec;
pub mod griffin_lim;
pub mod measure;
pub mod mel;
pub mod mel_rvq;
pub mod mel_rvq_fit;
pub mod utterance;
pub mod wave;
