//! Executors, with the programs: machines are folders of their own here.

mod beside;
mod cluster;
mod divided;
mod fake;
mod full;
mod items;
mod places;
mod shown;
mod slurm;
mod trainings;
mod unattended;
