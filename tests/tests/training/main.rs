//! Trainings and the worker: estimates, limits, interruptions, sweeps and synthesis.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod comparing;
mod continuing;
mod deadline;
mod estimates;
mod forecasts;
mod gpu_hours;
mod interruptions;
mod serving;
mod set_aside;
mod sweeps;
mod turns;
mod worker;
