//! VITS (Kim et al., arXiv 2106.06103): end-to-end text-to-speech with a conditional variational
//! autoencoder, a normalizing flow and a duration predictor; MMS models are of this kind.
//!
//! Files bear the names of the original project's modules, tensors those of transformers. Shapes: B rows of a batch, N tokens with blanks, T frames,
//! C hidden channels, F channels of latents, E of a speaker. Masks are 1 and 0.

pub mod artifact;
mod attentions;
mod commons;
pub mod complete;
mod data_utils;
mod discriminator;
mod duration_predictors;
pub mod fixture;
pub mod fresh;
mod generator_output;
mod load;
mod losses;
pub mod mel_processing;
mod models;
mod modules;
mod monotonic_align;
mod noise;
mod show;
#[cfg(test)]
mod tests;
mod train;
mod trainee;
mod transforms;
pub mod tune;

pub use data_utils::{ClipTensors, Recording, VitsBatch};
pub use generator_output::GeneratorOutput;
pub use load::{NetworkWeights, WeightForm, prepare};
pub use losses::LossWeights;
pub use mel_processing::Analysis;
pub use models::{SynthesisSettings, Texts, Vits, VitsSpeech};
pub use monotonic_align::align;
pub use noise::{NormalNoise, RecordedNormal, SeededNormal};
pub use stage_families::vits::VitsConfig;
pub use train::{Network, Networks, TrainingOptions};
pub use trainee::VitsTrainee;
