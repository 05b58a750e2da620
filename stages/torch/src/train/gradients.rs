//! The gradients of one optimiser step: summed over the replicas, measured, clipped.

use tch::{Kind, Tensor};

use crate::error::InTch;
use crate::runtime::shim;

/// The largest number of values in one transfer between devices.
const BUCKET: usize = 1 << 24;

/// The gradients of some parameters, in order; None if there is none.
pub fn of(parameters: &[(String, Tensor)]) -> Vec<Option<Tensor>> {
    let gradient = |(_, parameter): &(String, Tensor)| {
        let gradient = parameter.grad();
        gradient.defined().then_some(gradient)
    };
    parameters.iter().map(gradient).collect()
}

/// Sums the gradients of parameters up in f32 from here on: in half precision a sum over many
/// micro-batches, or pieces of one, has hardly any accurate digits.
pub fn sum_in_f32(parameters: &[(String, Tensor)]) {
    let is_half = |tensor: &Tensor| matches!(tensor.kind(), Kind::Half | Kind::BFloat16);
    let half = parameters.iter().filter(|(_, parameter)| is_half(parameter));
    half.for_each(|(_, parameter)| shim::sum_in_f32(parameter).in_tch());
}

/// Frees the gradients, so that the next step starts from none. Zeros would keep the memory
/// occupied during its forward pass, and each sum would read and write them once more.
pub fn clear(parameters: &[(String, Tensor)]) {
    parameters.iter().for_each(|(_, parameter)| shim::drop_gradient(parameter));
}

/// Adds the gradients of another replica, which may be on another device. Small ones are
/// transferred together: a copy between devices costs the same for one value as for a thousand.
pub fn add(
    sums: &mut [Option<Tensor>],
    parameters: &[(String, Tensor)],
    others: &[Option<Tensor>],
) {
    add_by(BUCKET, sums, parameters, others);
}

fn add_by(
    most: usize,
    sums: &mut [Option<Tensor>],
    parameters: &[(String, Tensor)],
    others: &[Option<Tensor>],
) {
    let _guard = tch::no_grad_guard();
    let mut bucket: Vec<usize> = Vec::new();
    let mut size = 0;
    for (at, other) in others.iter().enumerate() {
        let Some(other) = other else { continue };
        if size + other.numel() > most
            || bucket.first().is_some_and(|first| kind(others, *first) != Some(other.kind()))
        {
            move_bucket(sums, parameters, others, &std::mem::take(&mut bucket));
            size = 0;
        }
        bucket.push(at);
        size += other.numel();
    }
    move_bucket(sums, parameters, others, &bucket);
}

fn kind(gradients: &[Option<Tensor>], at: usize) -> Option<Kind> {
    gradients[at].as_ref().map(Tensor::kind)
}

fn move_bucket(
    sums: &mut [Option<Tensor>],
    parameters: &[(String, Tensor)],
    others: &[Option<Tensor>],
    bucket: &[usize],
) {
    let Some(first) = bucket.first() else { return };
    let device = parameters[*first].1.device();
    let flat: Vec<Tensor> = bucket
        .iter()
        .filter_map(|at| others[*at].as_ref())
        .map(|gradient| gradient.reshape(-1))
        .collect();
    let flat = Tensor::cat(&flat, 0).to_device(device);
    let mut start = 0;
    for at in bucket {
        let size = parameters[*at].1.size();
        let length = size.iter().product::<i64>();
        let part = flat.narrow(0, start, length).view(size.as_slice());
        start += length;
        sums[*at] = match sums[*at].take() {
            Some(mut sum) => Some(sum.g_add_(&part)),
            None => Some(part),
        };
    }
}

/// The L2 norm of all gradients together; not finite if any of them is not. Reads one number from
/// the device.
pub fn norm(gradients: &[Option<Tensor>]) -> f64 {
    let _guard = tch::no_grad_guard();
    let gradients: Vec<&Tensor> = gradients.iter().flatten().collect();
    let Some(first) = gradients.first() else { return 0.0 };
    let norms = if first.device().is_cuda() {
        shim::norms(&gradients).in_tch()
    } else {
        norms_in_turn(&gradients)
    };
    norms.norm_scalaropt_dtype(2, Kind::Float).double_value(&[])
}

fn norms_in_turn(gradients: &[&Tensor]) -> Tensor {
    let norm = |gradient: &&Tensor| gradient.norm_scalaropt_dtype(2, Kind::Float);
    let norms: Vec<Tensor> = gradients.iter().map(norm).collect();
    Tensor::stack(&norms, 0)
}

