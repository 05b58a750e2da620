//! Samples that are stored one by one, read in bulk.

use super::block::Block;
use super::fault::ReadError;
use super::input::Input;
use super::note::Note;
use super::part::AudioFile;
use super::pcm::{Encoding, Order};
use std::collections::VecDeque;
use std::ops::Range;

/// The bytes of a file that are decoded at once.
const FILE_BYTES: u64 = 1 << 18;
/// The same for a file in memory: most clips are one block, which is not copied again.
const MEMORY_BYTES: u64 = 1 << 24;

pub struct PlainSamples {
    pub rate: u32,
    pub channels: u16,
    pub encoding: Encoding,
    pub order: Order,
    /// Whole frames that are still to be read.
    pub data: VecDeque<Range<u64>>,
    /// The end of the file.
    pub end: u64,
    pub notes: Vec<Note>,
}

impl PlainSamples {
    fn frame(&self) -> u64 {
        self.encoding.bytes() as u64 * u64::from(self.channels)
    }
}

impl AudioFile for PlainSamples {
    fn read(&mut self, input: &mut Input<'_>) -> Result<Option<Block>, ReadError> {
        let at_once = if input.is_in_memory() { MEMORY_BYTES } else { FILE_BYTES };
        let most = (at_once / self.frame()).max(1) * self.frame();
        let Some(data) = self.data.front_mut() else { return Ok(None) };
        let count = most.min(data.end - data.start);
        let bytes = input.part(data.start, count as usize)?;
        data.start += count;
        let samples = self.encoding.read(bytes, self.order);
        if data.is_empty() {
            self.data.pop_front();
        }
        Ok(Some(Block { rate: self.rate, channels: self.channels, samples }))
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    fn shape(&self) -> Option<(u32, u16)> {
        Some((self.rate, self.channels))
    }

    fn frame_bytes(&self) -> Option<u64> {
        Some(self.frame())
    }
}
