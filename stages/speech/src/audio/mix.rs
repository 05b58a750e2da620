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

/// The value of full scale in 16 bits.
const FULL_SCALE: f64 = 32_768.0;

/// Mixes interleaved packets.
pub struct Mixer {
    channels: usize,
    rule: MixRule,
    samples: Option<Samples>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum MixRule {
    Whole,
    Pick(usize),
    Mean,
}

impl Mixer {
    pub fn new(channels: u16, mix: Mix) -> Result<Self, Fault> {
        let rule = match mix {
            _ if channels <= 1 => MixRule::Whole,
            Mix::Keep => MixRule::Whole,
            Mix::Left => MixRule::Pick(0),
            Mix::Right => MixRule::Pick(1),
            Mix::Mean => MixRule::Mean,
            Mix::Reject => return Err(Fault::Channels { found: channels }),
        };
        Ok(Self {
            channels: usize::from(channels.max(1)),
            rule,
            samples: None,
            phase: Phase::default(),
        })
    }

    pub fn channels_out(&self) -> u16 {
        match self.rule {
            MixRule::Whole => self.channels as u16,
            _ => 1,
        }
    }

    /// The frames kept so far.
    pub fn frames(&self) -> usize {
        self.samples.as_ref().map_or(0, Samples::len) / usize::from(self.channels_out())
    }

    /// Takes interleaved samples; without a copy if there is nothing to mix.
    pub fn push(&mut self, samples: Samples) {
        match &samples {
            Samples::Pcm(samples) => {
                self.phase.watch(self.channels, samples, |sample| f64::from(sample) / FULL_SCALE);
            }
            Samples::Wide(samples) => self.phase.watch(self.channels, samples, f64::from),
        }
        let mixed = match (self.rule, samples) {
            (MixRule::Whole, samples) => samples,
            (MixRule::Pick(channel), Samples::Pcm(samples)) => {
                Samples::Pcm(self.pick(&samples, channel))
            }
            (MixRule::Pick(channel), Samples::Wide(samples)) => {
                Samples::Wide(self.pick(&samples, channel))
            }
            // The mean of integers has fractions, which are rounded once, at the end.
            (MixRule::Mean, Samples::Pcm(samples)) => {
                let scale = 1.0 / (FULL_SCALE * self.channels as f64);
                let sum =
                    |frame: &[i16]| frame.iter().map(|&sample| i64::from(sample)).sum::<i64>();
                let frames = samples.chunks_exact(self.channels);
                Samples::Wide(frames.map(|frame| (sum(frame) as f64 * scale) as f32).collect())
            }
            (MixRule::Mean, Samples::Wide(samples)) => {
                let scale = 1.0 / self.channels as f64;
                let sum =
                    |frame: &[f32]| frame.iter().map(|&sample| f64::from(sample)).sum::<f64>();
                let frames = samples.chunks_exact(self.channels);
                Samples::Wide(frames.map(|frame| (sum(frame) * scale) as f32).collect())
            }
        };
        match &mut self.samples {
            Some(samples) => samples.append(mixed),
            None => self.samples = Some(mixed),
        }
    }

    fn pick<T: Copy>(&self, samples: &[T], channel: usize) -> Vec<T> {
        samples.chunks_exact(self.channels).map(|frame| frame[channel]).collect()
    }

    /// The mixed samples, and the correlation of left and right if there were two.
    pub fn finish(self) -> (Samples, Option<f64>) {
        let samples = self.samples.unwrap_or(Samples::Pcm(Vec::new()));
        (samples, self.phase.correlation())
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
