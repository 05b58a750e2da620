//! Weight norm: a weight stored as a magnitude and a direction, and the names of the two.
//!
//! The weight is `magnitude * direction / |direction|`, with the norm over all axes but the first.
//! Releases of PyTorch name the pair in two ways.

use crate::error::FormatError;
use crate::shapes::Expected;
use crate::tensor::Tensor;

/// The last part of the name of a magnitude, of shape [outputs, 1, …].
pub const LENGTH: &str = "weight_g";
/// The last part of the name of a direction, with the shape of the weight.
pub const DIRECTION: &str = "weight_v";
/// The same two parts in the newer spelling.
pub const NEWER_LENGTH: &str = "parametrizations.weight.original0";
pub const NEWER_DIRECTION: &str = "parametrizations.weight.original1";
/// The last part of the name of a weight without weight norm.
pub const WHOLE: &str = "weight";

/// The shape of the magnitude of a weight.
pub fn length_of(shape: &[i64]) -> Vec<i64> {
    let ones = shape.iter().skip(1).map(|_| 1);
    shape.iter().take(1).copied().chain(ones).collect()
}

/// The expected contents of a file for a list of weights: pairs if the file has one of a pair.
pub fn paired(expected: Vec<Expected>, has: impl Fn(&str) -> bool) -> Vec<Expected> {
    let mut paired = Vec::with_capacity(expected.len());
    for (name, shape) in expected {
        let pair = name
            .strip_suffix(WHOLE)
            .map(|module| [LENGTH, DIRECTION].map(|part| format!("{module}{part}")));
        match pair.filter(|pair| pair.iter().any(|name| has(name))) {
            Some([length, direction]) => {
                paired.push((length, length_of(&shape)));
                paired.push((direction, shape));
            }
            None => paired.push((name, shape)),
        }
    }
    paired
}

/// The weight of a pair, in f32: in a shorter type it would be rounded once more than the pair. A
/// zero direction gives zeros.
///
/// # Errors
///
/// If the two do not fit together.
pub fn fold(length: &Tensor, direction: &Tensor) -> Result<Tensor, FormatError> {
    let (lengths, values) = (length.to_f32(), direction.to_f32());
    let rows = direction.shape().first().copied().unwrap_or(0);
    if lengths.len() != rows || !(length.dtype().is_float() && direction.dtype().is_float()) {
        let (length, direction) = (length.info(), direction.info());
        let message = format!("the weight norm {length} does not fit its direction {direction}");
        return Err(FormatError::tensor("data", message));
    }
    let width = values.len() / rows.max(1);
    let filters = values.chunks(width.max(1)).zip(lengths);
    let folded = filters.flat_map(|(filter, length)| {
        let own = norm(filter);
        let factor = if own > 0.0 { f64::from(length) / own } else { 0.0 };
        filter.iter().map(move |value| (f64::from(*value) * factor) as f32)
    });
    let folded: Vec<f32> = folded.collect();
    Tensor::from_f32(direction.shape(), &folded)
}

/// The fill value for the direction of a zero filter: any value would do, since its magnitude is
/// zero, but a zero direction has no norm to divide by.
pub const ANY: f32 = 1e-2;

/// The magnitude of a weight, in f32, and its direction, which is the weight itself.
pub fn split(weight: &Tensor) -> Result<(Tensor, Tensor), FormatError> {
    let (mut values, mut shape) = (weight.to_f32(), weight.shape().to_vec());
    let rows = shape.first().copied().unwrap_or(0);
    shape.iter_mut().skip(1).for_each(|size| *size = 1);
    let width = (values.len() / rows.max(1)).max(1);
    let lengths: Vec<f32> = values.chunks(width).map(|row| norm(row) as f32).collect();
    for (filter, length) in values.chunks_mut(width).zip(&lengths) {
        if *length == 0.0 {
            filter.fill(ANY);
        }
    }
    let direction = Tensor::from_f32(weight.shape(), &values)?.to_float(weight.dtype())?;
    Ok((Tensor::from_f32(shape, &lengths)?, direction))
}

fn norm(filter: &[f32]) -> f64 {
    filter.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

/// The name in the older of the two spellings, which this project uses; other names do not change.
pub fn plain(name: &str) -> String {
    SPELLINGS.iter().fold(name.to_owned(), |name, (newer, older)| name.replace(newer, older))
}

/// The name in the newer spelling, which recent releases write.
pub fn newer(name: &str) -> String {
    let spelt = SPELLINGS.iter().find_map(|(newer, older)| {
        let module = name.strip_suffix(older).filter(|module| module.ends_with('.'))?;
        Some(format!("{module}{newer}"))
    });
    spelt.unwrap_or_else(|| name.to_owned())
}

const SPELLINGS: [(&str, &str); 2] = [(NEWER_LENGTH, LENGTH), (NEWER_DIRECTION, DIRECTION)];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_spellings_become_one() {
        let names = ["a.parametrizations.weight.original0", "a.parametrizations.weight.original1"];
        assert_eq!(names.map(plain), ["a.weight_g", "a.weight_v"]);
        assert_eq!(plain("a.weight"), "a.weight");
        assert_eq!(names.map(|name| newer(&plain(name))), names);
        assert_eq!(newer("a.weight"), "a.weight");
    }

    #[test]
    fn a_weight_is_its_direction_at_its_length() {
        let weight = Tensor::from_f32([3, 1, 2], &[3.0, 4.0, 0.0, -2.0, 0.0, 0.0]).unwrap();
        let (lengths, direction) = split(&weight).unwrap();
        assert_eq!((lengths.shape(), lengths.to_f32()), (&[3, 1, 1][..], vec![5.0, 2.0, 0.0]));
        assert_eq!(direction.to_f32(), [3.0, 4.0, 0.0, -2.0, ANY, ANY]);
        assert_eq!(fold(&lengths, &direction).unwrap(), weight);
        let longer = Tensor::from_f32([3, 1, 1], &[10.0, 1.0, 7.0]).unwrap();
        let folded = fold(&longer, &weight).unwrap();
        assert_eq!(folded.to_f32(), [6.0, 8.0, 0.0, -1.0, 0.0, 0.0]);
        let other = Tensor::from_f32([2, 1, 1], &[1.0, 1.0]).unwrap();
        assert!(fold(&other, &direction).is_err());
    }

    #[test]
    fn a_pair_is_asked_for_where_one_of_it_is_there() {
        let expected = || vec![("a.weight".to_owned(), vec![3, 2, 4])];
        assert_eq!(paired(expected(), |name| name == "a.weight"), expected());
        let pair = paired(expected(), |name| name == "a.weight_v");
        let length = ("a.weight_g".to_owned(), vec![3, 1, 1]);
        assert_eq!(pair, [length, ("a.weight_v".to_owned(), vec![3, 2, 4])]);
    }
}
