//! The names of devices, as people write them and as programs exchange them.
//!
//! Each device has one spelling: `cpu`, or `cuda:` and its number in decimal digits without leading
//! zeros. torch has the same rule, so a name that is valid here is valid in a Python program too.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The highest number of a GPU: libtorch keeps it in 8 bits with a sign.
const MAX_GPU: u8 = i8::MAX as u8;
const GPU_PREFIX: &str = "cuda:";
/// The zeros of digits that people type, from which the other nine count.
const ZEROS: [char; 6] = ['0', '\u{ff10}', '\u{660}', '\u{6f0}', '\u{966}', '\u{ae6}'];

/// A device of a machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceId {
    /// The processor, with all of its cores.
    #[default]
    Cpu,
    /// Numbered from 0, in the order of the CUDA runtime.
    Gpu(GpuNumber),
}

/// The number of a GPU, from 0 to 127. Only [`DeviceId::gpu`] makes one, so each is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuNumber(u8);

impl From<GpuNumber> for usize {
    fn from(number: GpuNumber) -> usize {
        usize::from(number.0)
    }
}

impl DeviceId {
    /// `cuda:0`.
    pub const FIRST_GPU: DeviceId = DeviceId::Gpu(GpuNumber(0));

    /// `None` if the number is above the limit.
    pub fn gpu(number: usize) -> Option<DeviceId> {
        let number = u8::try_from(number).ok().filter(|number| *number <= MAX_GPU)?;
        Some(DeviceId::Gpu(GpuNumber(number)))
    }

    /// True for every device except the processor.
    pub fn is_gpu(self) -> bool {
        self.gpu_number().is_some()
    }

    /// `None` for the processor.
    pub fn gpu_number(self) -> Option<usize> {
        match self {
            DeviceId::Cpu => None,
            DeviceId::Gpu(number) => Some(number.into()),
        }
    }
}

/// The wish for a device in a manifest or an argument.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceName {
    /// `auto`: any GPU, or the processor of a machine without one.
    #[default]
    Auto,
    /// `cuda`: any GPU.
    AnyGpu,
    /// `cpu`, `cuda:1`.
    One(DeviceId),
}

impl DeviceName {
    /// `cpu`, as a default of parameters.
    pub const CPU: DeviceName = DeviceName::One(DeviceId::Cpu);

    /// The device, unless it depends on those of the machine.
    pub fn one(self) -> Option<DeviceId> {
        match self {
            DeviceName::Auto | DeviceName::AnyGpu => None,
            DeviceName::One(device) => Some(device),
        }
    }

    /// The device where nothing chooses between several, such as in a list: `cuda` is the first GPU.
    pub fn first(self) -> DeviceId {
        match self {
            DeviceName::Auto => DeviceId::Cpu,
            DeviceName::AnyGpu => DeviceId::FIRST_GPU,
            DeviceName::One(device) => device,
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceId::Cpu => formatter.pad("cpu"),
            DeviceId::Gpu(GpuNumber(number)) => formatter.pad(&format!("{GPU_PREFIX}{number}")),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Auto => formatter.pad("auto"),
            DeviceName::AnyGpu => formatter.pad("cuda"),
            DeviceName::One(device) => device.fmt(formatter),
        }
    }
}

impl From<DeviceId> for DeviceName {
    fn from(device: DeviceId) -> DeviceName {
        DeviceName::One(device)
    }
}

impl From<DeviceId> for String {
    fn from(device: DeviceId) -> String {
        device.to_string()
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> String {
        name.to_string()
    }
}

impl FromStr for DeviceName {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<DeviceName, UnknownDevice> {
        let unknown = || UnknownDevice { text: text.to_owned(), nearest: nearest(text) };
        match text {
            "auto" => Ok(DeviceName::Auto),
            "cuda" => Ok(DeviceName::AnyGpu),
            "cpu" => Ok(DeviceName::CPU),
            _ => {
                text.strip_prefix(GPU_PREFIX).and_then(gpu).map(DeviceName::One).ok_or_else(unknown)
            }
        }
    }
}

impl TryFrom<String> for DeviceName {
    type Error = UnknownDevice;

    fn try_from(text: String) -> Result<DeviceName, UnknownDevice> {
        text.parse()
    }
}

impl TryFrom<String> for DeviceId {
    type Error = UnknownDevice;

