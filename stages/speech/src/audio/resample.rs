//! Resampling with one FFT filter for the whole clip: flat to 0.1 dB below the band edge, aliases
//! below -130 dB, no delay, exactly `ceil(frames * to / from)` frames. Computed in 64-bit floats
//! and rounded to 16 bits once, so that all machines get the same result.

use super::clip::{Clip, Samples, round};
use super::fault::Fault;
use stage_signal::Filter;
use std::cell::RefCell;

/// The number of resamplers that a thread keeps; building one costs as much as a second of audio.
const KEPT: usize = 4;

/// The longest filter block: rates without a large common factor would need megabytes.
const LONGEST_BLOCK: usize = 1 << 17;

thread_local! {
    static CONVERTERS: RefCell<Vec<Converter>> = const { RefCell::new(Vec::new()) };
}

/// A resampled clip, and the number of samples above full scale.
#[derive(Debug, Clone, PartialEq)]
pub struct ResampledClip {
    pub clip: Clip,
    pub clipped: u64,
}

/// The clip at rate `to`. A clip with this rate does not change.
pub fn resample(clip: Clip, to: u32) -> Result<ResampledClip, Fault> {
    if clip.rate == to {
        return Ok(ResampledClip { clip, clipped: 0 });
    }
    with_converter(clip.rate, to, |converter| {
        let (samples, clipped) = converter.convert_clip(&clip)?;
        Ok(ResampledClip {
            clip: Clip { rate: to, channels: clip.channels, samples: Samples::Pcm(samples) },
            clipped,
        })
    })
}

/// Runs `work` with this thread's converter for a pair of rates.
fn with_converter<T>(
    from: u32,
    to: u32,
    work: impl FnOnce(&mut Converter) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let found = CONVERTERS.with_borrow_mut(|kept| {
        let at = kept.iter().position(|one| (one.from, one.to) == (from, to))?;
        Some(kept.remove(at))
    });
    let mut converter = match found {
        Some(converter) => converter,
        None => Converter::new(from, to)?,
    };
    let result = work(&mut converter);
    CONVERTERS.with_borrow_mut(|kept| {
        kept.insert(0, converter);
        kept.truncate(KEPT);
    });
    result
}

/// Converts one pair of rates, one channel at a time.
pub struct Converter {
    from: u32,
    to: u32,
    filter: Filter,
    block_in: Vec<f64>,
    block_out: Vec<f64>,
}

impl Converter {
    pub fn new(from: u32, to: u32) -> Result<Self, Fault> {
        let (input, output) = block(from, to)?;
        let filter = Filter::new(from, to, input)
            .ok_or_else(|| fault(from, to, "no filter fits these rates"))?;
        Ok(Self { from, to, filter, block_in: vec![0.0; input], block_out: vec![0.0; output] })
    }

    /// The number of output frames for `frames`: rounded up.
    pub fn frames_out(&self, frames: usize) -> usize {
        let exact = frames as u128 * u128::from(self.to);
        exact.div_ceil(u128::from(self.from)) as usize
    }

    /// One channel in full precision.
    pub fn convert(&mut self, samples: &[f64]) -> Result<Vec<f64>, Fault> {
        let mut out = Vec::with_capacity(self.frames_out(samples.len()));
        self.run(
            samples.len(),
            |at, block| block.copy_from_slice(&samples[at..at + block.len()]),
            |block| out.extend_from_slice(block),
        )?;
        Ok(out)
    }

    fn convert_clip(&mut self, clip: &Clip) -> Result<(Vec<i16>, u64), Fault> {
        let mut clipped = 0;
        let channels = (0..usize::from(clip.channels))
            .map(|channel| self.convert_channel(clip, channel, &mut clipped))
            .collect::<Result<Vec<_>, Fault>>()?;
        Ok((interleave(channels), clipped))
    }

