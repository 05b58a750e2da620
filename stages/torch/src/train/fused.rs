//! AdamW in one pass over memory, instead of nine for the composed update, and with one call for
//! each group of parameters: those with weight decay, and those without.
//!
//! The kernel rounds in another order than the composed update: results agree up to rounding, not
//! to the bit.

use tch::{Device, Kind, Tensor};

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

/// Updates all parameters, which are on one device.
pub(super) fn step(parts: &[Part], update: Update<'_>) -> Result<(), TorchError> {
    for decays in [true, false] {
        let group: Vec<&Part> = parts.iter().filter(|part| part.decays == decays).collect();
        step_group(&group, update, decays)?;
    }
    Ok(())
}

fn step_group(group: &[&Part], update: Update<'_>, decays: bool) -> Result<(), TorchError> {
    let Some(first) = group.first() else { return Ok(()) };
    let Update { settings, number, rate, factor } = update;
    let options = (Kind::Float, first.master.device());
    // A kernel gets the number as an argument: nothing is copied to the device.
    let scalar = |value: f64| Tensor::f_full([1; 0], value as f32 as f64, options);
    let zeros = zeros(group, options)?;
    let gradients: Vec<Tensor> =
        group.iter().map(|part| wide(part, &zeros)).collect::<Result<_, TorchError>>()?;
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

/// One piece of zeros for all missing gradients.
fn zeros(group: &[&Part], options: (Kind, Device)) -> Result<Tensor, TorchError> {
    let missing = group.iter().filter(|part| part.gradient.is_none());
    let most = missing.map(|part| part.master.numel()).max().unwrap_or(0);
    Ok(Tensor::f_zeros([most as i64], options)?)
}

/// The gradient in f32; a missing one counts as zero.
fn wide(part: &Part, zeros: &Tensor) -> Result<Tensor, TorchError> {
    Ok(match &part.gradient {
        Some(gradient) => gradient.f_to_kind(Kind::Float)?.f_contiguous()?,
        None => zeros.f_narrow(0, 0, part.master.numel() as i64)?.f_view_as(&part.master)?,
    })
}