    fn try_from(text: String) -> Result<DeviceId, UnknownDevice> {
        let name: DeviceName = text.parse()?;
        name.one().ok_or(UnknownDevice { text, nearest: None })
    }
}

/// A GPU by its number in the only spelling: the one that it is printed in.
fn gpu(digits: &str) -> Option<DeviceId> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let device = DeviceId::gpu(digits.parse().ok().filter(|_| is_plain)?)?;
    device.gpu_number().is_some_and(|number| number.to_string() == digits).then_some(device)
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no device `{}`", text.escape_debug())]
pub struct UnknownDevice {
    /// The text as it was written.
    pub text: String,
    /// The device that may be meant.
    pub nearest: Option<DeviceName>,
}

/// The device that a misspelled name may mean, such as `cuda:1` for `CUDA:01` and `gpu 1`.
fn nearest(text: &str) -> Option<DeviceName> {
    let plain: String = text.chars().filter_map(plain).collect();
    let end = plain.find(|letter: char| letter.is_ascii_digit()).unwrap_or(plain.len());
    let (word, digits) = plain.split_at(end);
    match (word, digits) {
        ("cpu" | "processor" | "host", _) => Some(DeviceName::CPU),
        ("auto" | "any" | "default", "") => Some(DeviceName::Auto),
        ("", "") => None,
        ("cuda" | "gpu" | "nvidia", "") => Some(DeviceName::AnyGpu),
        ("cuda" | "gpu" | "nvidia" | "", _) => {
            let number = digits.parse().ok().and_then(DeviceId::gpu);
            Some(number.map_or(DeviceName::AnyGpu, DeviceName::One))
        }
        // Words of three letters are too alike: `tpu` does not mean `cpu`.
        _ => ["cuda", "auto"]
            .into_iter()
            .find(|name| strsim::damerau_levenshtein(word, name) == 1)
            .and_then(|name| nearest(&format!("{name}{digits}"))),
    }
}

/// A letter or digit as it is written in names, without marks between them.
fn plain(letter: char) -> Option<char> {
    let digit = |zero: char| u32::from(letter).checked_sub(zero.into()).filter(|digit| *digit < 10);
    match ZEROS.into_iter().find_map(digit) {
        Some(digit) => char::from_digit(digit, 10),
        None => letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn name(text: &str) -> Result<DeviceName, UnknownDevice> {
        text.parse()
    }

    #[test]
    fn a_device_has_one_spelling() {
        for text in ["auto", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:10", "cuda:127"] {
            assert_eq!(name(text).unwrap().to_string(), text);
        }
        assert_eq!(name("cuda:1").unwrap().one(), DeviceId::gpu(1));
        assert_eq!(name("cuda:1").unwrap().first().gpu_number(), Some(1));
        assert_eq!(name("cuda").unwrap().first(), DeviceId::FIRST_GPU);
        assert_eq!(name("cuda").unwrap().one(), None);
        assert_eq!(name("auto").unwrap().first(), DeviceId::Cpu);
    }

    #[test]
    fn another_spelling_is_refused_with_the_nearest_name() {
        let near = |text: &str| name(text).unwrap_err().nearest.map(|near| near.to_string());
        for (text, expected) in [
            ("cuda:01", "cuda:1"),
            ("cuda:00", "cuda:0"),
            ("CUDA:1", "cuda:1"),
            ("Cuda", "cuda"),
            ("CPU", "cpu"),
            ("cpu:0", "cpu"),
            (" cuda:1", "cuda:1"),
            ("cuda:1 ", "cuda:1"),
            ("cuda: 1", "cuda:1"),
            ("cuda 1", "cuda:1"),
            ("cuda1", "cuda:1"),
            ("cuda:+1", "cuda:1"),
            ("cuda:-1", "cuda:1"),
            ("cuda:", "cuda"),
            ("gpu", "cuda"),
            ("gpu:2", "cuda:2"),
            ("1", "cuda:1"),
            ("cuda:128", "cuda"),
            ("cuda:4294967297", "cuda"),
            ("cuda:99999999999999999999999999", "cuda"),
            ("cuda:x", "cuda"),
            ("cuda:1.0x", "cuda"),
            ("cuda:\u{ff11}", "cuda:1"),
            ("cuda:\u{661}", "cuda:1"),
            ("cuda:\u{967}", "cuda:1"),
            ("cuda:\u{ae7}", "cuda:1"),
            ("cdua:1", "cuda:1"),
            ("Auto", "auto"),
        ] {
            assert_eq!(near(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", " ", "tpu:0", "mps", "xpu", "\0"] {
            assert_eq!(near(text), None, "{text}");
        }
        assert_eq!(name("a\nb").unwrap_err().to_string(), "there is no device `a\\nb`");
    }

    #[test]
    fn programs_exchange_devices_as_texts() {
        let device = DeviceId::gpu(1).unwrap();
        assert_eq!(serde_json::to_string(&device).unwrap(), "\"cuda:1\"");
        assert_eq!(serde_json::from_str::<DeviceId>("\"cuda:1\"").unwrap(), device);
        assert!(serde_json::from_str::<DeviceId>("\"cuda:01\"").is_err());
        assert!(serde_json::from_str::<DeviceId>("\"auto\"").is_err(), "no device yet");
        assert_eq!(serde_json::from_str::<DeviceName>("\"auto\"").unwrap(), DeviceName::Auto);
    }
}
