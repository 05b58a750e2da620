//! Decoded samples on their way from a container to the recording.

use super::clip::Samples;

/// Whole frames that were decoded at once, channels interleaved.
pub struct Block {
    pub rate: u32,
    pub channels: u16,
    pub samples: Samples,
}

impl Block {
    pub fn empty(rate: u32, channels: u16) -> Block {
        Block { rate, channels, samples: Samples::Pcm(Vec::new()) }
    }

    pub fn frames(&self) -> u64 {
        (self.samples.len() / usize::from(self.channels.max(1))) as u64
    }

    /// Removes frames at the start; returns their number.
    pub fn drop_start(&mut self, frames: u64) -> u64 {
        let dropped = frames.min(self.frames());
        let count = dropped as usize * usize::from(self.channels);
        self.samples.keep(count..self.samples.len());
        dropped
    }

    /// Removes frames at the end; returns their number.
    pub fn drop_end(&mut self, frames: u64) -> u64 {
        let dropped = frames.min(self.frames());
        let count = dropped as usize * usize::from(self.channels);
        self.samples.keep(0..self.samples.len() - count);
        dropped
    }
}

/// The frames at the end of a recording that may be padding: only the end shows if they are.
pub struct PaddingTail {
    frames: u64,
    held: Option<Block>,
}

impl PaddingTail {
    /// Holds this number of frames back.
    pub fn new(frames: u64) -> PaddingTail {
        PaddingTail { frames, held: None }
    }

    /// Takes a block, and returns the frames that are certainly not in the tail.
    pub fn pass(&mut self, block: Block) -> Block {
        if self.frames == 0 {
            return block;
        }
        let mut all = match self.held.take() {
            Some(mut held) => {
                held.samples.append(block.samples);
                held
            }
            None => block,
        };
        let free = all.frames().saturating_sub(self.frames) as usize * usize::from(all.channels);
        let samples = all.samples.split_off(free);
        self.held = Some(Block { samples, ..all });
        all
    }

    /// The frames held back.
    pub fn take(&mut self) -> Option<Block> {
        self.held.take()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn block(samples: std::ops::Range<i16>) -> Block {
        Block { rate: 8_000, channels: 2, samples: Samples::Pcm(samples.collect()) }
    }

    #[test]
    fn a_tail_holds_the_last_frames_and_passes_the_others_in_order() {
        let mut tail = PaddingTail::new(3);
        let mut passed = Samples::Pcm(Vec::new());
        for range in [0..4, 4..20, 20..22, 22..40] {
            passed.append(tail.pass(block(range)).samples);
        }
        assert_eq!(passed, Samples::Pcm((0..34).collect()));
        assert_eq!(tail.take().unwrap().samples, Samples::Pcm((34..40).collect()));
    }

    #[test]
    fn frames_are_dropped_at_both_ends_as_far_as_there_are_any() {
        let mut block = block(0..10);
        assert_eq!((block.drop_start(1), block.drop_end(2)), (1, 2));
        assert_eq!(block.samples, Samples::Pcm((2..6).collect()));
        assert_eq!((block.drop_start(9), block.drop_end(9)), (2, 0));
    }
}
