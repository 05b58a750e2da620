//! The load of the devices of this machine, for display only.

mod nvml;
mod processor;

pub use nvml::{DeviceSource, Nvml};
pub use processor::Processor;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuReading {
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
    fn read(&mut self) -> Vec<GpuReading>;
}

/// The GPUs and the processor. `found` returns the devices that a worker has found, and
/// `is_selected` tells if the caller has selected GPUs.
pub fn of_this_machine(found: DeviceSource, is_selected: bool) -> Vec<Box<dyn Gauge>> {
    vec![Box::new(Nvml::new(found, is_selected)), Box::new(Processor::default())]
}
