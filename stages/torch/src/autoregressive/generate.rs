//! The decoding loop over frames, for several rows at once.

use serde::{Deserialize, Serialize};
use tch::{Device, Tensor};

use super::draws::Draws;
use super::line::Line;
use super::noise::Noise;
use super::sampler::Sampling;
use crate::error::TorchError;
use crate::runtime::upload::{read, upload_all};

/// A model that draws one frame after the other, each conditioned on all previous columns.
///
/// A frame is a few numbers, for example a token and its codes, or one code. States are [B, C]: the
/// hidden state of each row after its last column.
pub trait Decoder {
    /// The prefix of a row: for example tokens, or embeddings [T, C]. Prefixes of a batch may
    /// differ in length.
    type Prefix;

    /// The memory of active rows, for example a [`KvCache`](super::KvCache).
    type Memory: RowMemory;

    fn device(&self) -> Device;

    /// The number of numbers in a frame.
    fn width(&self) -> i64;

    /// The draws of a frame, in the order of their noise.
    fn lines(&self) -> Vec<Line>;

    /// Runs each prefix, and reserves `steps` more columns in each row.
    fn begin(&self, prefixes: &[&Self::Prefix], steps: i64) -> (Self::Memory, Tensor);

    /// Draws a frame of each row from its state: [B, numbers]. Calls [`Draws::draw`] for
    /// each of the [`lines`](Self::lines).
    fn frame(&self, state: &Tensor, memory: &mut Self::Memory, draws: &Draws) -> Tensor;

    /// Processes a frame of each row, [B, numbers], and returns the new states. Products, norms,
    /// activations and rotation go through [`rows`](super::rows), so that in f32 on a CPU a row is
    /// the same in any batch.
    fn step(&self, frame: &Tensor, memory: &mut Self::Memory) -> Tensor;

    /// Tests if a frame ends its row.
    fn is_end(&self, frame: &[i64]) -> bool;
}

/// The memory of a model for active rows.
pub trait RowMemory {
    /// Keeps only some rows, in order.
    fn keep(&mut self, rows: &OpenRows);
}

/// The rows of a batch that continue, by their positions in it.
pub struct OpenRows {
    pub places: Vec<usize>,
    /// The same on the device.
    pub index: Tensor,
}

impl OpenRows {
    pub fn new(places: Vec<usize>, device: Device) -> OpenRows {
        let index: Vec<i64> = places.iter().map(|place| *place as i64).collect();
        OpenRows { places, index: upload_all(&index, device) }
    }
}

/// One row of a batch.
pub struct RowRequest<'a, P> {
    pub prefix: P,
    /// The largest number of frames, the end included.
    pub most: usize,
    /// The smallest number of frames before the end.
    pub least: usize,
    pub noise: &'a mut dyn Noise,
}

/// The reason why a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model ended it.
    End,
    /// It has the requested number of frames.
    Limit,
    /// The model has no further positions.
    Full,
}

/// The frames of a row, the end included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFrames {
    pub frames: Vec<Vec<i64>>,
    pub stop: Stop,
}

impl<P> RowRequest<'_, P> {
    /// The noise of a line. An end that is not allowed needs none.
    pub(super) fn noise_of(&mut self, line: &Line, may_end: bool, numbers: &mut Vec<f32>) {
        let is_without_end = line.ends && !may_end;
        let count = line.entries - i64::from(is_without_end);
        let places = line.places.as_ref().map(|places| &places[..count as usize]);
        numbers.extend(self.noise.exponentials(count, places));
        if is_without_end {
            numbers.push(1.0);
        }
    }
}

/// Draws the frames of all rows, each until its end or its limit; rows do not depend on each other.
/// A row that ends leaves the batch. Per frame the host reads once, and uploads at most once.
pub fn generate<D: Decoder>(
    decoder: &D,
    rows: Vec<RowRequest<'_, D::Prefix>>,
    sampling: &Sampling,
) -> Result<Vec<RowFrames>, TorchError> {
    generate_from(decoder, rows, sampling, decoder.device() != Device::Cpu)
}

