//! Operations on batches that several modules use.

use tch::{Kind, Tensor};

use crate::error::TorchError;

/// The two halves of the channels.
pub fn halves(x: &Tensor) -> [Tensor; 2] {
    let half = x.size()[1] / 2;
    [x.narrow(1, 0, half), x.narrow(1, half, half)]
}

/// The sum over channels and columns: [B, C, N] to [B].
pub fn summed(x: &Tensor) -> Tensor {
    x.sum_dim_intlist([1i64, 2].as_slice(), false, Kind::Float)
}

/// Repeats columns: [B, C, N] and indices [B, T] to [B, C, T].
pub fn expand(x: &Tensor, places: &Tensor) -> Tensor {
    let (rows, channels) = (x.size()[0], x.size()[1]);
    let places = places.unsqueeze(1).expand([rows, channels, places.size()[1]], false);
    x.gather(2, &places, false)
}

/// The token of each frame, [B, T] with zeros after the end, and the number of frames of each text,
/// at least one.
pub fn spread_out(durations: &Tensor, most: i64) -> Result<(Tensor, Vec<i64>), TorchError> {
    let rows = durations.size()[0] as usize;
    let values: Vec<f64> = Vec::try_from(durations.to_kind(Kind::Double).contiguous().view(-1))?;
    let columns = values.len() / rows.max(1);
    let mut places: Vec<Vec<i64>> = Vec::with_capacity(rows);
    for row in values.chunks(columns.max(1)) {
        let total: f64 = row.iter().sum();
        if total.is_nan() || total > most as f64 {
            return Err(TorchError::Input(format!(
                "a text would last {total} frames, more than {most}; shorten it, or train the \
                 durations of the model"
            )));
        }
        let tokens = row.iter().enumerate();
        places.push(tokens.flat_map(|(at, count)| vec![at as i64; *count as usize]).collect());
    }
    let frames: Vec<i64> = places.iter().map(|row| row.len().max(1) as i64).collect();
    let longest = frames.iter().copied().max().unwrap_or(1) as usize;
    places.iter_mut().for_each(|row| row.resize(longest, 0));
    let places = Tensor::from_slice(&places.concat()).view([rows as i64, longest as i64]);
    Ok((places, frames))
}

/// The start of a segment of a clip, uniform over all positions; `fraction` is drawn from [0, 1).
pub fn slice_start(fraction: f64, frames: i64, part: i64) -> i64 {
    (fraction * (frames - part + 1).max(1) as f64) as i64
}

/// A segment of each row: [B, C, L] to [B, C, length].
pub fn sliced(x: &Tensor, starts: &[i64], length: i64) -> Tensor {
    let rows = starts.iter().enumerate();
    let rows: Vec<Tensor> =
        rows.map(|(row, start)| x.select(0, row as i64).narrow(1, *start, length)).collect();
    Tensor::stack(&rows, 0)
}

/// The error of a model without the parts that only training needs.
pub fn speaks_only() -> TorchError {
    TorchError::Model("it only speaks: the parts that training needs are not in its file".into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_are_repeated_for_as_long_as_they_last() {
        let durations = Tensor::from_slice(&[1f32, 0.0, 2.0, 0.0, 0.0, 0.0]).view([2, 3]);
        let (places, frames) = spread_out(&durations, 10).unwrap();
        assert_eq!(frames, [3, 1], "no text is without any frame");
        assert_eq!(Vec::<i64>::try_from(places.view(-1)).unwrap(), [0, 2, 2, 0, 0, 0]);
        let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).view([2, 1, 3]);
        let expanded = Vec::<f32>::try_from(expand(&x, &places).view(-1)).unwrap();
        assert_eq!(expanded, [1.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
    }

    #[test]
    fn endless_speech_is_refused() {
        for total in [11.0f32, f32::INFINITY, f32::NAN] {
            let error = spread_out(&Tensor::from_slice(&[total]).view([1, 1]), 10).unwrap_err();
            assert!(error.to_string().contains("more than 10"), "{error}");
        }
    }

    #[test]
    fn parts_begin_at_every_place_and_at_no_other() {
        assert_eq!(slice_start(0.0, 40, 32), 0);
        assert_eq!(slice_start(0.999_999, 40, 32), 8);
        assert_eq!(slice_start(0.999_999, 32, 32), 0);
    }
}
