//! Layers, adapters and random numbers that the models share.

pub mod cast;
pub mod chain;
pub mod conv;
pub mod convolution;
pub mod counter;
pub mod hifi_gan;
pub mod kmeans;
pub mod layers;
pub mod lora;
pub mod lora_fixture;
pub mod random;
pub mod rope;
pub mod weight_norm;
pub mod weights;
