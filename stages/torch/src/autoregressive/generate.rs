//! The decoding loop over frames, for several rows at once.

use serde::{Deserialize, Serialize};
use tch::{Device, Tensor};

use super::draws::{Draws, Line};
use super::noise::Noise;
use super::sampler::Sampling;
use crate::error::TorchError;

/// A model that draws one frame after the other, each conditioned on all previous columns.
///
/// A frame is a few numbers, for example a token and its codes, or one code. States are [B, C]: the
/// hidden state of each row after its last column.
pub trait Decoder {
    /// The prefix of a row: for example tokens, or embeddings [T, C]. Prefixes of a batch may
    /// differ in length.
    type Prefix;

    /// The memory of active rows, for example a [`KvCache`](super::KvCache).
    type Memory: Memory;

    fn device(&self) -> Device;

    /// The number of numbers in a frame.
    fn width(&self) -> i64;

    /// The draws of a frame, in the order of their noise.
    fn lines(&self) -> Vec<Line>;

    /// Runs each prefix, and reserves `steps` more columns in each row.
    fn begin(
        &self,
        prefixes: &[&Self::Prefix],
        steps: i64,
    ) -> Result<(Self::Memory, Tensor), TorchError>;

    /// Draws a frame of each row from its state: [B, numbers]. Calls [`Draws::draw`] for
    /// each of the [`lines`](Self::lines).
    fn frame(
        &self,
        state: &Tensor,
        memory: &mut Self::Memory,
        draws: &Draws,
    ) -> Result<Tensor, TorchError>;

    /// Processes a frame of each row, [B, numbers], and returns the new states. Products, norms,
    /// activations and rotation go through [`rows`](super::rows), so that in f32 on a CPU a row is
    /// the same in any batch.
    fn step(&self, frame: &Tensor, memory: &mut Self::Memory) -> Result<Tensor, TorchError>;

    /// Tests if a frame ends its row.
    fn is_end(&self, frame: &[i64]) -> bool;
}

/// The memory of a model for active rows.
pub trait Memory {
    /// Keeps only some rows, in order.
    fn keep(&mut self, rows: &[usize]);
}

/// One row of a batch.
pub struct Row<'a, P> {
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
pub struct Drawn {
    pub frames: Vec<Vec<i64>>,
    pub stop: Stop,
}

impl<P> Row<'_, P> {
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
/// A row that ends leaves the batch. The device is synchronised once per frame.
pub fn generate<D: Decoder>(
    decoder: &D,
    rows: Vec<Row<'_, D::Prefix>>,
    sampling: &Sampling,
) -> Result<Vec<Drawn>, TorchError> {
    let _guard = tch::no_grad_guard();
    sampling.check()?;
    let drawn = rows.iter().map(|_| Drawn { frames: Vec::new(), stop: Stop::Limit }).collect();
    let active: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].most > 0).collect();
    let Some(most) = active.iter().map(|row| rows[*row].most).max() else { return Ok(drawn) };
    let prefixes: Vec<&D::Prefix> = active.iter().map(|row| &rows[*row].prefix).collect();
    let (memory, mut state) = decoder.begin(&prefixes, most as i64)?;
    let shape = (active.len() as i64, decoder.width());
    let draws = Draws::new(*sampling, decoder.lines(), shape, decoder.device());
    let mut batch = Batch { decoder, rows, active, drawn, draws, memory };
    while let Some(frame) = batch.frame(&state)? {
        state = decoder.step(&frame, &mut batch.memory)?;
    }
    Ok(batch.drawn)
}

/// Rows that are drawn together.
struct Batch<'d, 'r, D: Decoder> {
    decoder: &'d D,
    rows: Vec<Row<'r, D::Prefix>>,
    /// The active rows, by their indices in `rows`.
    active: Vec<usize>,
    drawn: Vec<Drawn>,
    draws: Draws,
    memory: D::Memory,
}

impl<D: Decoder> Batch<'_, '_, D> {
    /// Draws a frame of each active row. Returns those of the rows that continue; None if all have
    /// ended.
    fn frame(&mut self, state: &Tensor) -> Result<Option<Tensor>, TorchError> {
        self.draws.begin(&mut self.rows, &self.active)?;
        let frame = self.decoder.frame(state, &mut self.memory, &self.draws)?;
        self.draws.end(&frame);
        let numbers = Vec::<i64>::try_from(frame.f_reshape(-1)?)?;
        let width = self.decoder.width() as usize;
        let mut staying = Vec::with_capacity(self.active.len());
        for (place, numbers) in numbers.chunks(width).enumerate() {
            if self.goes_on(self.active[place], numbers) {
                staying.push(place);
            }
        }
        match staying.len() {
            0 => Ok(None),
            count if count == self.active.len() => Ok(Some(frame)),
            _ => self.keep(&staying, &frame).map(Some),
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

    fn keep(&mut self, staying: &[usize], frame: &Tensor) -> Result<Tensor, TorchError> {
        let index: Vec<i64> = staying.iter().map(|place| *place as i64).collect();
        let index = Tensor::f_from_slice(&index)?.f_to_device(self.decoder.device())?;
        self.memory.keep(staying);
        self.draws.keep(&index);
        self.active = staying.iter().map(|place| self.active[*place]).collect();
        Ok(frame.f_index_select(0, &index)?)
    }
}
