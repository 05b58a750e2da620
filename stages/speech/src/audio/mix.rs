//! Mixes channels to one, packet by packet, so that memory only holds the result.

use super::clip::Samples;
use super::fault::Fault;

/// The treatment of several channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mix {
    #[default]
    Mean,
    Left,
    Right,
    /// Several channels are a fault.
    Reject,
    /// Channels stay as they are.
    Keep,
}

/// Below this correlation the mean of two channels cancels the voice.
pub const ANTI_PHASE: f64 = -0.5;

/// Mixes interleaved packets. One recording uses either `push_pcm` or `push_wide`.
pub struct Mixer {
    channels: usize,
    rule: Rule,
    pcm: Vec<i16>,
    wide: Vec<f32>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    Whole,
    Pick(usize),
    Mean,
}

impl Mixer {
    pub fn new(channels: u16, mix: Mix) -> Result<Self, Fault> {
        let rule = match mix {
            _ if channels <= 1 => Rule::Whole,
            Mix::Keep => Rule::Whole,
            Mix::Left => Rule::Pick(0),
            Mix::Right => Rule::Pick(1),
            Mix::Mean => Rule::Mean,
            Mix::Reject => return Err(Fault::Channels { found: channels }),
        };
        Ok(Self {
            channels: usize::from(channels.max(1)),
            rule,
            pcm: Vec::new(),
            wide: Vec::new(),
            phase: Phase::default(),
        })
    }

    pub fn channels_out(&self) -> u16 {
        match self.rule {
            Rule::Whole => self.channels as u16,
            _ => 1,
        }
    }

    /// The frames kept so far.
    pub fn frames(&self) -> usize {
        (self.pcm.len() + self.wide.len()) / usize::from(self.channels_out())
    }

    pub fn push_pcm(&mut self, interleaved: &[i16]) {
        self.phase.watch(self.channels, interleaved, f64::from);
        let frames = interleaved.chunks_exact(self.channels);
        match self.rule {
            Rule::Whole => self.pcm.extend_from_slice(interleaved),
            Rule::Pick(channel) => self.pcm.extend(frames.map(|frame| frame[channel])),
            // The mean of integers has fractions, which are rounded once, at the end.
            Rule::Mean => {
                let scale = 1.0 / (32_768.0 * self.channels as f64);
                let sum =
                    |frame: &[i16]| frame.iter().map(|&sample| i64::from(sample)).sum::<i64>();
                self.wide.extend(frames.map(|frame| (sum(frame) as f64 * scale) as f32));
            }
        }
    }

    pub fn push_wide(&mut self, interleaved: &[f32]) {
        self.phase.watch(self.channels, interleaved, f64::from);
        let frames = interleaved.chunks_exact(self.channels);
        match self.rule {
            Rule::Whole => self.wide.extend_from_slice(interleaved),
            Rule::Pick(channel) => self.wide.extend(frames.map(|frame| frame[channel])),
            Rule::Mean => {
                let scale = 1.0 / self.channels as f64;
                let sum =
                    |frame: &[f32]| frame.iter().map(|&sample| f64::from(sample)).sum::<f64>();
                self.wide.extend(frames.map(|frame| (sum(frame) * scale) as f32));
            }
        }
    }

    /// A whole recording at once; without a copy if there is nothing to mix.
    pub fn push_all(&mut self, samples: Samples) {
        match samples {
            Samples::Pcm(samples) if self.is_passing() => self.pcm = samples,
            Samples::Wide(samples) if self.is_passing() => self.wide = samples,
            Samples::Pcm(samples) => self.push_pcm(&samples),
            Samples::Wide(samples) => self.push_wide(&samples),
        }
    }

    fn is_passing(&self) -> bool {
        self.channels == 1 && self.pcm.is_empty() && self.wide.is_empty()
    }

    /// The mixed samples, and the correlation of left and right if there were two.
    pub fn finish(self) -> (Samples, Option<f64>) {
        let correlation = self.phase.correlation();
        if self.wide.is_empty() {
            (Samples::Pcm(self.pcm), correlation)
        } else {
            (Samples::Wide(self.wide), correlation)
        }
    }
}

/// Running sums for the correlation of the two channels of a stereo recording.
#[derive(Debug, Default)]
struct Phase {
    product: f64,
    left: f64,
    right: f64,
}

impl Phase {
    fn watch<T: Copy>(&mut self, channels: usize, interleaved: &[T], value: impl Fn(T) -> f64) {
        if channels != 2 {
            return;
        }
        for frame in interleaved.chunks_exact(2) {
            let (left, right) = (value(frame[0]), value(frame[1]));
            self.product += left * right;
            self.left += left * left;
            self.right += right * right;
        }
    }

    /// Between -1 and 1; None without exactly two channels, or if one of them is silent.
    fn correlation(&self) -> Option<f64> {
        let scale = (self.left * self.right).sqrt();
        (scale > 0.0).then(|| self.product / scale)
    }
}