/// The factor for gradients of this norm, so that it is at most `limit`.
pub fn clip_factor(norm: f64, limit: Option<f64>) -> f64 {
    match limit {
        Some(limit) => (limit / (norm + 1e-6)).min(1.0),
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Device;

    use super::*;

    fn tensor(values: &[f32], kind: Kind) -> Tensor {
        Tensor::from_slice(values).to_kind(kind)
    }

    #[test]
    fn the_norm_is_over_all_gradients_and_does_not_overflow_in_fp16() {
        let gradients =
            [Some(tensor(&[3.0, 0.0], Kind::Float)), None, Some(tensor(&[4.0], Kind::Half))];
        assert!((norm(&gradients) - 5.0).abs() < 1e-6);
        let large = [Some(tensor(&[60_000.0; 4], Kind::Half))];
        assert!((norm(&large) / 120_000.0 - 1.0).abs() < 1e-3);
        assert_eq!(norm(&[None]), 0.0);
        assert!(norm(&[Some(tensor(&[f32::NAN], Kind::Float))]).is_nan());
        assert!(norm(&[Some(tensor(&[1.0, f32::INFINITY], Kind::Float))]).is_infinite());
    }

    #[test]
    fn norms_in_one_call_are_those_in_turn() {
        let tensors = [tensor(&[3.0, -4.0], Kind::Float), tensor(&[60_000.0; 7], Kind::Half)];
        let all: Vec<&Tensor> = tensors.iter().collect();
        let (together, in_turn) = (shim::norms(&all).unwrap(), norms_in_turn(&all));
        assert_eq!(together.kind(), Kind::Float);
        let far = (&together / &in_turn - 1.0).abs().max().double_value(&[]);
        assert!(far < 1e-6, "{together} {in_turn}");
        assert!(
            shim::norms(&[&tensor(&[f32::NAN], Kind::Float)]).unwrap().double_value(&[0]).is_nan()
        );
    }

    #[test]
    fn gradients_of_half_precision_parameters_add_up_in_f32() {
        let sum_of_micro_batches = |is_wide: bool| {
            let parameter = tensor(&[1.0], Kind::BFloat16).set_requires_grad(true);
            let parameters = [("p".to_owned(), parameter.shallow_clone())];
            if is_wide {
                sum_in_f32(&parameters);
            }
            // Each with a gradient of 1: in bf16 the sum stays at 256.
            (0..300).for_each(|_| parameter.to_kind(Kind::Float).sum(Kind::Float).backward());
            norm(&of(&parameters))
        };
        assert_eq!(sum_of_micro_batches(true), 300.0);
        assert_eq!(sum_of_micro_batches(false), 256.0);
    }

    /// Zeros would be read and written again for each sum, and occupy memory during each forward
    /// pass.
    #[test]
    fn a_cleared_gradient_takes_no_memory_and_the_next_one_is_not_a_sum() {
        let parameter = tensor(&[1.0], Kind::Float).set_requires_grad(true);
        let parameters = [("p".to_owned(), parameter.shallow_clone())];
        for _ in 0..2 {
            (&parameter * 3.0).sum(Kind::Float).backward();
            assert_eq!(norm(&of(&parameters)), 3.0);
            clear(&parameters);
            assert!(of(&parameters)[0].is_none());
        }
    }

    #[test]
    fn only_a_norm_above_the_limit_is_clipped() {
        assert_eq!(clip_factor(0.5, Some(1.0)), 1.0);
        assert!((clip_factor(4.0, Some(1.0)) - 0.25).abs() < 1e-6);
        assert_eq!(clip_factor(4.0, None), 1.0);
        assert_eq!(clip_factor(0.0, Some(1.0)), 1.0);
    }

    #[test]
    fn gradients_of_replicas_add_up_whatever_the_size_of_a_bucket() {
        let shapes: [&[i64]; 5] = [&[2, 3], &[4], &[], &[5, 1], &[1]];
        let kinds = [Kind::Float, Kind::Float, Kind::Half, Kind::Half, Kind::Float];
        let ones = |at: usize| Tensor::ones(shapes[at], (kinds[at], Device::Cpu));
        let parameters: Vec<(String, Tensor)> =
            (0..5).map(|at| (format!("p{at}"), ones(at))).collect();
        for most in [1, 4, 7, 1_000] {
            // The first replica lacks one gradient, the second another.
            let mut sums: Vec<Option<Tensor>> =
                (0..5).map(|at| (at != 1).then(|| ones(at) * 2.0)).collect();
            let others: Vec<Option<Tensor>> =
                (0..5).map(|at| (at != 3).then(|| ones(at) * (at as f64 + 1.0))).collect();
            add_by(most, &mut sums, &parameters, &others);
            let means: Vec<f64> = sums
                .iter()
                .zip(shapes)
                .map(|(sum, shape)| {
                    let sum = sum.as_ref().unwrap();
                    assert_eq!(sum.size(), shape);
                    sum.to_kind(Kind::Float).mean(Kind::Float).double_value(&[])
                })
                .collect();
            assert_eq!(means, [3.0, 2.0, 5.0, 2.0, 7.0]);
        }
    }
}