/// The same with noise from the host or from the device.
fn generate_from<D: Decoder>(
    decoder: &D,
    rows: Vec<RowRequest<'_, D::Prefix>>,
    sampling: &Sampling,
    is_on_device: bool,
) -> Result<Vec<RowFrames>, TorchError> {
    let _guard = tch::no_grad_guard();
    sampling.check()?;
    let drawn = rows.iter().map(|_| RowFrames { frames: Vec::new(), stop: Stop::Limit }).collect();
    let active: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].most > 0).collect();
    let Some(most) = active.iter().map(|row| rows[*row].most).max() else { return Ok(drawn) };
    let prefixes: Vec<&D::Prefix> = active.iter().map(|row| &rows[*row].prefix).collect();
    let (memory, mut state) = decoder.begin(&prefixes, most as i64);
    let shape = (active.len() as i64, decoder.width());
    let mut draws = Draws::new(*sampling, decoder.lines(), shape, decoder.device());
    if is_on_device {
        draws = draws.on_device(&rows, &active);
    }
    let mut batch = Generation { decoder, rows, active, drawn, draws, memory };
    while let Some(frame) = batch.frame(&state) {
        state = decoder.step(&frame, &mut batch.memory);
    }
    Ok(batch.drawn)
}

/// Rows that are drawn together.
struct Generation<'d, 'r, D: Decoder> {
    decoder: &'d D,
    rows: Vec<RowRequest<'r, D::Prefix>>,
    /// The active rows, by their indices in `rows`.
    active: Vec<usize>,
    drawn: Vec<RowFrames>,
    draws: Draws,
    memory: D::Memory,
}

impl<D: Decoder> Generation<'_, '_, D> {
    /// Draws a frame of each active row. Returns those of the rows that continue; None if all have
    /// ended.
    fn frame(&mut self, state: &Tensor) -> Option<Tensor> {
        self.draws.begin(&mut self.rows, &self.active);
        let frame = self.decoder.frame(state, &mut self.memory, &self.draws);
        self.draws.end(&frame);
        let numbers = read::<i64>(&frame);
        let width = self.decoder.width() as usize;
        let mut staying = Vec::with_capacity(self.active.len());
        for (place, numbers) in numbers.chunks(width).enumerate() {
            if self.goes_on(self.active[place], numbers) {
                staying.push(place);
            }
        }
        match staying.len() {
            0 => None,
            count if count == self.active.len() => Some(frame),
            _ => Some(self.keep(staying, &frame)),
        }
    }

    /// Notes a frame; false if the row ends with it.
    fn goes_on(&mut self, row: usize, numbers: &[i64]) -> bool {
        let drawn = &mut self.drawn[row];
        drawn.frames.push(numbers.to_vec());
        let is_end = self.decoder.is_end(numbers);
        if is_end {
            drawn.stop = Stop::End;
        }
        !is_end && drawn.frames.len() < self.rows[row].most
    }

