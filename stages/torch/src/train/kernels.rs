//! The choice of libtorch kernels for a training: of attention, and of matrix products on GPUs.
//! These are settings of the whole process.

use stage_core::{Parameters, StageError};

use super::precision::{DeviceFacts, Precision};
use crate::error::TorchError;
use crate::runtime::shim::{self, AttentionKernels};

/// The kernel of scaled dot product attention. If the selected one does not support something, such
/// as a mask with the flash kernel, the plain one is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionKernel {
    /// The fastest kernel that libtorch selects, but never that of cuDNN, which libtorch prefers on
    /// some GPUs: it plans again for each shape, and the length of rows changes with every frame
    /// and batch.
    #[default]
    Auto,
    Flash,
    Efficient,
    /// Products and a softmax, with the whole attention matrix in memory.
    Math,
}

/// The settings during a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernels {
    pub attention: AttentionKernel,
    pub tf32: bool,
}

impl AttentionKernel {
    pub fn parse(name: &str) -> AttentionKernel {
        match name {
            "flash" => AttentionKernel::Flash,
            "efficient" => AttentionKernel::Efficient,
            "math" => AttentionKernel::Math,
            _ => AttentionKernel::Auto,
        }
    }

    /// Refuses a kernel that the device does not have.
    pub fn check(self, facts: &DeviceFacts) -> Result<(), TorchError> {
        let refuse = |needs: &str, advice: &str| {
            let name = &facts.name;
            Err(TorchError::Input(format!(
                "this attention kernel needs {needs}, but the device is `{name}`: set `attention \
                 = \"{advice}\"`"
            )))
        };
        match (self, facts.compute_capability) {
            (AttentionKernel::Efficient, None) => refuse("a GPU", "auto"),
            (AttentionKernel::Flash, Some(capability)) if capability < (8, 0) => {
                refuse("compute capability 8.0", "efficient")
            }
            _ => Ok(()),
        }
    }

    fn kernels(self) -> AttentionKernels {
        let none = AttentionKernels { flash: false, efficient: false, math: true, cudnn: false };
        match self {
            AttentionKernel::Auto => AttentionKernels { flash: true, efficient: true, ..none },
            AttentionKernel::Flash => AttentionKernels { flash: true, ..none },
            AttentionKernel::Efficient => AttentionKernels { efficient: true, ..none },
            AttentionKernel::Math => none,
        }
    }
}

/// Sets the defaults in this process.
pub fn prepare() -> Result<(), TorchError> {
    shim::set_attention(AttentionKernel::default().kernels())?;
    shim::set_tf32(false)
}

impl Kernels {
    /// From the parameters of a training; `attention` is missing if a model has no choice.
    pub fn read(
        parameters: &Parameters,
        precision: Precision,
        devices: &[DeviceFacts],
    ) -> Result<Kernels, StageError> {
        let attention = if parameters.is_set("attention") {
            AttentionKernel::parse(parameters.text("attention")?)
        } else {
            AttentionKernel::Auto
        };
        devices.iter().try_for_each(|device| attention.check(device))?;
        Ok(Kernels { attention, tf32: precision == Precision::Tf32 })
    }

    /// Sets them until the result is dropped.
    pub fn begin(self) -> Result<InUse, TorchError> {
        self.set()?;
        Ok(InUse { differs: self != Kernels::default() })
    }

    fn set(self) -> Result<(), TorchError> {
        // A process that only needs the defaults never touches the settings.
        if self != Kernels::default() {
            shim::set_attention(self.attention.kernels())?;
            shim::set_tf32(self.tf32)?;
        }
        Ok(())
    }
}

/// Keeps the settings until it is dropped; then restores the defaults.
#[must_use]
pub struct InUse {
    differs: bool,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.differs {
            // The setters cannot fail on a value that was set before, and the error could not be
            // reported.
            let _ = shim::set_attention(AttentionKernel::Auto.kernels());
            let _ = shim::set_tf32(false);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn device(name: &str, compute_capability: Option<(u32, u32)>) -> DeviceFacts {
        DeviceFacts { name: name.into(), compute_capability }
    }

    #[test]
    fn a_kernel_that_the_device_lacks_is_refused_with_one_that_it_has() {
        let (cpu, t4) = (device("cpu", None), device("Tesla T4", Some((7, 5))));
        let error = AttentionKernel::Efficient.check(&cpu).unwrap_err().to_string();
        let expected = "this attention kernel needs a GPU, but the device is `cpu`: set \
                        `attention = \"auto\"`";
        assert_eq!(error, expected);
        let error = AttentionKernel::Flash.check(&t4).unwrap_err().to_string();
        assert!(error.contains("capability 8.0") && error.ends_with("\"efficient\"`"), "{error}");
        for attention in [AttentionKernel::Auto, AttentionKernel::Flash, AttentionKernel::Math] {
            attention.check(&cpu).unwrap();
        }
        AttentionKernel::Efficient.check(&t4).unwrap();
    }

    #[test]
    fn the_plain_kernel_stays_allowed_beside_any_other_and_that_of_cudnn_never_is() {
        for name in ["auto", "flash", "efficient", "math"] {
            let kernels = AttentionKernel::parse(name).kernels();
            assert!(kernels.math && !kernels.cudnn, "{name}");
        }
        assert!(!AttentionKernel::parse("math").kernels().flash);
    }
}
