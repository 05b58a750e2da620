//! Weights of convolutions as they are trained: whole, or as length and direction.

use stage_formats::shapes::Expected;
use stage_formats::weight_norm::{DIRECTION, LENGTH, WHOLE};
use tch::Tensor;

use crate::error::TorchError;
use crate::weights::{Scope, Weights};

/// A weight, or the pair that it is made of anew in each pass.
#[derive(Debug)]
pub enum Kernel {
    Whole(Tensor),
    Normed { length: Tensor, direction: Tensor },
}

impl Kernel {
    /// In whichever of the two forms the tensors are.
    pub fn load(scope: &mut Scope, shape: &[i64]) -> Result<Kernel, TorchError> {
        if !scope.contains(LENGTH) {
            return Ok(Kernel::Whole(scope.take(WHOLE, shape)?));
        }
        let length = scope.take(LENGTH, &length_of(shape))?;
        Ok(Kernel::Normed { length, direction: scope.take(DIRECTION, shape)? })
    }

    pub fn weight(&self) -> Result<Tensor, TorchError> {
        match self {
            Kernel::Whole(weight) => Ok(weight.shallow_clone()),
            Kernel::Normed { length, direction } => joined(length, direction),
        }
    }
}

/// The shape of the length of a weight.
pub fn length_of(shape: &[i64]) -> Vec<i64> {
    let ones = shape.iter().skip(1).map(|_| 1);
    shape.iter().take(1).copied().chain(ones).collect()
}

/// Makes whole weights of the pairs whose weight is to be folded; what has no partner stays.
pub fn fold(mut weights: Weights, is_folded: impl Fn(&str) -> bool) -> Result<Weights, TorchError> {
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
            weights.insert(weight, joined(&length, &direction)?);
        }
    }
    Ok(weights)
}

/// Makes pairs of the whole weights that are to be split: the direction is the weight itself.
pub fn split(mut weights: Weights, is_split: impl Fn(&str) -> bool) -> Result<Weights, TorchError> {
    let names: Vec<String> =
        weights.names().filter(|name| is_split(name)).map(str::to_owned).collect();
    for name in names {
        let (Some(weight), Some(module)) = (weights.remove(&name), name.strip_suffix(WHOLE)) else {
            continue;
        };
        let axes: Vec<i64> = (1..weight.dim() as i64).collect();
        let length = weight.f_square()?.f_sum_dim_intlist(axes, true, weight.kind())?.f_sqrt()?;
        weights.insert(format!("{module}{LENGTH}"), length);
        weights.insert(format!("{module}{DIRECTION}"), weight);
    }
    Ok(weights)
}

/// What a file has to hold, from a list of whole weights: pairs where the file has one of a pair.
pub fn paired(expected: Vec<Expected>, there: &Weights) -> Vec<Expected> {
    let mut paired = Vec::with_capacity(expected.len());
    for (name, shape) in expected {
        let pair = name
            .strip_suffix(WHOLE)
            .map(|module| [LENGTH, DIRECTION].map(|part| format!("{module}{part}")));
        match pair.filter(|pair| pair.iter().any(|name| there.contains(name))) {
            Some([length, direction]) => {
                paired.push((length, length_of(&shape)));
                paired.push((direction, shape));
            }
            None => paired.push((name, shape)),
        }
    }
    paired
}

fn joined(length: &Tensor, direction: &Tensor) -> Result<Tensor, TorchError> {
    Ok(Tensor::f_internal_weight_norm(direction, length, 0)?)
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
        let pair = split(whole, |name| name == "a.weight").unwrap();
        assert_eq!(pair.names().collect::<Vec<_>>(), ["a.weight_g", "a.weight_v"]);
        assert_eq!(pair.get("a.weight_g").unwrap().size(), [3, 1, 1]);
        let after = fold(pair, |_| true).unwrap();
        let far = (after.get("a.weight").unwrap() - before).abs().max();
        assert!(far.double_value(&[]) < 1e-6);
    }

    #[test]
    fn a_pair_is_asked_for_where_one_of_it_is_there() {
        let expected = || vec![("a.weight".to_owned(), vec![3, 2, 4])];
        assert_eq!(paired(expected(), &weights("a.weight")), expected());
        let pair = paired(expected(), &weights("a.weight_v"));
        let length = ("a.weight_g".to_owned(), vec![3, 1, 1]);
        assert_eq!(pair, [length, ("a.weight_v".to_owned(), vec![3, 2, 4])]);
    }
}
