//! How busy the devices of this machine are at a moment, for whoever watches a run. Nothing is
//! decided by it.

mod processor;
mod smi;

pub use processor::Processor;
pub use smi::Smi;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// As a manifest names the device, or `processor`.
    pub name: String,
    pub model: String,
    /// The part of the time that it worked, from 0 to 1.
    pub busy: Option<f64>,
    pub used_bytes: u64,
    pub total_bytes: u64,
}

/// A source of readings, asked about once a second.
pub trait Gauge: Send {
    fn read(&mut self) -> Vec<Reading>;
}

/// The GPUs by NVIDIA's own program, and the processor.
pub fn of_this_machine() -> Vec<Box<dyn Gauge>> {
    vec![Box::new(Smi::default()), Box::new(Processor::default())]
}