    fn keep(&mut self, staying: Vec<usize>, frame: &Tensor) -> Tensor {
        let staying = OpenRows::new(staying, self.decoder.device());
        self.memory.keep(&staying);
        self.draws.keep(&staying.index);
        self.active = staying.places.iter().map(|place| self.active[*place]).collect();
        frame.index_select(0, &staying.index)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Kind;

    use super::*;
    use crate::autoregressive::{
        CacheShape, Heads, KvCache, PenaltyScope, SamplingOrder, SeededNoise,
    };
    use crate::nn::random::scramble;
    use crate::runtime::shim::waits;
    use crate::runtime::upload::{Copies, copies};

    const ENTRIES: i64 = 12;

    /// Attention over embeddings of random numbers: a token, which ends at its last entry, and a
    /// code. Lines before and after the one that ends differ in their places.
    struct TinyDecoder {
        table: Tensor,
    }

    struct TinyMemory(KvCache);

    impl RowMemory for TinyMemory {
        fn keep(&mut self, rows: &OpenRows) {
            self.0.keep(rows);
        }
    }

    impl TinyDecoder {
        fn new() -> TinyDecoder {
            let random = crate::nn::random::Random::new(3).normal(&[ENTRIES, 8], 2.0);
            TinyDecoder { table: random }
        }

        fn attend(&self, x: &Tensor, cache: &KvCache) -> Tensor {
            let heads = || x.view([-1, 1, 2, 4]);
            let y = cache.attend(0, &Heads { queries: heads(), keys: heads(), values: heads() });
            (x + y.squeeze_dim(1)).tanh()
        }
    }

    impl Decoder for TinyDecoder {
        type Prefix = Tensor;
        type Memory = TinyMemory;

        fn device(&self) -> Device {
            Device::Cpu
        }

        fn width(&self) -> i64 {
            2
        }

        fn lines(&self) -> Vec<Line> {
            let code = Line { column: 1, ..Line::of(ENTRIES) };
            vec![Line { ends: true, ..Line::of(ENTRIES) }, code]
        }

        fn begin(&self, prefixes: &[&Tensor], steps: i64) -> (TinyMemory, Tensor) {
            let shape = CacheShape { layers: 1, heads: 2, width: 4 };
            let lengths: Vec<i64> = prefixes.iter().map(|prefix| prefix.size()[0]).collect();
            let cache = KvCache::new(shape, &lengths, steps, (Kind::Float, Device::Cpu));
            let mut states = Vec::new();
            for (row, prefix) in prefixes.iter().enumerate() {
                let x = self.table.index_select(0, prefix);
                let heads = || x.view([1, -1, 2, 4]);
                cache.fill(0, row, &Heads { queries: heads(), keys: heads(), values: heads() });
                states.push(x.narrow(0, lengths[row] - 1, 1));
            }
            (TinyMemory(cache), Tensor::cat(&states, 0))
        }

        fn frame(&self, state: &Tensor, _: &mut TinyMemory, draws: &Draws) -> Tensor {
            let logits = state.matmul(&self.table.tr());
            let token = draws.draw(0, &logits);
            let code = draws.draw(
                1,
                &(logits
                    + self.table.index_select(0, &token).sum_dim_intlist(
                        [1i64].as_slice(),
                        true,
                        Kind::Float,
                    )),
            );
            Tensor::stack(&[token, code], 1)
        }

        fn step(&self, frame: &Tensor, memory: &mut TinyMemory) -> Tensor {
            memory.0.grow();
            let look_up = |column| self.table.index_select(0, &frame.select(1, column));
            self.attend(&(look_up(0) + look_up(1)), &memory.0)
        }

        fn is_end(&self, frame: &[i64]) -> bool {
            frame[0] == ENTRIES - 1
        }
    }

    fn sampling(scope: PenaltyScope) -> Sampling {
        let (temperature, top_p) = (1.5, 0.95);
        let order = SamplingOrder::FishSpeech;
        Sampling { order, temperature, top_k: 0, top_p, repetition_penalty: 1.2, scope }
    }

    /// Rows of different prefixes, lengths and seeds; some may not end at first.
    fn drawn(seed: u64, scope: PenaltyScope, is_on_device: bool) -> Vec<RowFrames> {
        let mut noises: Vec<SeededNoise> =
            (0..5).map(|row| SeededNoise::new(scramble(seed + row))).collect();
        let rows = noises.iter_mut().enumerate().map(|(row, noise)| RowRequest {
            prefix: Tensor::arange(1 + row as i64, (Kind::Int64, Device::Cpu)),
            most: 30 - row,
            least: [0, 9, 0, 3, 20][row],
            noise,
        });
        generate_from(&TinyDecoder::new(), rows.collect(), &sampling(scope), is_on_device).unwrap()
    }

    #[test]
    fn a_device_draws_the_same_frames_as_the_host() {
        for scope in [PenaltyScope::All, PenaltyScope::Last(4), PenaltyScope::FishSpeech(4)] {
            for seed in [1, 100, 1000] {
                let here = drawn(seed, scope, false);
                assert_eq!(here, drawn(seed, scope, true), "{scope:?} {seed}");
                assert!(here.iter().any(|drawn| drawn.stop == Stop::End), "{here:?}");
                let ends = |row: usize, least: usize| here[row].frames.len() > least;
                assert!(ends(1, 9) && ends(3, 3) && ends(4, 20), "{here:?}");
            }
        }
    }

    #[test]
    fn a_frame_is_read_once_and_needs_one_upload_at_most() {
        for is_on_device in [false, true] {
            let before = copies();
            let (drawn, waits) =
                waits(|| drawn(1, PenaltyScope::FishSpeech(4), is_on_device)).unwrap();
            let after = copies();
            let frames = drawn.iter().map(|drawn| drawn.frames.len()).max().unwrap() as u64;
            assert_eq!(after.reads - before.reads, frames);
            // One upload is the start of the cache; those of the host are the noise of each frame.
            let mut lengths: Vec<usize> = drawn.iter().map(|drawn| drawn.frames.len()).collect();
            lengths.sort_unstable();
            lengths.dedup();
            let departures = lengths.len() as u64 - 1;
            let noise = if is_on_device { 0 } else { frames };
            assert_eq!(after.uploads - before.uploads, 1 + noise + departures);
            assert_eq!(waits, 0, "nothing else waits for numbers");
        }
    }

    #[test]
    fn a_number_that_is_read_past_the_counter_is_noticed() {
        let Copies { reads, .. } = copies();
        let (_, waited) = waits(|| Tensor::from_slice(&[1i64]).int64_value(&[0])).unwrap();
        assert_eq!((waited, copies().reads), (1, reads));
    }
}
