//! The tensor that a module gets.

use stage_core::Reject;
use stage_formats::npy;
use tch::Tensor;

/// Samples as `[samples]`, with ones before it up to this number of dimensions.
pub fn sound(samples: &[f32], dimensions: usize) -> Tensor {
    shaped(samples, &[samples.len() as i64], dimensions)
}

/// The array of a NumPy file as f32, with ones before its shape up to this number of dimensions.
pub fn array(bytes: &[u8], dimensions: Option<usize>) -> Result<Tensor, Reject> {
    let (shape, values) = read(bytes)?;
    let shape: Vec<i64> = shape.into_iter().map(|size| size as i64).collect();
    let wanted = dimensions.unwrap_or(shape.len());
    if shape.len() > wanted {
        let reason = format!("the array has the shape {shape:?}, but `dimensions` is {wanted}");
        return Err(Reject::new("array-shape", reason));
    }
    Ok(shaped(&values, &shape, wanted))
}

fn read(bytes: &[u8]) -> Result<(Vec<u64>, Vec<f32>), Reject> {
    let floats = npy::read_floats(bytes).or_else(|_| npy::read_halves(bytes));
    match floats {
        Ok(array) => Ok((array.shape, array.values)),
        Err(_) => match npy::read(bytes) {
            Ok(array) => {
                Ok((array.shape, array.values.into_iter().map(|value| value as f32).collect()))
            }
            Err(error) => Err(Reject::new("unreadable-array", error.to_string())),
        },
    }
}

fn shaped(values: &[f32], shape: &[i64], dimensions: usize) -> Tensor {
    let ones = dimensions.saturating_sub(shape.len());
    let shape: Vec<i64> = std::iter::repeat_n(1, ones).chain(shape.iter().copied()).collect();
    Tensor::from_slice(values).reshape(shape)
}
