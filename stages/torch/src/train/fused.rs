//! AdamW in one pass over memory per tensor, instead of nine for the composed update.
//!
//! The kernel rounds in another order than the composed update: results agree up to rounding, not
//! to the bit.

use tch::{Kind, Tensor};

use super::adamw::AdamWSettings;
use crate::error::TorchError;
use crate::shim::{self, FusedAdamW, FusedTensors};

/// One parameter: f32 and contiguous.
pub(super) struct Part {
    pub master: Tensor,
    pub first: Tensor,
    pub second: Tensor,
    pub gradient: Option<Tensor>,
    pub decays: bool,
}

/// An update, see [`super::adamw::AdamW::step`].
#[derive(Clone, Copy)]
pub(super) struct Update<'a> {
    pub settings: &'a AdamWSettings,
    /// The number of this update, from 1.
    pub number: u64,
    pub rate: f64,
    pub factor: f64,
}

/// The largest number of values per call, unless a single parameter has more. It bounds the f32
/// copies of gradients in half precision.
const VALUES: usize = 1 << 24;

/// Updates all parameters, which are on one device.
pub(super) fn step(parts: &[Part], update: Update<'_>) -> Result<(), TorchError> {
    for decays in [true, false] {
        let mut group: Vec<&Part> = Vec::new();
        let mut values = 0;
        for part in parts.iter().filter(|part| part.decays == decays) {
            if values + part.master.numel() > VALUES {
                step_group(&std::mem::take(&mut group), update, decays)?;
                values = 0;
            }
            values += part.master.numel();
            group.push(part);
        }
        step_group(&group, update, decays)?;
    }
    Ok(())
}

fn step_group(group: &[&Part], update: Update<'_>, decays: bool) -> Result<(), TorchError> {
    let Some(first) = group.first() else { return Ok(()) };
    let Update { settings, number, rate, factor } = update;
    let scalar = |value: f64| {
        Tensor::from(value as f32).f_to_device(first.master.device()).map_err(TorchError::from)
    };
    let gradients: Vec<Tensor> =
        group.iter().map(|part| wide(part)).collect::<Result<_, TorchError>>()?;
    let scale = (factor != 1.0).then(|| scalar(1.0 / factor)).transpose()?;
    let tensors = FusedTensors {
        parameters: group.iter().map(|part| &part.master).collect(),
        gradients: gradients.iter().collect(),
        first: group.iter().map(|part| &part.first).collect(),
        second: group.iter().map(|part| &part.second).collect(),
    };
    let numbers = FusedAdamW {
        rate,
        beta1: settings.beta1,
        beta2: settings.beta2,
        decay: if decays { settings.weight_decay } else { 0.0 },
        epsilon: settings.epsilon,
    };
    shim::fused_adamw(&tensors, &scalar(number as f64)?, numbers, scale.as_ref())
}

/// The gradient in f32; a missing one counts as zero.
fn wide(part: &Part) -> Result<Tensor, TorchError> {
    Ok(match &part.gradient {
        Some(gradient) => gradient.f_to_kind(Kind::Float)?.f_contiguous()?,
        None => part.master.f_zeros_like()?,
    })
}
