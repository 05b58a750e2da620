//! Speaker embeddings, as other programs write them.

use stage_formats::json::from_outside;
use stage_formats::npy;

/// The first bytes of a NumPy file.
const NUMPY: &[u8] = b"\x93NUMPY";

/// Reads a NumPy array of floats, or a JSON list of numbers; the error continues "the embedding in
/// ...".
pub fn embedding(bytes: &[u8]) -> Result<Vec<f64>, String> {
    let numbers: Vec<f64> = if bytes.starts_with(NUMPY) {
        let array = npy::read_floats(bytes).map_err(|error| format!("is damaged: {error}"))?;
        array.values.into_iter().map(f64::from).collect()
    } else {
        from_outside(bytes).map_err(|error| format!("is not a JSON list of numbers: {error}"))?
    };
    if numbers.is_empty() { Err("is an empty list".to_owned()) } else { Ok(numbers) }
}

/// None for lists of different lengths, and if one of them is all zeros.
pub fn cosine(one: &[f64], other: &[f64]) -> Option<f64> {
    let product = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).map(|(one, other)| one * other).sum()
    };
    let scale = (product(one, one) * product(other, other)).sqrt();
    let fits = one.len() == other.len() && scale > 0.0 && scale.is_finite();
    fits.then(|| (product(one, other) / scale).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_cosine_is_of_the_directions_alone() {
        assert_eq!(cosine(&[3.0, 4.0], &[4.0, 3.0]), Some(0.96));
        assert_eq!(cosine(&[3.0, 4.0], &[30.0, 40.0]), Some(1.0));
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), Some(0.0));
        assert_eq!(cosine(&[1.0, 0.0], &[-1.0, 0.0]), Some(-1.0));
    }

    #[test]
    fn what_has_no_direction_has_no_cosine() {
        assert_eq!(cosine(&[0.0, 0.0], &[1.0, 0.0]), None);
        assert_eq!(cosine(&[1.0], &[1.0, 0.0]), None);
        assert_eq!(cosine(&[1e300, 1e300], &[1e300, 0.0]), None);
    }

    #[test]
    fn only_lists_of_numbers_are_embeddings() {
        assert_eq!(embedding(b"[0.5, -1, 2e1]\n"), Ok(vec![0.5, -1.0, 20.0]));
        for bytes in [&b"[]"[..], b"[[1.0]]", b"[1, null]", b"{\"x\": 1}", b"1.0", b"\xff"] {
            assert!(embedding(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn numpy_arrays_of_any_shape_are_embeddings() {
        let write = |shape: Vec<u64>, values: Vec<f32>| {
            npy::write_floats(&npy::FloatArray { shape, values }).unwrap()
        };
        let array = write(vec![1, 3], vec![0.5, -1.0, 20.0]);
        assert_eq!(embedding(&array), Ok(vec![0.5, -1.0, 20.0]));
        assert!(embedding(&write(vec![0], vec![])).unwrap_err().contains("empty"));
        assert!(embedding(&array[..40]).unwrap_err().contains("damaged"));
    }
}
