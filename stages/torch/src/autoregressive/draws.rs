//! The draws of a frame, for all rows at once. Noise and penalty are on the device: a GPU computes
//! its noise itself; on a CPU, the host draws it and uploads it in one piece.

use tch::{Device, Kind, Tensor};

use super::generate::RowRequest;
use super::line::Line;
use super::noise::OnDevice;
use super::penalty::Penalty;
use super::sampler::Sampling;
use crate::runtime::upload::upload_all;

/// The draws of the active rows.
#[derive(Debug)]
pub struct Draws {
    sampling: Sampling,
    lines: Vec<Line>,
    penalty: Penalty,
    device: Device,
    /// Empty if the host draws.
    source: Option<OnDevice>,
    /// The noise of the current frame: [B, entries] for each line.
    noise: Vec<Tensor>,
    /// For the current frame, if only some rows may end: true for those that may not, [B, 1].
    unending: Option<Tensor>,
    frames: usize,
}

impl Draws {
    pub(super) fn new(
        sampling: Sampling,
        lines: Vec<Line>,
        (rows, width): (i64, i64),
        device: Device,
    ) -> Draws {
        let penalty = Penalty::new(sampling.scope, rows, &lines, width, device);
        let (source, noise, unending) = (None, Vec::new(), None);
        Draws { sampling, lines, penalty, device, source, noise, unending, frames: 0 }
    }

    /// Lets the device compute the noise, if all rows have such noise.
    pub(super) fn on_device<P>(mut self, rows: &[RowRequest<'_, P>], active: &[usize]) -> Draws {
        let states: Option<Vec<u64>> = active.iter().map(|row| rows[*row].noise.state()).collect();
        let least: Vec<usize> = active.iter().map(|row| rows[*row].least).collect();
        self.source = states.map(|states| OnDevice::new(&states, &least, &self.lines, self.device));
        self
    }

    /// Draws an entry of each row, `[B]`, from the logits of a line, [B, entries].
    pub fn draw(&self, line: usize, logits: &Tensor) -> Tensor {
        let Line { entries, ends, .. } = self.lines[line];
        let (noise, repeated) = (&self.noise[line], self.penalty.of(line, &self.lines[line]));
        let logits = logits.to_kind(Kind::Float);
        if let Some(unending) = self.unending.as_ref().filter(|_| ends) {
            let mut end = logits.narrow(1, entries - 1, 1);
            let _ = end.masked_fill_(unending, f64::NEG_INFINITY);
        }
        self.sampling.draw(&logits, repeated.as_ref(), noise)
    }

    /// Draws the noise of the next frame, for each row from its own source.
    pub(super) fn begin<P>(&mut self, rows: &mut [RowRequest<'_, P>], active: &[usize]) {
        let (all, unending) = match &mut self.source {
            Some(source) => source.next(self.frames),
            None => self.drawn_here(rows, active),
        };
        self.noise.clear();
        let mut start = 0;
        for line in &self.lines {
            self.noise.push(all.narrow(1, start, line.entries));
            start += line.entries;
        }
        let is_unending = active.iter().any(|row| self.frames < rows[*row].least);
        self.unending = is_unending.then_some(unending);
    }

    /// The noise of a frame, [B, entries], and true for rows that may not end, [B, 1]: drawn on the
    /// host, and uploaded together.
    fn drawn_here<P>(&self, rows: &mut [RowRequest<'_, P>], active: &[usize]) -> (Tensor, Tensor) {
        let total: i64 = self.lines.iter().map(|line| line.entries).sum();
        let mut numbers = Vec::with_capacity(active.len() * (total + 1) as usize);
        for row in active {
            let row = &mut rows[*row];
            let may_end = self.frames >= row.least;
            for line in &self.lines {
                row.noise_of(line, may_end, &mut numbers);
            }
            numbers.push(if may_end { 0.0 } else { 1.0 });
        }
        let shape = [active.len() as i64, total + 1];
        let all = upload_all(&numbers, self.device).view(shape);
        (all.narrow(1, 0, total), all.narrow(1, total, 1).gt(0.5))
    }

    /// Notes the drawn frame: [B, numbers].
    pub(super) fn end(&mut self, frame: &Tensor) {
        self.frames += 1;
        self.penalty.push(&self.lines, frame);
    }

    /// Keeps only these rows.
    pub(super) fn keep(&mut self, rows: &Tensor) {
        if let Some(source) = &mut self.source {
            source.keep(rows);
        }
        self.penalty.keep(rows);
    }
}
