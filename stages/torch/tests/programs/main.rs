//! The real programs together: the first steps of a new user, trainings, and machines with GPUs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod cuda_build;
mod first;
mod gpu_script;
mod tune;
