//! Stage kinds that work with models of several families.

pub mod audit;
pub mod model;
pub mod parameters;
pub mod torchscript;
pub mod training;
pub mod vq;

use stage_core::Kind;

pub const KINDS: &[&[&Kind]] = &[audit::KINDS, model::KINDS, torchscript::KINDS, vq::KINDS];
