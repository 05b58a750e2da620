//! A voice that is a graph: tokens in, samples out.

use camino::Utf8Path;
use stage_core::StageError;

use crate::decoder::DecoderStart;
use crate::interface::InputRole;
use crate::noise;
use crate::prepared::{DECODER, FIRST, GraphPlan, PreparedGraph};
use crate::session::{InputValue, OpenGraph, OutputValue};

/// The frames that the decoder gets at once: about two seconds. With more of them the memory grows, and the values
/// between two layers leave the caches of the processor; with fewer, overlaps are more of the work.
const FRAMES_AT_ONCE: usize = 192;
/// Numbers of a list of noise: enough for the frames of a minute before any is used twice.
const NOISE_FOR_A_TOKEN: usize = 192 * 4;
const MAX_NOISE: usize = 192 * 5_200;

/// A sentence for a voice.
#[derive(Clone, Debug, Default)]
pub struct Utterance {
    pub tokens: Vec<i64>,
    /// The number of the speaker, for voices with several.
    pub speaker: i64,
    pub noise_scale: f32,
    pub length_scale: f32,
    pub noise_scale_duration: f32,
    pub seed: u64,
}

/// An open voice.
pub struct GraphVoice {
    plan: GraphPlan,
    first: OpenGraph,
    decoder: Option<(DecoderStart, OpenGraph)>,
}

impl GraphVoice {
    /// Opens a graph, and prepares it in the folder `home` if it is new. The library is open.
    ///
    /// # Errors
    ///
    /// If it is damaged, or no graph of a voice.
    pub fn open(
        graph: &Utf8Path,
        home: &Utf8Path,
        threads: usize,
    ) -> Result<GraphVoice, StageError> {
        let prepared = PreparedGraph::find_or_make(graph, home)?;
        match GraphVoice::of(&prepared, threads) {
            Ok(voice) => Ok(voice),
            Err(_) => GraphVoice::of(&prepared.remake(graph)?, threads),
        }
    }

    fn of(prepared: &PreparedGraph, threads: usize) -> Result<GraphVoice, StageError> {
        let plan = prepared.plan.clone();
        let first = OpenGraph::open(&prepared.file(FIRST), threads)?;
        let decoder = match &plan.decoder {
            Some(start) => {
                Some((start.clone(), OpenGraph::open(&prepared.file(DECODER), threads)?))
            }
            None => None,
        };
        Ok(GraphVoice { plan, first, decoder })
    }

    /// The sampling rate in the metadata of the graph, if it tells one.
    pub fn sample_rate(&self) -> Option<u32> {
        self.plan.sample_rate
    }

    /// The samples of a sentence.
    ///
    /// # Errors
    ///
    /// If the tokens or the speaker are not those of the voice, or `is_stopping` is true.
    pub fn speak(
        &mut self,
        utterance: &Utterance,
        is_stopping: &dyn Fn() -> bool,
    ) -> Result<Vec<f32>, StageError> {
        let inputs = utterance.inputs(&self.plan.inputs)?;
        let made = self.first.run(inputs)?;
        let Some((start, decoder)) = &mut self.decoder else { return Ok(made.numbers) };
        let frames = Frames::of(made)?;
        let mut samples = Vec::with_capacity(frames.count * start.hop);
        for part in frames.parts(start.margin) {
            if is_stopping() {
                return Err(StageError::Stopped);
            }
            let mut inputs = utterance.inputs(&self.plan.decoder_inputs)?;
            inputs.push((&start.frames, frames.slice(part.with_margin.clone())));
            let decoded = decoder.run(inputs)?.numbers;
            let skipped = (part.own.start - part.with_margin.start) * start.hop;
            let own = skipped..skipped + part.own.len() * start.hop;
            let own = decoded.get(own).ok_or_else(|| StageError::failed("too few samples"))?;
            samples.extend_from_slice(own);
        }
        Ok(samples)
    }
}

