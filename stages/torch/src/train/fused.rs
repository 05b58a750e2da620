//! AdamW in one pass over memory, instead of nine for the composed update, and with one call for
//! each group of parameters: those with weight decay, and those without.
//!
//! The kernel rounds in another order than the composed update: results agree up to rounding, not
//! to the bit.

use tch::{Device, Kind, Tensor};

use super::adamw::AdamWSettings;
use crate::error::InTch;
use crate::runtime::shim::{self, FusedAdamW, FusedTensors};

/// One parameter: f32 and contiguous.
pub(super) struct FusedParameter {
    pub master: Tensor,
    pub first: Tensor,
    pub second: Tensor,
    pub gradient: Option<Tensor>,
    pub decays: bool,
}

/// An update, see [`super::adamw::AdamW::step`].
#[derive(Clone, Copy)]
pub(super) struct FusedUpdate<'a> {
    pub settings: &'a AdamWSettings,
    /// The number of this update, from 1.
    pub number: u64,
    pub rate: f64,
    pub factor: f64,
}

/// Updates all parameters, which are on one device.
pub(super) fn step(parts: &[FusedParameter], update: FusedUpdate<'_>) {
    for decays in [true, false] {
        let group: Vec<&FusedParameter> =
            parts.iter().filter(|part| part.decays == decays).collect();
        step_group(&group, update, decays);
    }
}

fn step_group(group: &[&FusedParameter], update: FusedUpdate<'_>, decays: bool) {
    let Some(first) = group.first() else { return };
    let FusedUpdate { settings, number, rate, factor } = update;
    let options = (Kind::Float, first.master.device());
    // A kernel gets the number as an argument: nothing is copied to the device.
    let scalar = |value: f64| Tensor::full([1; 0], value as f32 as f64, options);
    let zeros = zeros(group, options);
    let gradients: Vec<Tensor> = group.iter().map(|part| wide(part, &zeros)).collect();
    let scale = (factor != 1.0).then(|| scalar(1.0 / factor));
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
    shim::fused_adamw(&tensors, &scalar(number as f64), numbers, scale.as_ref()).in_tch();
}

/// One piece of zeros for all missing gradients.
fn zeros(group: &[&FusedParameter], options: (Kind, Device)) -> Tensor {
    let missing = group.iter().filter(|part| part.gradient.is_none());
    let most = missing.map(|part| part.master.numel()).max().unwrap_or(0);
    Tensor::zeros([most as i64], options)
}

/// The gradient in f32; a missing one counts as zero.
fn wide(part: &FusedParameter, zeros: &Tensor) -> Tensor {
    match &part.gradient {
        Some(gradient) => gradient.to_kind(Kind::Float).contiguous(),
        None => zeros.narrow(0, 0, part.master.numel() as i64).view_as(&part.master),
    }
}
