//! Weights of convolutions in training: plain, or as magnitude and direction.

use stage_formats::weight_norm::{ANY, DIRECTION, LENGTH, WHOLE, length_of};
use tch::Tensor;

use crate::error::TorchError;
use crate::nn::weights::{Scope, Weights};

/// A weight, or a pair that it is computed from in each pass.
#[derive(Debug)]
pub enum Kernel {
    Whole(Tensor),
    Normed { length: Tensor, direction: Tensor },
}

impl Kernel {
    /// In either of the two forms of the tensors.
    pub fn load(scope: &mut Scope, shape: &[i64]) -> Result<Kernel, TorchError> {
        if !scope.contains(LENGTH) {
            return Ok(Kernel::Whole(scope.take(WHOLE, shape)?));
        }
        let length = scope.take(LENGTH, &length_of(shape))?;
        Ok(Kernel::Normed { length, direction: scope.take(DIRECTION, shape)? })
    }

    pub fn weight(&self) -> Tensor {
        match self {
            Kernel::Whole(weight) => weight.shallow_clone(),
            Kernel::Normed { length, direction } => joined(length, direction),
        }
    }
}

/// Removes weight norm from selected weights; tensors without a partner do not change. A zero
/// direction gives zeros.
pub fn fold(mut weights: Weights, is_folded: impl Fn(&str) -> bool) -> Weights {
    let modules = weights.names().filter_map(|name| name.strip_suffix(LENGTH));
    let modules = modules.filter(|module| weights.contains(&format!("{module}{DIRECTION}")));
    let modules: Vec<String> = modules.map(str::to_owned).collect();
    for module in modules {
        let weight = format!("{module}{WHOLE}");
        if !is_folded(&weight) {
            continue;
        }
        let length = weights.remove(&format!("{module}{LENGTH}"));
        let direction = weights.remove(&format!("{module}{DIRECTION}"));
        if let (Some(length), Some(direction)) = (length, direction) {
            let is_nought = norm(&direction).eq(0.0);
            let whole = joined(&length, &direction).masked_fill(&is_nought, 0.0);
            weights.insert(weight, whole);
        }
    }
    weights
}

/// Applies weight norm to selected weights: the direction is the weight itself.
pub fn split(mut weights: Weights, is_split: impl Fn(&str) -> bool) -> Weights {
    let names: Vec<String> =
        weights.names().filter(|name| is_split(name)).map(str::to_owned).collect();
    for name in names {
        let (Some(weight), Some(module)) = (weights.remove(&name), name.strip_suffix(WHOLE)) else {
            continue;
        };
        let length = norm(&weight);
        let direction = weight.masked_fill(&length.eq(0.0), f64::from(ANY));
        weights.insert(format!("{module}{LENGTH}"), length);
        weights.insert(format!("{module}{DIRECTION}"), direction);
    }
    weights
}

/// The norm of each filter, in the shape of `length_of`.
fn norm(weight: &Tensor) -> Tensor {
    let axes: Vec<i64> = (1..weight.dim() as i64).collect();
    weight.square().sum_dim_intlist(axes, true, weight.kind()).sqrt()
}

fn joined(length: &Tensor, direction: &Tensor) -> Tensor {
    Tensor::internal_weight_norm(direction, length, 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::{Device, Kind};

    use super::*;

    fn weights(name: &str) -> Weights {
        let weight = Tensor::randn([3, 2, 4], (Kind::Float, Device::Cpu));
        [(name.to_owned(), weight)].into_iter().collect()
    }

    #[test]
    fn a_weight_comes_back_from_its_pair() {
        let whole = weights("a.weight");
        let before = whole.get("a.weight").unwrap().copy();
        let pair = split(whole, |name| name == "a.weight");
        assert_eq!(pair.names().collect::<Vec<_>>(), ["a.weight_g", "a.weight_v"]);
        assert_eq!(pair.get("a.weight_g").unwrap().size(), [3, 1, 1]);
        let after = fold(pair, |_| true);
        let far = (after.get("a.weight").unwrap() - before).abs().max();
        assert!(far.double_value(&[]) < 1e-6);
    }

    #[test]
    fn a_filter_of_noughts_stays_one() {
        let none: Weights =
            [("a.weight".to_owned(), Tensor::zeros([3, 2, 4], (Kind::Float, Device::Cpu)))]
                .into_iter()
                .collect();
        let is_nought =
            |weights: &Weights| weights.get("a.weight").unwrap().abs().max().double_value(&[]);
        let pair = split(none, |_| true);
        let part = |name: &str| pair.get(name).unwrap().copy();
        let kernel = joined(&part("a.weight_g"), &part("a.weight_v"));
        assert_eq!(kernel.abs().max().double_value(&[]), 0.0, "in training too");
        assert_eq!(is_nought(&fold(pair, |_| true)), 0.0);

        let zeros = |shape: &[i64]| Tensor::zeros(shape, (Kind::Float, Device::Cpu));
        let (length, direction) = (zeros(&[3, 1, 1]) + 2.0, zeros(&[3, 2, 4]));
        let pair = [("a.weight_g".to_owned(), length), ("a.weight_v".to_owned(), direction)];
        assert_eq!(is_nought(&fold(pair.into_iter().collect(), |_| true)), 0.0);
    }
}
