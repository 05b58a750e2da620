//! Fits a [`MelRvq`] on a corpus: draws frames, then fits one codebook after the other.
//!
//! The drawn frames depend on the clips' content and the seed only: every frame of the corpus gets
//! a rank by hashing its clip's digest and its index, and the lowest ranks win. So the order of
//! clips, their names and repeated clips do not matter, and one more clip changes the draw only by
//! its own share.

use std::collections::BTreeMap;

use crate::error::TorchError;
use crate::nn::kmeans::{self, Points};
use crate::nn::random::{Random, scramble};
use crate::runtime::threads::one_thread;
use crate::sound::mel::{Mel, TILE, to_vec};
use crate::sound::mel_rvq::{Config, MelRvq, check_wave};

/// Rounds of Lloyd's iteration per codebook; more change the error by well under one per cent.
const ROUNDS: usize = 12;

/// The frames drawn so far.
pub struct FrameDraw {
    mel: Mel,
    seed: u64,
    limit: usize,
    frames: BTreeMap<Rank, Vec<f32>>,
}

/// The rank of a frame, its clip, its index in the clip.
type Rank = (u64, [u8; 32], usize);

impl FrameDraw {
    pub fn new(config: &Config, limit: usize, seed: u64) -> Result<FrameDraw, TorchError> {
        config.check()?;
        one_thread();
        let mel = Mel::new(config.mel)?;
        Ok(FrameDraw { mel, seed, limit: limit.max(1), frames: BTreeMap::new() })
    }

    /// Adds a clip; `digest` is that of its content.
    pub fn add(&mut self, digest: &[u8; 32], wave: &[f32]) -> Result<(), TorchError> {
        check_wave(wave)?;
        let frames = self.mel.shape().frames(wave.len());
        let ranks: Vec<Rank> = (0..frames).map(|at| rank(self.seed, digest, at)).collect();
        for (tile, ranks) in ranks.chunks(TILE).enumerate() {
            if ranks.iter().any(|rank| self.wants(rank)) {
                let rows = to_vec(&self.mel.tile(wave, tile));
                self.keep(ranks, &rows);
            }
        }
        Ok(())
    }

    fn wants(&self, rank: &Rank) -> bool {
        self.frames.len() < self.limit
            || self.frames.last_key_value().is_some_and(|(last, _)| rank < last)
    }

    fn keep(&mut self, ranks: &[Rank], rows: &[f32]) {
        for (rank, row) in ranks.iter().zip(rows.chunks(self.mel.shape().bands)) {
            if self.wants(rank) {
                self.frames.insert(*rank, row.to_vec());
            }
            if self.frames.len() > self.limit {
                self.frames.pop_last();
            }
        }
    }

    /// The drawn frames, by rank: an order unrelated to that of the clips.
    pub fn frames(self) -> Vec<f32> {
        self.frames.into_values().flatten().collect()
    }
}

fn rank(seed: u64, digest: &[u8; 32], frame: usize) -> Rank {
    let mut hash = scramble(seed);
    for word in digest.as_chunks::<8>().0 {
        hash = scramble(hash ^ u64::from_le_bytes(*word));
    }
    (scramble(hash ^ frame as u64), *digest, frame)
}

/// A fitted codec, and the mean square of the residual of a value after each codebook.
pub struct FittedCodec {
    pub model: MelRvq,
    pub errors: Vec<f64>,
}

/// Fits the codebooks on frames. `step` is called with the number of finished codebooks, and ends
/// the work by an error.
pub fn fit<E: From<TorchError>>(
    config: Config,
    frames: &[f32],
    seed: u64,
    step: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<FittedCodec, E> {
    config.check()?;
    one_thread();
    let width = config.mel.bands;
    let mean = mean_row(Points { values: frames, width });
    let mut left = frames.to_vec();
    for row in left.chunks_mut(width) {
        row.iter_mut().zip(&mean).for_each(|(value, mean)| *value -= mean);
    }
    let mut random = Random::new(scramble(seed ^ 0x6d65_6c72_7671));
    let (mut codebooks, mut errors) = (Vec::new(), Vec::new());
    for codebook in 0..config.codebooks {
        step(codebook)?;
        let rows = Points { values: &left, width };
        let centres = kmeans::fit(rows, config.entries, ROUNDS, &mut random)?;
        let assignment = kmeans::assign(rows, &centres);
        left = kmeans::residual(rows, &centres, &assignment);
        errors.push(mean_square(&left));
        codebooks.extend(centres);
    }
    step(config.codebooks)?;
    Ok(FittedCodec { model: MelRvq::from_parts(config, mean, codebooks), errors })
}

fn mean_row(rows: Points) -> Vec<f32> {
    let mut sums = vec![0f64; rows.width];
    for row in rows.values.chunks(rows.width) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let count = rows.count().max(1) as f64;
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}

fn mean_square(values: &[f32]) -> f64 {
    values.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>() / values.len().max(1) as f64
}
