//! AdamW with decoupled weight decay; its state is in plain named tensors.
//!
//! The master copy of each parameter is f32. If the model computes in f32 the parameter is its own
//! master; else the parameter is the rounded copy that the model computes with. Large tensors are
//! updated in chunks, so that the temporaries stay small, and on a CPU in the cache.
//!
//! A missing gradient counts as zero: libtorch may have an undefined or a zeroed gradient,
//! depending on earlier operations, and a resumed run must not differ.

use serde::{Deserialize, Serialize};
use stage_core::StageError;
use tch::{Device, Kind, Tensor};

use super::fused::{self, FusedParameter};
use crate::error::{InTch, TorchError};
use crate::runtime::shim;

/// The number of values that are updated at a time: a GPU is not faster with fewer.
const PIECE: i64 = 1 << 22;
const PIECE_ON_CPU: i64 = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamWSettings {
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    pub weight_decay: f64,
    /// Weight decay applies to every parameter, as in the training of published models; else to
    /// those that the model names ([`AdamW::with_decay`]).
    pub decays_all: bool,
    /// Each tensor is updated in one pass over its memory, rounded in another order. GPUs always do
    /// so: hundreds of small tensors would take thousands of kernels.
    pub fused: bool,
}

impl AdamWSettings {
    fn is_fused_on(&self, device: Device) -> bool {
        self.fused || device.is_cuda()
    }
}

/// Biases and norms have no weight decay.
pub fn decays(parameter: &Tensor) -> bool {
    parameter.dim() > 1
}

/// The state of one parameter.
#[derive(Debug)]
struct ParameterState {
    name: String,
    parameter: Tensor,
    /// f32; the parameter's own memory if it is f32.
    master: Tensor,
    first: Tensor,
    second: Tensor,
    decays: bool,
}

#[derive(Debug)]
pub struct AdamW {
    settings: AdamWSettings,
    slots: Vec<ParameterState>,
    updates: u64,
}

/// The roles of state tensors.
pub const ROLES: [&str; 3] = [MASTER, "first", "second"];
pub const MASTER: &str = "master";

impl AdamW {
    /// For parameters in the order of [`super::Trainee::parameters`].
    pub fn new(settings: AdamWSettings, parameters: Vec<(String, Tensor)>) -> AdamW {
        let slot = |(name, parameter): (String, Tensor)| {
            // The same memory if the type is f32 already.
            let master = parameter.detach().to_kind(Kind::Float);
            ParameterState {
                first: master.zeros_like(),
                second: master.zeros_like(),
                decays: settings.decays_all || decays(&parameter),
                name,
                parameter,
                master,
            }
        };
        let slots = parameters.into_iter().map(slot).collect();
        AdamW { settings, slots, updates: 0 }
    }

    /// Weight decay applies to the parameters that a model names, and to all with `decays_all`.
    pub fn with_decay(mut self, decays: impl Fn(&str, &Tensor) -> bool) -> AdamW {
        for slot in &mut self.slots {
            slot.decays = self.settings.decays_all || decays(&slot.name, &slot.parameter);
        }
        self
    }

    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// One update with a learning rate. Each gradient, in parameter order, is multiplied by
    /// `factor` first, which undoes the loss scale and clips.
    pub fn step(
        &mut self,
        gradients: &[Option<Tensor>],
        rate: f64,
        factor: f64,
    ) -> Result<(), TorchError> {
        self.step_where(gradients, rate, factor, |_| true)
    }

