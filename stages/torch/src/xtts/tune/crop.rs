//! The conditioning crop of a clip.

use std::ops::Range;

use crate::nn::random::{Random, scramble};
use crate::train::run::Purpose;

/// Samples at 22,050 Hz: `min_conditioning_length` and `max_conditioning_length` of the original.
const SHORTEST: usize = 66_150;
pub const LONGEST: usize = 132_300;
/// Samples of the crop of a held-out clip, which begins with the clip.
const HELD_OUT: usize = (SHORTEST + LONGEST) / 2;

/// The samples of a clip's crop. `key` is that of the clip; the same step draws the same crop in
/// any batch. If a clip is shorter than the drawn length, the crop is half of it.
pub fn crop(samples: usize, key: u64, purpose: Purpose) -> Range<usize> {
    let mut random = match purpose {
        Purpose::Step { seed } => Some(Random::new(scramble(seed ^ scramble(key)))),
        Purpose::HeldOut => None,
    };
    let mut draw = |most: usize| match &mut random {
        Some(random) => (random.fraction() * (most + 1) as f64) as usize,
        None => 0,
    };
    let wanted = match purpose {
        Purpose::Step { .. } => SHORTEST + draw(LONGEST - SHORTEST),
        Purpose::HeldOut => HELD_OUT,
    };
    let length = if wanted > samples { (samples / 2).max(1) } else { wanted };
    let start = draw(samples.saturating_sub(length));
    start..(start + length).min(samples)
}

/// The samples of a crop, padded with silence to the same length for each clip.
pub fn padded(samples: &[f32], crop: Range<usize>) -> Vec<f32> {
    let mut part = samples.get(crop).unwrap_or_default().to_vec();
    part.resize(LONGEST, 0.0);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(seed: u64) -> Purpose {
        Purpose::Step { seed }
    }

    #[test]
    fn a_crop_has_three_to_six_seconds_and_lies_within_its_clip() {
        let samples = 10 * 22_050;
        let crops: Vec<Range<usize>> = (0..2_000).map(|key| crop(samples, key, step(1))).collect();
        assert!(crops.iter().all(|crop| (SHORTEST..=LONGEST).contains(&crop.len())));
        assert!(crops.iter().all(|crop| crop.end <= samples));
        // Lengths and starts are uniformly distributed.
        let middle = (SHORTEST + LONGEST) / 2;
        let long = crops.iter().filter(|crop| crop.len() > middle).count();
        assert!((850..1_150).contains(&long), "{long}");
        let early = |crop: &&Range<usize>| crop.start < (samples - crop.len()) / 2;
        let early = crops.iter().filter(early).count();
        assert!((850..1_150).contains(&early), "{early}");
    }

    #[test]
    fn of_a_clip_that_is_shorter_than_its_crop_half_is_taken() {
        for samples in [11_025, 40_001, SHORTEST - 1] {
            let own = crop(samples, 7, step(3));
            assert_eq!(own.len(), samples / 2);
            assert!(own.end <= samples);
        }
    }

    #[test]
    fn a_crop_follows_from_seed_step_and_clip() {
        let of = |key, seed| crop(300_000, key, step(seed));
        assert_eq!(of(1, 1), of(1, 1));
        assert_ne!(of(1, 1), of(2, 1));
        assert_ne!(of(1, 1), of(1, 2));
    }

    #[test]
    fn held_out_clips_have_the_same_crop_from_their_beginning() {
        for key in [1, 2] {
            assert_eq!(crop(300_000, key, Purpose::HeldOut), 0..99_225);
            assert_eq!(crop(99_224, key, Purpose::HeldOut), 0..49_612);
        }
    }

    #[test]
    fn crops_are_padded_to_the_same_length() {
        let samples: Vec<f32> = (0..1_000).map(|at| at as f32).collect();
        let part = padded(&samples, 200..500);
        assert_eq!((part.len(), part[0], part[299], part[300]), (LONGEST, 200.0, 499.0, 0.0));
    }
}
