//! VITS (Kim et al., arXiv 2106.06103): end-to-end text-to-speech with a conditional variational
//! autoencoder, a normalizing flow and a duration predictor; MMS models are of this kind.
//!
//! Tensors are named as in transformers. Shapes: B rows of a batch, N tokens with blanks, T frames,
//! C hidden channels, F channels of latents, E of a speaker. Masks are 1 and 0.

mod alignment;
pub mod artifact;
mod attention;
mod batch;
pub mod cached;
pub mod config;
mod decoder;
mod deterministic;
mod discriminator;
mod dropout;
mod duration;
mod duration_flow;
pub mod fixture;
mod flow;
pub mod fresh;
mod load;
mod losses;
mod model;
mod nets;
mod noise;
mod separable;
mod show;
mod spectrogram;
mod spline;
#[cfg(test)]
mod tests;
mod text_encoder;
mod trainee;
mod training;
pub mod tune;
mod wavenet;

pub use alignment::align;
pub use batch::{Batch, Recording};
pub use config::Config;
pub use load::{Form, Prepared, prepare};
pub use losses::LossWeights;
pub use model::{Manner, Speech, Texts, Vits};
pub use nets::{Net, Nets, TrainingOptions};
pub use noise::{NormalNoise, Recorded, Seeded};
pub use spectrogram::Analysis;
pub use trainee::VitsTrainee;
pub use training::{Clips, Made};