    /// The same for selected parameters; the others do not change, their moments included.
    pub fn step_where(
        &mut self,
        gradients: &[Option<Tensor>],
        rate: f64,
        factor: f64,
        chosen: impl Fn(&str) -> bool,
    ) -> Result<(), TorchError> {
        if gradients.len() != self.slots.len() {
            let (given, expected) = (gradients.len(), self.slots.len());
            return Err(TorchError::Input(format!("{given} gradients for {expected} parameters")));
        }
        let _guard = tch::no_grad_guard();
        self.updates += 1;
        let device = self.slots.first().map_or(Device::Cpu, |slot| slot.master.device());
        if self.settings.is_fused_on(device) {
            self.step_fused(gradients, rate, factor, chosen);
            return Ok(());
        }
        let update = UpdateFactors::new(&self.settings, self.updates, rate, factor);
        let slots = self.slots.iter_mut().zip(gradients);
        for (slot, gradient) in slots.filter(|(slot, _)| chosen(&slot.name)) {
            slot.step(&update, gradient.as_ref());
        }
        Ok(())
    }

    fn step_fused(
        &mut self,
        gradients: &[Option<Tensor>],
        rate: f64,
        factor: f64,
        chosen: impl Fn(&str) -> bool,
    ) {
        let part = |(slot, gradient): (&ParameterState, &Option<Tensor>)| FusedParameter {
            master: slot.master.shallow_clone(),
            first: slot.first.shallow_clone(),
            second: slot.second.shallow_clone(),
            gradient: gradient.as_ref().map(Tensor::shallow_clone),
            decays: slot.decays,
        };
        let parts: Vec<FusedParameter> = self
            .slots
            .iter()
            .zip(gradients)
            .filter(|(slot, _)| chosen(&slot.name))
            .map(part)
            .collect();
        let (settings, number) = (&self.settings, self.updates);
        fused::step(&parts, fused::FusedUpdate { settings, number, rate, factor });
        let rounded = self.slots.iter().filter(|slot| slot.parameter.kind() != Kind::Float);
        let (to, from): (Vec<&Tensor>, Vec<&Tensor>) =
            rounded.map(|slot| (&slot.parameter, &slot.master)).unzip();
        shim::copy_all(&to, &from).in_tch();
    }

    /// The tensors of a checkpoint: role, name of the parameter, tensor.
    pub fn state(&self) -> impl Iterator<Item = (&'static str, &str, &Tensor)> {
        self.slots.iter().flat_map(|slot| {
            let tensors = [&slot.master, &slot.first, &slot.second];
            ROLES.into_iter().zip(tensors).map(|(role, tensor)| (role, slot.name.as_str(), tensor))
        })
    }

    /// The f32 copies of the parameters.
    pub fn masters(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.slots.iter().map(|slot| (slot.name.as_str(), &slot.master))
    }

    /// Replaces masters made from rounded parameters by exact values; `exact` returns that of a
    /// parameter if it is known.
    pub fn refine(
        &mut self,
        mut exact: impl FnMut(&str) -> Result<Option<Tensor>, StageError>,
    ) -> Result<(), StageError> {
        let _guard = tch::no_grad_guard();
        let rounded = self.slots.iter_mut().filter(|slot| slot.parameter.kind() != Kind::Float);
        for slot in rounded {
            if let Some(tensor) = exact(&slot.name)? {
                let tensor = tensor.to_kind(Kind::Float);
                slot.take("master", &tensor, "where it comes from")?;
                slot.publish();
            }
        }
        Ok(())
    }

    /// Restarts from other weights, as if no update had been made.
    pub fn restart(
        &mut self,
        mut weights: impl FnMut(&str) -> Result<Tensor, StageError>,
    ) -> Result<(), StageError> {
        let _guard = tch::no_grad_guard();
        for slot in &mut self.slots {
            let tensor = weights(&slot.name)?.to_kind(Kind::Float);
            slot.take("master", &tensor, "where it comes from")?;
            slot.forget();
            slot.publish();
        }
        self.updates = 0;
        Ok(())
    }

