//! Monotonic alignment search (Kim et al., arXiv 2005.11129): assigns frames to tokens by the best
//! path on which each frame stays at the token of the previous frame or advances to the next one.

use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use crate::error::TorchError;

/// The number of frames of each token on the best path through scores, [frames, tokens] row by row
/// with rows `stride` apart. The path begins with the first token and ends with the last. Of two
/// equally good paths it takes the one that advances earlier, seen from the end later, as the
/// original does.
pub fn align(
    scores: &[f32],
    frames: usize,
    tokens: usize,
    stride: usize,
) -> Result<Vec<u32>, TorchError> {
    if tokens == 0 || frames < tokens {
        return Err(TorchError::Input(format!(
            "{frames} frames are too few for {tokens} tokens: the clip is too short for its text"
        )));
    }
    if stride < tokens || scores.len() < (frames - 1) * stride + tokens {
        return Err(TorchError::Input("there are fewer scores than frames and tokens".into()));
    }
    let moves = moves(scores, frames, tokens, stride);
    let mut durations = vec![0u32; tokens];
    let mut token = tokens - 1;
    for frame in (0..frames).rev() {
        durations[token] += 1;
        let has_moved = token == frame || moves[frame * tokens + token] == 1;
        if frame > 0 && token > 0 && has_moved {
            token -= 1;
        }
    }
    Ok(durations)
}

/// True where the best path to a frame at a token came from the previous token: [frames, tokens],
/// filled in where a path to the end is possible.
fn moves(scores: &[f32], frames: usize, tokens: usize, stride: usize) -> Vec<u8> {
    let mut moves = vec![0u8; frames * tokens];
    // The best sums for each token, shifted by one: there is none before the first.
    let mut previous = vec![f32::NEG_INFINITY; tokens + 1];
    let mut current = previous.clone();
    previous[1] = scores[0];
    for frame in 1..frames {
        let first = (tokens + frame).saturating_sub(frames);
        let end = tokens.min(frame + 1);
        let row = &scores[frame * stride..][first..end];
        let sums = &mut current[first + 1..end + 1];
        let moved = &mut moves[frame * tokens..][first..end];
        let (stays, steps) = (&previous[first + 1..end + 1], &previous[first..end]);
        // Slices of one length, so that several tokens are processed at a time.
        for at in 0..row.len().min(sums.len()).min(moved.len()).min(stays.len()).min(steps.len()) {
            let is_better = stays[at] < steps[at];
            moved[at] = u8::from(is_better);
            sums[at] = row[at] + if is_better { steps[at] } else { stays[at] };
        }
        std::mem::swap(&mut previous, &mut current);
    }
    moves
}

/// Frames of each token of each clip, [B, N] in f32 on the host, from the scores [B, T, N]; `frames`
/// and `tokens` are the lengths of each clip.
pub fn align_all(scores: &Tensor, frames: &[i64], tokens: &[i64]) -> Result<Tensor, TorchError> {
    let (rows, length, width) = scores.size3()?;
    let host = scores.detach().to_kind(Kind::Float).to_device(Device::Cpu);
    let mut values = vec![0f32; host.numel()];
    let count = values.len();
    host.contiguous().copy_data(&mut values, count);
    if rows as usize != frames.len().min(tokens.len()) {
        return Err(TorchError::Input(format!("{rows} clips do not match the number of lengths")));
    }
    let clips = values.par_chunks((length * width) as usize).zip(frames.par_iter().zip(tokens));
    let durations = clips.map(|(scores, (frames, tokens))| {
        let mut row = align(scores, *frames as usize, *tokens as usize, width as usize)?;
        row.resize(width as usize, 0);
        Ok(row.into_iter().map(|frames| frames as f32).collect())
    });
    let durations: Vec<Vec<f32>> = durations.collect::<Result<_, TorchError>>()?;
    Ok(Tensor::from_slice(&durations.concat()).view([rows, width]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::nn::random::Random;

    /// All ways to distribute the frames, and the best of them.
    fn brute_force(scores: &[f32], frames: usize, tokens: usize) -> Vec<u32> {
        fn shares(frames: usize, tokens: usize) -> Vec<Vec<u32>> {
            if tokens == 1 {
                return vec![vec![frames as u32]];
            }
            let more = (1..=frames + 1 - tokens).flat_map(|first| {
                let rest = shares(frames - first, tokens - 1);
                rest.into_iter().map(move |rest| [vec![first as u32], rest].concat())
            });
            more.collect()
        }
        let worth = |share: &Vec<u32>| -> f64 {
            let path = share.iter().enumerate().flat_map(|(at, count)| vec![at; *count as usize]);
            path.enumerate().map(|(frame, token)| f64::from(scores[frame * tokens + token])).sum()
        };
        let best = shares(frames, tokens);
        best.into_iter().max_by(|one, other| worth(one).total_cmp(&worth(other))).unwrap()
    }

    #[test]
    fn no_other_path_is_better() {
        let mut random = Random::new(7);
        for _ in 0..400 {
            let tokens = 1 + (random.draw() % 5) as usize;
            let frames = tokens + (random.draw() % 6) as usize;
            let scores: Vec<f32> =
                (0..frames * tokens).map(|_| (random.fraction() * 100.0) as f32).collect();
            let found = align(&scores, frames, tokens, tokens).unwrap();
            assert_eq!(found, brute_force(&scores, frames, tokens), "{frames} {tokens}");
        }
    }

    #[test]
    fn equal_paths_are_decided_as_in_the_original() {
        assert_eq!(align(&[0.0; 8], 4, 2, 2).unwrap(), [1, 3]);
    }

    #[test]
    fn padding_of_the_batch_is_not_looked_at() {
        let mut random = Random::new(3);
        let scores: Vec<f32> = (0..6 * 3).map(|_| random.fraction() as f32).collect();
        let alone = align(&scores, 6, 3, 3).unwrap();
        let mut padded = vec![1e9f32; 2 * 8 * 5];
        for frame in 0..6 {
            padded[40 + frame * 5..][..3].copy_from_slice(&scores[frame * 3..][..3]);
        }
        let padded = Tensor::from_slice(&padded).view([2, 8, 5]);
        let both = align_all(&padded, &[8, 6], &[5, 3]).unwrap();
        let row = Vec::<f32>::try_from(both.get(1)).unwrap();
        assert_eq!(row[..3], alone.iter().map(|frames| *frames as f32).collect::<Vec<_>>());
        assert_eq!(row[3..], [0.0, 0.0]);
    }

    #[test]
    fn every_token_has_a_frame_even_where_scores_are_no_numbers() {
        let durations = align(&[f32::NAN; 12], 4, 3, 3).unwrap();
        assert_eq!(durations.iter().sum::<u32>(), 4);
        for (frames, tokens) in [(2, 3), (0, 0), (3, 0)] {
            let error = align(&[0.0; 6], frames, tokens, tokens).unwrap_err().to_string();
            assert!(error.contains("too short for its text"), "{error}");
        }
    }
}
