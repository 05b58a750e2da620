//! The number format of a model's computation, and the loss scale of fp16.

use serde::{Deserialize, Serialize};
use tch::Kind;

use super::exact;
use crate::error::TorchError;

/// The type of the model's tensors; the optimiser's master copies are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    F32,
    /// f32, with matrix products and convolutions in TF32 (ten bits of precision).
    Tf32,
    Bf16,
    Fp16,
}

/// The facts that determine the choice of a precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The name for users: `cpu`, `Tesla T4`.
    pub name: String,
    /// Major and minor; None on a CPU.
    pub compute_capability: Option<(u32, u32)>,
}

impl Precision {
    /// The name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
            Precision::Fp16 => "fp16",
        }
    }

    /// The precision with this name.
    pub fn named(name: &str) -> Option<Precision> {
        use Precision::{Bf16, F32, Fp16, Tf32};
        [F32, Tf32, Bf16, Fp16].into_iter().find(|precision| precision.name() == name)
    }

    pub fn kind(self) -> Kind {
        match self {
            Precision::F32 | Precision::Tf32 => Kind::Float,
            Precision::Bf16 => Kind::BFloat16,
            Precision::Fp16 => Kind::Half,
        }
    }

    /// The fastest precision for reliable training on a device.
    pub fn best(facts: &DeviceFacts) -> Precision {
        match facts.compute_capability {
            None => Precision::F32,
            Some(capability) if capability >= (8, 0) => Precision::Bf16,
            Some(capability) if capability >= (7, 0) => Precision::Fp16,
            Some(_) => Precision::F32,
        }
    }

    /// Refuses a precision without hardware support: it would run many times slower.
    pub fn check(self, facts: &DeviceFacts) -> Result<(), TorchError> {
        let (name, needed, advice) = match self {
            Precision::F32 => return Ok(()),
            Precision::Tf32 => return check_tf32(facts),
            Precision::Bf16 => ("bf16", (8, 0), "`fp16` or `f32`"),
            Precision::Fp16 => ("fp16", (7, 0), "`f32`"),
        };
        require(facts, name, needed, advice)
    }
}

/// Refuses TF32 on devices without it.
fn check_tf32(facts: &DeviceFacts) -> Result<(), TorchError> {
    match facts.compute_capability {
        None => Err(TorchError::Input(format!(
            "tf32 needs a GPU, but the device is `{}`: use `f32` on it",
            facts.name
        ))),
        Some(_) => require(facts, "tf32", (8, 0), "`f32` or `fp16`"),
    }
}

fn require(
    facts: &DeviceFacts,
    what: &str,
    needed: (u32, u32),
    advice: &str,
) -> Result<(), TorchError> {
    match facts.compute_capability {
        Some(has) if has < needed => Err(TorchError::Input(format!(
            "{what} needs compute capability {}.{}, but `{}` has {}.{}: use {advice} on it",
            needed.0, needed.1, facts.name, has.0, has.1
        ))),
        _ => Ok(()),
    }
}

/// The dynamic loss scale: doubled after a series of good steps, halved at each overflow, but never
/// below one, where small gradients would be lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaler {
    #[serde(with = "exact")]
    scale: f64,
    /// Good steps since the scale last changed.
    good: u64,
    /// False for formats with the range of f32.
    dynamic: bool,
}

const START: f64 = 65_536.0;
const LEAST: f64 = 1.0;
const GROWTH: f64 = 2.0;
const BACK_OFF: f64 = 0.5;
const GROWTH_STEPS: u64 = 2_000;

impl Scaler {
    pub fn new(precision: Precision) -> Scaler {
        let dynamic = precision == Precision::Fp16;
        Scaler { scale: if dynamic { START } else { 1.0 }, good: 0, dynamic }
    }

    /// Tests if a training in this precision has such a scale.
    pub fn is_of(&self, precision: Precision) -> bool {
        self.dynamic == Scaler::new(precision).dynamic
    }

    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Notes if the gradients of a step were all finite.
    pub fn update(&mut self, is_finite: bool) {
        if !self.dynamic {
            return;
        }
        if !is_finite {
            self.scale = (self.scale * BACK_OFF).max(LEAST);
            self.good = 0;
            return;
        }
        self.good += 1;
        if self.good == GROWTH_STEPS {
            self.scale *= GROWTH;
            self.good = 0;
        }
    }

    /// Tests if the scale may have caused an overflow, so that a smaller one may fix it.
    pub fn can_shrink(&self) -> bool {
        self.dynamic && self.scale > LEAST
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn gpu(name: &str, major: u32, minor: u32) -> DeviceFacts {
        DeviceFacts { name: name.into(), compute_capability: Some((major, minor)) }
    }

    #[test]
    fn a_precision_without_hardware_is_refused_with_the_reason() {
        let error = Precision::Bf16.check(&gpu("Tesla T4", 7, 5)).unwrap_err();
        let expected =
            "bf16 needs compute capability 8.0, but `Tesla T4` has 7.5: use `fp16` or `f32` on it";
        assert_eq!(error.to_string(), expected);
        assert!(Precision::Fp16.check(&gpu("Tesla T4", 7, 5)).is_ok());
        assert!(Precision::Fp16.check(&gpu("Tesla P40", 6, 1)).is_err());
        assert!(Precision::F32.check(&gpu("Tesla P40", 6, 1)).is_ok());
        assert!(Precision::Tf32.check(&gpu("Tesla T4", 7, 5)).is_err());
        assert!(Precision::Tf32.check(&gpu("A100", 8, 0)).is_ok());
        let cpu = DeviceFacts { name: "cpu".into(), compute_capability: None };
        assert!(Precision::Bf16.check(&cpu).is_ok());
        assert!(Precision::Tf32.check(&cpu).is_err());
    }

    #[test]
    fn the_best_precision_is_one_that_is_allowed() {
        for (major, minor) in [(6, 0), (7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (12, 0)] {
            let facts = gpu("gpu", major, minor);
            assert!(Precision::best(&facts).check(&facts).is_ok());
        }
        assert_eq!(Precision::best(&gpu("Tesla T4", 7, 5)), Precision::Fp16);
        assert_eq!(Precision::best(&gpu("H200", 9, 0)), Precision::Bf16);
    }

    #[test]
    fn the_scale_halves_at_an_overflow_and_doubles_after_2000_good_steps() {
        let mut scaler = Scaler::new(Precision::Fp16);
        scaler.update(false);
        assert_eq!(scaler.scale(), 32_768.0);
        (0..1_999).for_each(|_| scaler.update(true));
        assert_eq!(scaler.scale(), 32_768.0);
        scaler.update(true);
        assert_eq!(scaler.scale(), 65_536.0);
        (0..1_999).for_each(|_| scaler.update(true));
        scaler.update(false);
        (0..1_999).for_each(|_| scaler.update(true));
        assert_eq!(scaler.scale(), 32_768.0, "an overflow starts the count again");
    }

    #[test]
    fn the_scale_stays_at_one_however_many_steps_overflow() {
        let mut scaler = Scaler::new(Precision::Fp16);
        (0..100).for_each(|_| scaler.update(false));
        assert_eq!(scaler.scale(), 1.0);
        assert!(!scaler.can_shrink());
    }

    #[test]
    fn formats_with_the_range_of_f32_have_no_scale() {
        let mut scaler = Scaler::new(Precision::Bf16);
        scaler.update(false);
        assert_eq!(scaler.scale(), 1.0);
        assert!(!scaler.can_shrink());
    }
}