    /// Restores a state: `recall` returns the tensor of a role and a parameter.
    pub fn restore(
        &mut self,
        updates: u64,
        mut recall: impl FnMut(&'static str, &str) -> Result<Tensor, StageError>,
    ) -> Result<(), StageError> {
        let _guard = tch::no_grad_guard();
        for slot in &mut self.slots {
            for role in ROLES {
                let tensor = recall(role, &slot.name)?;
                slot.take(role, &tensor, "in the checkpoint")?;
            }
            slot.publish();
        }
        self.updates = updates;
        Ok(())
    }
}

/// The settings of one update, equal for all parameters.
struct UpdateFactors {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    shrink: f64,
    step_size: f64,
    root_correction: f64,
    factor: f64,
}

impl UpdateFactors {
    fn new(settings: &AdamWSettings, updates: u64, rate: f64, factor: f64) -> UpdateFactors {
        let AdamWSettings { beta1, beta2, epsilon, weight_decay, .. } = *settings;
        UpdateFactors {
            beta1,
            beta2,
            epsilon,
            shrink: 1.0 - rate * weight_decay,
            step_size: rate / (1.0 - beta1.powf(updates as f64)),
            root_correction: (1.0 - beta2.powf(updates as f64)).sqrt(),
            factor,
        }
    }
}

impl ParameterState {
    fn step(&mut self, update: &UpdateFactors, gradient: Option<&Tensor>) {
        let flat = |tensor: &Tensor| tensor.view(-1);
        let (master, first, second) = (flat(&self.master), flat(&self.first), flat(&self.second));
        let gradient = gradient.map(|gradient| gradient.reshape(-1));
        let count = master.size()[0];
        let most = if master.device() == Device::Cpu { PIECE_ON_CPU } else { PIECE };
        for start in (0..count).step_by(most as usize) {
            let length = most.min(count - start);
            let piece = |tensor: &Tensor| tensor.narrow(0, start, length);
            let gradient = gradient.as_ref().map(piece);
            if self.decays && update.shrink != 1.0 {
                let _ = piece(&master).g_mul_scalar_(update.shrink);
            }
            update.apply(piece(&master), piece(&first), piece(&second), gradient);
        }
        self.publish();
    }

    /// Rounds the master to the type of the model.
    fn publish(&mut self) {
        if self.parameter.kind() != Kind::Float {
            self.parameter.copy_(&self.master);
        }
    }

    /// Resets the moments.
    fn forget(&mut self) {
        for moment in [&mut self.first, &mut self.second] {
            let _ = moment.zero_();
        }
    }

    fn take(&mut self, role: &str, tensor: &Tensor, place: &str) -> Result<(), TorchError> {
        let own = match role {
            "master" => &mut self.master,
            "first" => &mut self.first,
            _ => &mut self.second,
        };
        if tensor.size() != own.size() || tensor.kind() != Kind::Float {
            return Err(TorchError::Model(format!(
                "the {role} tensor of `{}` is {:?} {:?} {place}, expected Float {:?}",
                self.name,
                tensor.kind(),
                tensor.size(),
                own.size()
            )));
        }
        own.copy_(tensor);
        Ok(())
    }
}

impl UpdateFactors {
    /// The formula, on views that share memory with the state.
    fn apply(
        &self,
        mut master: Tensor,
        mut first: Tensor,
        mut second: Tensor,
        gradient: Option<Tensor>,
    ) {
        match gradient {
            Some(gradient) => {
                let gradient = gradient.to_kind(Kind::Float).g_mul_scalar(self.factor);
                let _ = first.lerp_(&gradient, 1.0 - self.beta1);
                let square = gradient.square().g_mul_scalar_(1.0 - self.beta2);
                let _ = second.g_mul_scalar_(self.beta2).g_add_(&square);
            }
            None => {
                let _ = first.g_mul_scalar_(self.beta1);
                let _ = second.g_mul_scalar_(self.beta2);
            }
        }
        let mut divisor = second.sqrt().g_div_scalar_(self.root_correction);
        let divisor = divisor.g_add_scalar_(self.epsilon);
        let change = first.g_div(&divisor).g_mul_scalar_(self.step_size);
        let _ = master.g_sub_(&change);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SETTINGS: AdamWSettings = AdamWSettings {
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-5,
        weight_decay: 0.1,
        decays_all: false,
        fused: false,
    };

    fn tensor(values: &[f32], kind: Kind) -> Tensor {
        Tensor::from_slice(values).to_kind(kind).set_requires_grad(true)
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.detach().to_kind(Kind::Double).view(-1)).unwrap()
    }

