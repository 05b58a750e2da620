//! Pairs of latents and sound, made by a voice.

use stage_core::{Context, StageError};
use tch::{Device, Tensor};

use super::texts::SpokenText;
use super::trainee::PairBatch;
use crate::error::TorchError;
use crate::nn::conv::mask;
use crate::nn::random::{Random, scramble};
use crate::runtime::upload::StagedTensor;
use crate::train::order::{ClipEntry, Row};
use crate::train::run::{Data, Purpose};
use crate::vits::{Analysis, SeededNormal, SynthesisSettings, Vits, VitsConfig};

/// A voice that speaks for its own posterior encoder.
pub struct Speaker<'a> {
    pub voice: &'a Vits,
}

/// A sentence, on the CPU.
#[derive(Debug)]
struct Pair {
    key: u64,
    /// The latents [F, T] and the linear spectrogram [bins, T].
    latents: StagedTensor,
    linear: StagedTensor,
    frames: i64,
    speaker: Option<i64>,
}

#[derive(Debug)]
pub struct Pairs(Vec<Pair>);

impl Speaker<'_> {
    pub fn pairs(
        &self,
        texts: &[SpokenText],
        context: &mut dyn Context,
    ) -> Result<Pairs, StageError> {
        // The number of bands does not matter.
        let analysis = Analysis::new(&self.voice.config, 80, self.voice.device)?;
        let mut pairs = Vec::with_capacity(texts.len());
        for (done, text) in texts.iter().enumerate() {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            context.progress(done as u64, texts.len() as u64);
            pairs.push(self.pair(text, &analysis)?);
        }
        Ok(Pairs(pairs))
    }

    fn pair(&self, text: &SpokenText, analysis: &Analysis) -> Result<Pair, TorchError> {
        let own = SynthesisSettings::of(&self.voice.config);
        let settings = SynthesisSettings {
            noise_scale: text.noise_scale,
            speaking_rate: own.speaking_rate / text.length_scale,
            ..own
        };
        let texts = self.voice.texts(std::slice::from_ref(&text.tokens))?;
        let speaker = text.speaker.map(|speaker| vec![speaker]);
        let mut noise = SeededNormal::new(vec![text.key]);
        let speech = self.voice.speak(&texts, speaker.as_deref(), &settings, &mut noise)?;
        let _guard = tch::no_grad_guard();
        let wave = speech.waves[0].unsqueeze(0);
        let on_cpu = |x: Tensor| {
            let x = x.squeeze_dim(0).to_device(Device::Cpu).contiguous();
            StagedTensor::new(&x, false)
        };
        // A short sentence is continued by silence, so that its ends can be reflected.
        let missing = (analysis.margin() + 1 - wave.size()[1]).max(0);
        let linear = analysis.linear(&wave.constant_pad_nd([0, missing]))?;
        Ok(Pair {
            key: text.key,
            linear: on_cpu(linear.narrow(2, 0, speech.frames[0])),
            latents: on_cpu(speech.latents),
            frames: speech.frames[0],
            speaker: text.speaker,
        })
    }
}

impl Pairs {
    pub fn seconds(&self, config: &VitsConfig) -> f64 {
        let frames: i64 = self.0.iter().map(|pair| pair.frames).sum();
        (frames * config.hop()) as f64 / config.sampling_rate as f64
    }

    /// What the order of the sentences depends on; one that is spoken twice is two.
    pub fn entries(&self) -> Vec<ClipEntry> {
        let entry = |(at, pair): (usize, &Pair)| ClipEntry {
            id: format!("{at:06}"),
            length: pair.frames as usize,
            group: 0,
        };
        self.0.iter().enumerate().map(entry).collect()
    }

    /// Parts of this number of frames, for latents with this number of channels.
    pub fn data(&self, frames: i64, channels: i64) -> PairData<'_> {
        PairData { pairs: &self.0, frames, channels }
    }
}

/// Makes batches: parts of sentences for steps, whole held-out ones.
pub struct PairData<'a> {
    pairs: &'a [Pair],
    frames: i64,
    channels: i64,
}

impl PairData<'_> {
    fn part(&self, pair: &Pair, purpose: Purpose) -> [i64; 2] {
        match purpose {
            Purpose::HeldOut => [0, pair.frames],
            Purpose::Step { seed } => {
                let length = self.frames.min(pair.frames);
                let places = (pair.frames - length + 1) as f64;
                let fraction = Random::new(scramble(seed ^ scramble(pair.key))).fraction();
                [(fraction * places) as i64, length]
            }
        }
    }
}

impl Data<PairBatch> for PairData<'_> {
    fn batch(&self, rows: &[Row], purpose: Purpose) -> Result<PairBatch, TorchError> {
        let pairs: Vec<&Pair> = rows.iter().flatten().map(|at| &self.pairs[*at]).collect();
        let parts: Vec<[i64; 2]> = pairs.iter().map(|pair| self.part(pair, purpose)).collect();
        let lengths: Vec<i64> = parts.iter().map(|[_, length]| *length).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let cut = |of: fn(&Pair) -> &StagedTensor| {
            let rows = pairs.iter().zip(&parts).map(|(pair, [start, length])| {
                let whole = of(pair).upload(Device::Cpu);
                whole.narrow(1, *start, *length).constant_pad_nd([0, longest - length])
            });
            StagedTensor::new(&Tensor::stack(&rows.collect::<Vec<_>>(), 0), false)
        };
        Ok(PairBatch {
            latents: cut(|pair| &pair.latents),
            linears: cut(|pair| &pair.linear),
            mask: StagedTensor::new(&mask(&lengths, Device::Cpu), false),
            values: (self.channels * lengths.iter().sum::<i64>()) as u64,
            speakers: pairs.iter().map(|pair| pair.speaker).collect(),
        })
    }

    fn name(&self, clip: usize) -> String {
        format!("sentence {clip}")
    }
}
