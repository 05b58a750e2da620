//! The filter of the resampler, which works on blocks of one channel.

use rubato::audioadapter_buffers::direct::SequentialSlice;
use rubato::{Fft, FixedSync, Resampler};

/// From one rate to another. It keeps the end of the last block.
pub struct Filter(Fft<f64>);

impl Filter {
    /// With these rates, and blocks of this many frames at the first rate. None if no filter fits them.
    pub fn new(from: u32, to: u32, block: usize) -> Option<Filter> {
        Fft::new(from as usize, to as usize, block, 1, FixedSync::Both).ok().map(Filter)
    }

    /// Forgets the last block.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// The number of frames by which the output is late.
    pub fn delay(&self) -> usize {
        self.0.output_delay()
    }

    /// Filters one block. None if the lengths are not those of the filter's blocks.
    pub fn run(&mut self, input: &[f64], output: &mut [f64]) -> Option<()> {
        let frames = output.len();
        let input = SequentialSlice::new(input, 1, input.len()).ok()?;
        let mut output = SequentialSlice::new_mut(output, 1, frames).ok()?;
        self.0.process_into_buffer(&input, &mut output, None).ok()?;
        Some(())
    }
}