    /// The published algorithm on one number, in double precision.
    fn reference(start: f64, gradients: &[f64], rate: f64, decay: f64) -> f64 {
        let (mut value, mut first, mut second) = (start, 0.0, 0.0);
        for (step, gradient) in (1..).zip(gradients) {
            value -= rate * decay * value;
            first = 0.9 * first + 0.1 * gradient;
            second = 0.95 * second + 0.05 * gradient * gradient;
            let corrected = second / (1.0 - 0.95f64.powi(step));
            value -= rate * first / (1.0 - 0.9f64.powi(step)) / (corrected.sqrt() + 1e-5);
        }
        value
    }

    #[test]
    fn updates_follow_the_published_formula() {
        let weight = tensor(&[0.5, -1.5], Kind::Float).detach().view([1, 2]);
        let bias = tensor(&[0.25], Kind::Float);
        let parameters = vec![
            ("a.weight".to_owned(), weight.shallow_clone()),
            ("b.bias".to_owned(), bias.shallow_clone()),
        ];
        let mut adamw = AdamW::new(SETTINGS, parameters);
        let gradients: Vec<f64> = (0..20).map(|step| (f64::from(step) * 0.7).sin()).collect();
        for gradient in &gradients {
            let gradient = *gradient as f32;
            let weights = Tensor::from_slice(&[gradient, -2.0 * gradient]).view([1, 2]);
            let given = [Some(weights * 4.0), Some(Tensor::from_slice(&[gradient]) * 4.0)];
            adamw.step(&given, 0.01, 0.25).unwrap();
        }
        let doubled: Vec<f64> = gradients.iter().map(|gradient| -2.0 * gradient).collect();
        let expected = [
            reference(0.5, &gradients, 0.01, 0.1),
            reference(-1.5, &doubled, 0.01, 0.1),
            reference(0.25, &gradients, 0.01, 0.0),
        ];
        let got = [values(&weight), values(&bias)].concat();
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
    }

    #[test]
    fn the_fused_update_is_the_composed_one_to_rounding() {
        for kind in [Kind::Float, Kind::BFloat16] {
            let run = |fused: bool| {
                let start = [("a.weight", vec![0.5f32, -1.5]), ("b.bias", vec![0.25, 3.0])];
                let parameters = start.map(|(name, values)| {
                    let tensor = tensor(&values, kind).detach();
                    let shape: &[i64] = if name == "a.weight" { &[1, 2] } else { &[2] };
                    (name.to_owned(), tensor.view(shape))
                });
                let settings = AdamWSettings { fused, ..SETTINGS };
                let mut adamw = AdamW::new(settings, parameters.into());
                for step in 0..5 {
                    let gradient = Tensor::from_slice(&[(step as f32).cos(), -0.7]).to_kind(kind);
                    // A missing gradient counts as zero here, too.
                    let other = (step != 3).then(|| gradient.copy());
                    adamw.step(&[Some(gradient.view([1, 2])), other], 0.1, 0.25).unwrap();
                }
                let masters = adamw.masters().map(|(_, tensor)| values(tensor));
                masters.chain(adamw.slots.iter().map(|slot| values(&slot.parameter))).collect()
            };
            let (composed, fused): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (run(false), run(true));
            for (one, other) in composed.concat().iter().zip(fused.concat()) {
                assert!((one - other).abs() < 1e-6 * one.abs().max(1.0), "{composed:?} {fused:?}");
            }
        }
    }

