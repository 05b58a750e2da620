//! The names of devices.

use stage_core::StageError;
use tch::Device;

/// The device with this name; an empty name means the CPU.
pub fn parse_device(name: &str) -> Result<Device, StageError> {
    let number = match name {
        "" | "cpu" => return Ok(Device::Cpu),
        "cuda" => Some(0),
        _ => name.strip_prefix("cuda:").and_then(|number| number.parse::<u8>().ok()),
    };
    let unknown = || StageError::failed(format!("no device `{name}`: expected `cpu` or `cuda:0`"));
    number.map(|number| Device::Cuda(usize::from(number))).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_read() {
        let device = |name| parse_device(name).map_err(|error| error.to_string());
        assert_eq!(device(""), Ok(Device::Cpu));
        assert_eq!(device("cpu"), Ok(Device::Cpu));
        assert_eq!(device("cuda"), Ok(Device::Cuda(0)));
        assert_eq!(device("cuda:3"), Ok(Device::Cuda(3)));
        let unknown = "no device `gpu`: expected `cpu` or `cuda:0`";
        assert_eq!(device("gpu"), Err(unknown.into()));
        assert!(device("cuda:x").is_err());
    }
}
