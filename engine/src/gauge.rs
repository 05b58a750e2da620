//! The load of the devices of this machine, for display only.

mod processor;
mod smi;

pub use processor::Processor;
pub use smi::Smi;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The name of the device in manifests, or `processor`.
    pub name: String,
    pub model: String,
    /// The busy share of the time, from 0 to 1.
    pub busy: Option<f64>,
    pub used_bytes: u64,
    pub total_bytes: u64,
}

/// A source of readings, queried once a second.
pub trait Gauge: Send {
    fn read(&mut self) -> Vec<Reading>;
}

/// The GPUs, by `nvidia-smi`, and the processor.
pub fn of_this_machine() -> Vec<Box<dyn Gauge>> {
    vec![Box::new(Smi::default()), Box::new(Processor::default())]
}