    #[test]
    fn a_group_is_updated_in_one_call_whatever_the_number_of_tensors() {
        let options = (Kind::BFloat16, Device::Cpu);
        let parameter = |at: i64| {
            let shape: &[i64] = if at % 3 == 0 { &[4] } else { &[2, 3] };
            (format!("{at}"), Tensor::ones(shape, options))
        };
        let parameters: Vec<(String, Tensor)> = (0..60).map(parameter).collect();
        // Two of three shapes decay; some gradients are missing.
        let gradients: Vec<Option<Tensor>> = (0..60)
            .map(|at| (at % 7 != 0).then(|| parameters[at].1.to_kind(Kind::Float)))
            .collect();
        let mut adamw = AdamW::new(AdamWSettings { fused: true, ..SETTINGS }, parameters);
        let mut count = |name| {
            let step = || adamw.step(&gradients, 0.1, 0.5);
            let (result, count) = shim::operations(&[name], step).unwrap();
            result.unwrap();
            count
        };
        assert_eq!(count(c"aten::_fused_adamw_"), 2);
        assert_eq!(count(c"aten::_foreach_copy_"), 1, "rounded for the model together");
    }

    #[test]
    fn gpus_update_in_one_pass_and_a_cpu_where_it_was_chosen() {
        let fused = AdamWSettings { fused: true, ..SETTINGS };
        assert!(SETTINGS.is_fused_on(Device::Cuda(1)) && fused.is_fused_on(Device::Cpu));
        assert!(!SETTINGS.is_fused_on(Device::Cpu));
    }

    #[test]
    fn steps_too_small_for_bf16_add_up_in_the_master() {
        let weight = tensor(&[1.0], Kind::BFloat16);
        let parameters = vec![("weight".to_owned(), weight.shallow_clone())];
        let settings = AdamWSettings { weight_decay: 0.0, ..SETTINGS };
        let mut adamw = AdamW::new(settings, parameters);
        let gradient = Tensor::from_slice(&[1f32]).to_kind(Kind::BFloat16);
        adamw.step(&[Some(gradient.shallow_clone())], 1e-3, 1.0).unwrap();
        assert_eq!(values(&weight), [1.0], "one step is lost in rounding");
        for _ in 0..9 {
            adamw.step(&[Some(gradient.shallow_clone())], 1e-3, 1.0).unwrap();
        }
        let master = values(adamw.masters().next().unwrap().1)[0];
        assert!((master - 0.99).abs() < 1e-5, "{master}");
        assert!((values(&weight)[0] - 0.99).abs() < 4e-3);
    }

    #[test]
    fn a_missing_gradient_and_a_zero_one_are_the_same() {
        let run = |gradient: Option<Tensor>| {
            let weight = tensor(&[1.0], Kind::Float);
            let parameters = vec![("weight".to_owned(), weight.shallow_clone())];
            let mut adamw = AdamW::new(SETTINGS, parameters);
            adamw.step(&[Some(Tensor::from_slice(&[0.3f32]))], 0.1, 1.0).unwrap();
            adamw.step(&[gradient], 0.1, 1.0).unwrap();
            values(&weight)
        };
        assert_eq!(run(None), run(Some(Tensor::zeros([1], (Kind::Float, Device::Cpu)))));
    }

    #[test]
    fn a_large_tensor_is_updated_to_its_end() {
        let count = PIECE_ON_CPU + 3;
        let weight = Tensor::ones([count], (Kind::Float, Device::Cpu));
        let parameters = vec![("weight".to_owned(), weight.shallow_clone())];
        let mut adamw = AdamW::new(SETTINGS, parameters);
        adamw.step(&[Some(weight.ones_like())], 0.5, 1.0).unwrap();
        let (first, last) = (weight.double_value(&[0]), weight.double_value(&[count - 1]));
        assert_eq!(first, last);
        assert!((weight.mean(Kind::Double).double_value(&[]) - first).abs() < 1e-9);
    }

