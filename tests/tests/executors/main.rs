//! Executors, with the programs: machines are folders of their own here.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod cluster;
mod fake;
mod items;
mod places;
mod slurm;
mod trainings;