    fn convert_channel(
        &mut self,
        clip: &Clip,
        channel: usize,
        clipped: &mut u64,
    ) -> Result<Vec<i16>, Fault> {
        let mut out = Vec::with_capacity(self.frames_out(clip.frames()));
        self.run(
            clip.frames(),
            |at, block| read(clip, channel, at, block),
            |block| out.extend(block.iter().map(|&sample| round(sample, clipped))),
        )?;
        Ok(out)
    }

    /// Block by block, so that the required memory does not grow with the clip: the filter's delay
    /// is dropped from the start, zeros are fed after the end.
    fn run(
        &mut self,
        frames: usize,
        mut read: impl FnMut(usize, &mut [f64]),
        mut write: impl FnMut(&[f64]),
    ) -> Result<(), Fault> {
        self.filter.reset();
        let mut skip = self.filter.delay();
        let mut left = self.frames_out(frames);
        let mut at = 0;
        while left > 0 {
            let count = self.block_in.len().min(frames - at);
            let (fresh, padding) = self.block_in.split_at_mut(count);
            read(at, fresh);
            padding.fill(0.0);
            at += count;
            self.step()?;
            let ready = &self.block_out[skip..];
            skip = 0;
            let ready = &ready[..ready.len().min(left)];
            write(ready);
            left -= ready.len();
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Fault> {
        let done = self.filter.run(&self.block_in, &mut self.block_out);
        done.ok_or_else(|| fault(self.from, self.to, "a block does not fit the filter"))
    }
}

/// One channel of `clip` from frame `at` on, full scale at 1.
fn read(clip: &Clip, channel: usize, at: usize, block: &mut [f64]) {
    let channels = usize::from(clip.channels);
    let start = at * channels + channel;
    match &clip.samples {
        Samples::Pcm(samples) => {
            spread(&samples[start..], channels, block, |sample| f64::from(sample) / 32_768.0);
        }
        Samples::Wide(samples) => spread(&samples[start..], channels, block, f64::from),
    }
}

fn spread<T: Copy>(samples: &[T], step: usize, block: &mut [f64], value: impl Fn(T) -> f64) {
    // With a step of one that the compiler knows, it vectorises the loop.
    if step == 1 {
        block.iter_mut().zip(samples).for_each(|(place, &sample)| *place = value(sample));
    } else {
        let samples = samples.iter().step_by(step);
        block.iter_mut().zip(samples).for_each(|(place, &sample)| *place = value(sample));
    }
}

fn interleave(mut channels: Vec<Vec<i16>>) -> Vec<i16> {
    if channels.len() == 1 {
        return channels.swap_remove(0);
    }
    let frames = channels.first().map_or(0, Vec::len);
    (0..frames).flat_map(|at| channels.iter().map(move |channel| channel[at])).collect()
}

/// The block sizes of the filter at both rates. The block is a power of two, at least 2, times the
/// smallest block that is whole at both rates: an odd multiple would shift the clip by a fraction
/// of a sample, and other factors make the transform slow. The filter is as long as the input
/// block: with 640 frames at the lower rate it is flat to 0.01 dB at 7.7 of 8 kHz, with 512 no
/// longer to 0.1 dB. Longer ones cost time, and those of more than 2,048 frames let the stop band
/// rise.
fn block(from: u32, to: u32) -> Result<(usize, usize), Fault> {
    const SHORTEST: usize = 640;
    if from == 0 || to == 0 {
        return Err(fault(from, to, "a rate of 0 Hz"));
    }
    let divisor = greatest_common_divisor(from, to);
    let (input, output) = ((from / divisor) as usize, (to / divisor) as usize);
    let mut multiple = 2;
    while input.min(output) * multiple < SHORTEST {
        multiple *= 2;
    }
    if input.max(output) * multiple > LONGEST_BLOCK {
        return Err(fault(from, to, "the rates have no common factor that is large enough"));
    }
    Ok((input * multiple, output * multiple))
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        b => greatest_common_divisor(b, a % b),
    }
}

fn fault(from: u32, to: u32, problem: &str) -> Fault {
    Fault::Resample { from, to, problem: problem.to_owned() }
}