    #[test]
    fn a_restored_state_goes_on_as_if_nothing_had_been() {
        let gradient = |step: i32| Some(Tensor::from_slice(&[(step as f32).cos(), 0.5]));
        let start = || vec![("weight".to_owned(), tensor(&[1.0, 2.0], Kind::Half))];
        let mut straight = AdamW::new(SETTINGS, start());
        for step in 0..3 {
            straight.step(&[gradient(step)], 0.1, 1.0).unwrap();
        }
        let kept: Vec<(&str, Tensor)> =
            straight.state().map(|(role, _, tensor)| (role, tensor.copy())).collect();
        let mut resumed = AdamW::new(SETTINGS, start());
        let recall = |role: &str, _: &str| -> Result<Tensor, StageError> {
            Ok(kept.iter().find(|(own, _)| *own == role).unwrap().1.shallow_clone())
        };
        resumed.restore(straight.updates(), recall).unwrap();
        for step in 3..6 {
            straight.step(&[gradient(step)], 0.1, 1.0).unwrap();
            resumed.step(&[gradient(step)], 0.1, 1.0).unwrap();
        }
        let state = |adamw: &AdamW| adamw.state().map(|(_, _, t)| values(t)).collect::<Vec<_>>();
        assert_eq!(state(&straight), state(&resumed));
        assert_eq!(values(&straight.slots[0].parameter), values(&resumed.slots[0].parameter));
    }

    #[test]
    fn one_that_begins_anew_is_like_a_new_one_on_the_same_weights() {
        let gradient = [Some(Tensor::from_slice(&[0.3f32, -0.5]))];
        let on = |values: &[f32]| vec![("weight".to_owned(), tensor(values, Kind::Half))];
        let mut again = AdamW::new(SETTINGS, on(&[1.0, 2.0]));
        (0..3).for_each(|_| again.step(&gradient, 0.1, 1.0).unwrap());
        // Kept weights may be rounded.
        again.restart(|_| Ok(tensor(&[3.0, 4.0], Kind::BFloat16))).unwrap();
        let mut new = AdamW::new(SETTINGS, on(&[3.0, 4.0]));
        for adamw in [&mut again, &mut new] {
            adamw.step(&gradient, 0.1, 1.0).unwrap();
        }
        let state = |adamw: &AdamW| adamw.state().map(|(_, _, t)| values(t)).collect::<Vec<_>>();
        assert_eq!((state(&again), again.updates()), (state(&new), 1));
        assert_eq!(values(&again.slots[0].parameter), values(&new.slots[0].parameter));
    }

    #[test]
    fn a_state_of_another_shape_is_refused() {
        let parameters = vec![("weight".to_owned(), tensor(&[1.0, 2.0], Kind::Float))];
        let mut adamw = AdamW::new(SETTINGS, parameters);
        let error = adamw.restore(1, |_, _| Ok(Tensor::from_slice(&[1f32]))).unwrap_err();
        let expected = "the model cannot be used: the master tensor of `weight` is Float [1] in \
                        the checkpoint, expected Float [2]";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn only_what_the_model_names_decays_unless_all_does() {
        let run = |settings: AdamWSettings, named: Option<&'static str>| -> Vec<bool> {
            let shapes: [(&str, &[i64]); 3] = [("a", &[2, 2]), ("b", &[2, 2]), ("c", &[2])];
            let parameters = shapes.map(|(name, shape)| {
                (name.to_owned(), Tensor::ones(shape, (Kind::Float, Device::Cpu)))
            });
            let kept: Vec<Tensor> = parameters.iter().map(|(_, one)| one.shallow_clone()).collect();
            let mut adamw = AdamW::new(settings, parameters.into());
            if let Some(named) = named {
                adamw = adamw.with_decay(|name, _| name == named);
            }
            adamw.step(&[None, None, None], 0.1, 1.0).unwrap();
            kept.iter().map(|one| one.max().double_value(&[]) < 1.0).collect()
        };
        assert_eq!(run(SETTINGS, None), [true, true, false]);
        assert_eq!(run(SETTINGS, Some("b")), [false, true, false]);
        let all = AdamWSettings { decays_all: true, ..SETTINGS };
        assert_eq!(run(all, Some("b")), [true, true, true]);
    }
}