impl Utterance {
    /// The values of inputs with these names.
    fn inputs<'a>(&self, names: &'a [String]) -> Result<Vec<(&'a str, InputValue)>, StageError> {
        names.iter().map(|name| Ok((name.as_str(), self.value(InputRole::of(name)?)))).collect()
    }

    fn value(&self, role: InputRole) -> InputValue {
        let count = self.tokens.len();
        let one = |value: f32| InputValue::Numbers(vec![value], vec![1]);
        match role {
            InputRole::Tokens => InputValue::Integers(self.tokens.clone(), vec![1, count]),
            InputRole::TokenCount => InputValue::Integers(vec![count as i64], vec![1]),
            InputRole::Scales => InputValue::Numbers(
                vec![self.noise_scale, self.length_scale, self.noise_scale_duration],
                vec![3],
            ),
            InputRole::NoiseScale => one(self.noise_scale),
            InputRole::LengthScale => one(self.length_scale),
            InputRole::NoiseScaleOfDurations => one(self.noise_scale_duration),
            InputRole::Speaker => InputValue::Integers(vec![self.speaker], vec![1]),
            InputRole::Noise(number) => {
                let wanted = (count * NOISE_FOR_A_TOKEN) as f32 * self.length_scale.max(1.0);
                let length = (wanted as usize).clamp(1, MAX_NOISE);
                InputValue::Numbers(noise::normal(self.noise_seed(number), length), vec![length])
            }
        }
    }

    /// The seed of a list of noise: another one for each text.
    fn noise_seed(&self, number: usize) -> u64 {
        let mut state = self.seed.wrapping_add(number as u64);
        for token in &self.tokens {
            state = noise::next(&mut state) ^ token.unsigned_abs();
        }
        noise::next(&mut state)
    }
}

/// The frames of a sentence: [C, T].
struct Frames {
    channels: usize,
    count: usize,
    numbers: Vec<f32>,
}

/// Frames that are decoded together, and those that are used of them.
#[derive(Debug, PartialEq)]
struct FrameRange {
    own: std::ops::Range<usize>,
    with_margin: std::ops::Range<usize>,
}

impl Frames {
    fn of(made: OutputValue) -> Result<Frames, StageError> {
        match made.shape[..] {
            [1, channels, count] => Ok(Frames { channels, count, numbers: made.numbers }),
            _ => Err(StageError::failed(format!("the frames have the shape {:?}", made.shape))),
        }
    }

    /// Parts of nearly equal length.
    fn parts(&self, margin: usize) -> Vec<FrameRange> {
        parts(self.count, margin)
    }

    fn slice(&self, range: std::ops::Range<usize>) -> InputValue {
        let mut numbers = Vec::with_capacity(self.channels * range.len());
        for channel in self.numbers.chunks_exact(self.count) {
            numbers.extend_from_slice(&channel[range.clone()]);
        }
        InputValue::Numbers(numbers, vec![1, self.channels, range.len()])
    }
}

fn parts(count: usize, margin: usize) -> Vec<FrameRange> {
    let pieces = count.div_ceil(FRAMES_AT_ONCE).max(1);
    let range = |at: usize| {
        let own = at * count / pieces..(at + 1) * count / pieces;
        let with_margin = own.start.saturating_sub(margin)..(own.end + margin).min(count);
        FrameRange { own, with_margin }
    };
    (0..pieces).map(range).filter(|range| !range.own.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn frames_are_decoded_once_each_and_with_their_margins() {
        for (count, pieces) in
            [(0, 0), (1, 1), (FRAMES_AT_ONCE, 1), (FRAMES_AT_ONCE + 1, 2), (1_000, 6)]
        {
            let parts = parts(count, 12);
            assert_eq!(parts.len(), pieces, "{count}");
            let own: Vec<usize> = parts.iter().flat_map(|part| part.own.clone()).collect();
            assert_eq!(own, (0..count).collect::<Vec<_>>());
            for FrameRange { own, with_margin } in parts {
                assert_eq!(with_margin.start, own.start.saturating_sub(12));
                assert_eq!(with_margin.end, (own.end + 12).min(count));
            }
        }
    }

    #[test]
    fn a_slice_of_frames_has_all_channels() {
        let frames = Frames { channels: 2, count: 3, numbers: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        let InputValue::Numbers(numbers, shape) = frames.slice(1..3) else { panic!() };
        assert_eq!((numbers, shape), (vec![2.0, 3.0, 5.0, 6.0], vec![1, 2, 2]));
    }

    #[test]
    fn noise_follows_from_the_seed_and_the_text() {
        let utterance = |seed, tokens: &[i64]| Utterance {
            seed,
            tokens: tokens.to_vec(),
            ..Utterance::default()
        };
        let noise = |utterance: Utterance, number| utterance.noise_seed(number);
        let first = noise(utterance(1, &[1, 2]), 0);
        assert_eq!(first, noise(utterance(1, &[1, 2]), 0));
        for other in [
            noise(utterance(2, &[1, 2]), 0),
            noise(utterance(1, &[2, 1]), 0),
            noise(utterance(1, &[1, 2]), 1),
        ] {
            assert_ne!(first, other);
        }
    }
}
