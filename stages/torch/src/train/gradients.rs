//! The gradients of one optimiser step: gathered from the replicas, measured, clipped.

use tch::{Kind, Tensor};

use crate::error::TorchError;

/// The most values that travel between devices at once.
const BUCKET: usize = 1 << 24;

/// The gradients of some parameters, in their order; none where nothing was derived.
pub fn of(parameters: &[(String, Tensor)]) -> Vec<Option<Tensor>> {
    let gradient = |(_, parameter): &(String, Tensor)| {
        let gradient = parameter.grad();
        gradient.defined().then_some(gradient)
    };
    parameters.iter().map(gradient).collect()
}

/// Forgets the gradients, so that the next step starts from nothing.
pub fn clear(parameters: &[(String, Tensor)]) {
    for (_, parameter) in parameters {
        parameter.shallow_clone().zero_grad();
    }
}

/// Adds the gradients of another replica, which may lie on another device. Small ones travel
/// together: a copy between devices costs the same for one value as for a thousand.
pub fn add(
    sums: &mut [Option<Tensor>],
    parameters: &[(String, Tensor)],
    others: &[Option<Tensor>],
) -> Result<(), TorchError> {
    let _guard = tch::no_grad_guard();
    let mut bucket: Vec<usize> = Vec::new();
    let mut size = 0;
    for (at, other) in others.iter().enumerate() {
        let Some(other) = other else { continue };
        if size + other.numel() > BUCKET
            || bucket.first().is_some_and(|first| kind(others, *first) != Some(other.kind()))
        {
            move_bucket(sums, parameters, others, &std::mem::take(&mut bucket))?;
            size = 0;
        }
        bucket.push(at);
        size += other.numel();
    }
    move_bucket(sums, parameters, others, &bucket)
}

fn kind(gradients: &[Option<Tensor>], at: usize) -> Option<Kind> {
    gradients[at].as_ref().map(Tensor::kind)
}

fn move_bucket(
    sums: &mut [Option<Tensor>],
    parameters: &[(String, Tensor)],
    others: &[Option<Tensor>],
    bucket: &[usize],
) -> Result<(), TorchError> {
    let Some(first) = bucket.first() else { return Ok(()) };
    let device = parameters[*first].1.device();
    let flat: Vec<Tensor> = bucket
        .iter()
        .filter_map(|at| others[*at].as_ref())
        .map(|gradient| gradient.f_reshape(-1))
        .collect::<Result<_, _>>()?;
    let flat = Tensor::f_cat(&flat, 0)?.f_to_device(device)?;
    let mut start = 0;
    for at in bucket {
        let size = parameters[*at].1.size();
        let length = size.iter().product::<i64>();
        let part = flat.f_narrow(0, start, length)?.f_view(size.as_slice())?;
        start += length;
        sums[*at] = match sums[*at].take() {
            Some(mut sum) => Some(sum.f_add_(&part)?),
            None => Some(part),
        };
    }
    Ok(())
}

/// The L2 norm of all gradients together, not finite when any of them is not. Reads one
/// number from the device.
pub fn norm(gradients: &[Option<Tensor>]) -> Result<f64, TorchError> {
    let _guard = tch::no_grad_guard();
    let norm = |gradient: &Tensor| gradient.f_norm_scalaropt_dtype(2, Kind::Float);
    let norms: Vec<Tensor> = gradients.iter().flatten().map(norm).collect::<Result<_, _>>()?;
    if norms.is_empty() {
        return Ok(0.0);
    }
    Ok(norm(&Tensor::f_stack(&norms, 0)?)?.f_double_value(&[])?)
}

/// What gradients of a norm are multiplied by so that it is at most `limit`.
pub fn clip_factor(norm: f64, limit: Option<f64>) -> f64 {
    match limit {
        Some(limit) => (limit / (norm + 1e-6)).min(1.0),
        None => 1.0,
    }
}
