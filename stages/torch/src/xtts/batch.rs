//! The input of one forward pass of training, as plain numbers: clips in packed rows.
//!
//! A row is the latents of the conditioning, then START and the text, then START and the codes, and
//! padding on the right. Positions have their own embeddings, so the index of a column in its row
//! does not matter, and plain causal attention is exact. The STOP of the text is a label and never
//! an input: the original masks it in training, too.

use std::ops::Range;

use crate::error::TorchError;
use crate::runtime::parity::Parity;
use crate::train::run::Purpose;
use stage_families::xtts::GptConfig;

/// The silence after the codes of a clip: the original appends three codes of silence and labels
/// them as the end.
pub const STOPS: usize = 3;

/// Samples per frame of the conditioning spectrogram.
const FRAME: usize = 256;

/// The layout of a row. Losses and gradients are the same for all layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowLayout {
    #[default]
    Packed,
    /// The layout of the original: padding after the text and after the codes, masked.
    Padded,
}

/// One clip.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GptClip {
    /// Token ids without START and STOP.
    pub text: Vec<i64>,
    /// Codes of the whole clip, one for each started block of `code_stride` samples.
    pub codes: Vec<i64>,
    /// The conditioning spectrogram, [mels, frames], with the same number of frames in all clips.
    pub mel: Vec<f32>,
    /// The samples that the conditioning was cut from: their codes are not labels. None if the
    /// conditioning comes from another clip.
    pub crop: Option<Range<usize>>,
}

/// Clips in rows.
#[derive(Clone, Debug, PartialEq)]
pub struct GptBatch {
    pub(super) rows: usize,
    /// The number of columns of a row.
    pub(super) length: usize,
    /// The spectrograms: [B, mels, frames].
    pub(super) mels: Vec<f32>,
    pub(super) text: LabelledTokens,
    pub(super) audio: LabelledTokens,
    /// The source of each column: an index into the latents of all clips, their text, their codes,
    /// or the zero row after these. [B, columns].
    pub(super) sources: Vec<i64>,
    /// True for attended columns, unless all previous ones are: [B, columns].
    pub(super) seen: Option<Vec<bool>>,
}

/// The tokens of all clips, concatenated, and the labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LabelledTokens<T = Vec<i64>> {
    pub(super) ids: T,
    pub(super) positions: T,
    /// The labelled columns of the batch, and their labels.
    pub(super) columns: T,
    pub(super) labels: T,
}

/// The settings for making batches.
#[derive(Clone, Copy, Debug)]
pub struct Packer<'a> {
    pub config: &'a GptConfig,
    pub parity: Parity,
    pub layout: RowLayout,
}

impl Packer<'_> {
    pub fn pack(&self, clips: &[&GptClip], purpose: Purpose) -> Result<GptBatch, TorchError> {
        clips.iter().try_for_each(|clip| self.check(clip))?;
        let mels = self.config.mels as usize;
        let values = clips.first().map_or(0, |clip| clip.mel.len());
        if values == 0
            || !values.is_multiple_of(mels)
            || clips.iter().any(|clip| clip.mel.len() != values)
        {
            let text = format!("a batch needs conditionings of {mels} bins and of one length");
            return Err(TorchError::Input(text));
        }
        let mut rows = BatchBuilder::new(self.config, self.layout, clips);
        for (row, clip) in clips.iter().enumerate() {
            rows.add(row, clip, self.ignored(clip, row + 1 == clips.len(), purpose));
        }
        let (mut batch, is_padded) = (rows.batch, rows.room.is_some());
        batch.seen = is_padded.then(|| batch.live(self.config).collect());
        Ok(batch)
    }

    fn check(&self, clip: &GptClip) -> Result<(), TorchError> {
        let config = self.config;
        for (what, ids, end, most) in [
            ("text tokens", &clip.text, config.text_tokens, config.max_text_tokens),
            ("codes", &clip.codes, config.start_audio_token, config.max_generated_tokens()),
        ] {
            check_ids("a clip has ", what, ids, end, most)?;
        }
        Ok(())
    }

    /// The codes that are no labels, since the conditioning was cut from them.
    fn ignored(&self, clip: &GptClip, is_last: bool, purpose: Purpose) -> Range<usize> {
        let Some(crop) = &clip.crop else { return 0..0 };
        let stride = self.config.code_stride as usize;
        match self.parity {
            Parity::Correct => crop.start / stride..crop.end.div_ceil(stride),
            // The original treats frames of the spectrogram as codes, in the last clip of a batch
            // only, and never in held-out clips.
            Parity::Upstream if is_last && matches!(purpose, Purpose::Step { .. }) => {
                crop.start / FRAME..crop.end / FRAME
            }
            Parity::Upstream => 0..0,
        }
    }
}

/// Refuses more ids than `most`, and ids outside of `0..end`. The message begins with `who`.
pub(super) fn check_ids(
    who: &str,
    what: &str,
    ids: &[i64],
    end: i64,
    most: i64,
) -> Result<(), TorchError> {
    let count = ids.len();
    if count as i64 > most {
        return Err(TorchError::Input(format!("{who}{count} {what}, expected at most {most}")));
    }
    match ids.iter().find(|id| !(0..end).contains(*id)) {
        Some(id) => Err(TorchError::Input(format!("{what} from 0 to {}, found {id}", end - 1))),
        None => Ok(()),
    }
}

/// START and the tokens.
fn text_columns(clip: &GptClip) -> usize {
    1 + clip.text.len()
}

/// START, the codes, and the silence after them.
fn audio_columns(clip: &GptClip) -> usize {
    1 + clip.codes.len() + STOPS
}

/// A batch while it is filled.
struct BatchBuilder<'a> {
    config: &'a GptConfig,
    batch: GptBatch,
    /// The number of text and code columns of a row, if all rows have the same.
    room: Option<[usize; 2]>,
    /// The offsets of text and of codes in the sources of columns.
    first: [usize; 2],
}

impl<'a> BatchBuilder<'a> {
    fn new(config: &'a GptConfig, layout: RowLayout, clips: &[&GptClip]) -> BatchBuilder<'a> {
        let latents = config.latents as usize;
        let sum =
            |count: fn(&GptClip) -> usize| clips.iter().map(|clip| count(clip)).sum::<usize>();
        let longest = |count: fn(&GptClip) -> usize| clips.iter().map(|clip| count(clip)).max();
        // The original also has STOP as an input, which is masked.
        let room = [text_columns, audio_columns].map(|count| longest(count).unwrap_or(0) + 1);
        let room = (layout == RowLayout::Padded).then_some(room);
        let length = latents
            + match room {
                Some([text, audio]) => text + audio,
                None => longest(|clip| text_columns(clip) + audio_columns(clip)).unwrap_or(0),
            };
        let text = clips.len() * latents;
        let audio = text + sum(text_columns);
        let nothing = audio + sum(audio_columns);
        let batch = GptBatch {
            rows: clips.len(),
            length,
            mels: clips.iter().flat_map(|clip| &clip.mel).copied().collect(),
            text: LabelledTokens::default(),
            audio: LabelledTokens::default(),
            sources: vec![nothing as i64; clips.len() * length],
            seen: None,
        };
        BatchBuilder { config, batch, room, first: [text, audio] }
    }

    fn add(&mut self, row: usize, clip: &GptClip, ignored: Range<usize>) {
        let config = self.config;
        let (latents, start) = (config.latents as usize, row * self.batch.length);
        self.fill(start, latents, row * latents);
        let mut text = vec![config.start_text_token];
        text.extend(&clip.text);
        text.push(config.stop_text_token);
        let mut audio = vec![config.start_audio_token];
        audio.extend(&clip.codes);
        audio.extend([config.stop_audio_token; STOPS + 1]);
        let [text_room, _] = self.room.unwrap_or([text.len() - 1, 0]);
        let at = start + latents;
        self.fill(at, text.len() - 1, self.first[0] + self.batch.text.ids.len());
        self.batch.text.add(&text, at, 0..0);
        let at = at + text_room;
        self.fill(at, audio.len() - 1, self.first[1] + self.batch.audio.ids.len());
        self.batch.audio.add(&audio, at, ignored);
    }

    /// Columns with the source rows `from` and the following ones.
    fn fill(&mut self, at: usize, count: usize, from: usize) {
        for (column, source) in (at..at + count).zip(from as i64..) {
            self.batch.sources[column] = source;
        }
    }
}

impl LabelledTokens {
    /// Converts each list.
    pub(super) fn each<T>(&self, to: impl Fn(&[i64]) -> T) -> LabelledTokens<T> {
        let (ids, positions) = (to(&self.ids), to(&self.positions));
        LabelledTokens { ids, positions, columns: to(&self.columns), labels: to(&self.labels) }
    }

    /// Each token of a clip except the last is an input, and the next one is its label.
    fn add(&mut self, tokens: &[i64], at: usize, ignored: Range<usize>) {
        for (place, pair) in tokens.windows(2).enumerate() {
            self.ids.push(pair[0]);
            self.positions.push(place as i64);
            if !ignored.contains(&place) {
                self.columns.push((at + place) as i64);
                self.labels.push(pair[1]);
            }
        }
    }
}

impl GptBatch {
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns, padding included.
    pub fn columns(&self) -> usize {
        self.rows * self.length
    }

    /// True for each column that is not padding.
    pub(super) fn live(&self, config: &GptConfig) -> impl Iterator<Item = bool> {
        let latents = self.rows * config.latents as usize;
        let nothing = (latents + self.text.ids.len() + self.audio.ids.len()) as i64;
        self.sources.iter().map(move |source| *source != nothing)
    }

    /// The number of labels of the text and of the codes.
    pub fn labels(&self) -> [usize; 2] {
        [self.text.labels.len(), self.audio.labels.len()]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_families::xtts::XttsConfig;

    use super::*;

    const STEP: Purpose = Purpose::Step { seed: 0 };

    fn config() -> GptConfig {
        GptConfig {
            latents: 2,
            mels: 1,
            text_tokens: 50,
            start_text_token: 49,
            start_audio_token: 32,
            stop_audio_token: 33,
            audio_tokens: 34,
            max_text_tokens: 8,
            max_audio_tokens: 20,
            ..XttsConfig::published().gpt
        }
    }

    fn clip(text: &[i64], codes: &[i64]) -> GptClip {
        GptClip { text: text.to_vec(), codes: codes.to_vec(), mel: vec![0.0; 3], crop: None }
    }

    fn pack(layout: RowLayout, parity: Parity, clips: &[GptClip], purpose: Purpose) -> GptBatch {
        let packer = Packer { config: &config(), parity, layout };
        packer.pack(&clips.iter().collect::<Vec<_>>(), purpose).unwrap()
    }

    fn packed(parity: Parity, clips: &[GptClip], purpose: Purpose) -> GptBatch {
        pack(RowLayout::Packed, parity, clips, purpose)
    }

    #[test]
    fn a_row_is_latents_text_and_codes_with_padding_on_the_right() {
        let clips = [clip(&[5, 6], &[7]), clip(&[8], &[])];
        let batch = packed(Parity::Correct, &clips, STEP);
        assert_eq!((batch.rows, batch.length, batch.seen), (2, 10, None));
        assert_eq!(batch.text.ids, [49, 5, 6, 49, 8]);
        assert_eq!(batch.text.positions, [0, 1, 2, 0, 1]);
        assert_eq!(batch.audio.ids, [32, 7, 33, 33, 33, 32, 33, 33, 33]);
        assert_eq!(batch.audio.positions, [0, 1, 2, 3, 4, 0, 1, 2, 3]);
        let first = [0, 1, 4, 5, 6, 9, 10, 11, 12, 13];
        let second = [2, 3, 7, 8, 14, 15, 16, 17, 18, 18];
        assert_eq!(batch.sources, [first, second].concat());
    }

    #[test]
    fn the_stop_of_the_text_is_learned_and_is_no_input() {
        let batch = packed(Parity::Correct, &[clip(&[5, 6], &[7])], STEP);
        assert_eq!(batch.text.labels, [5, 6, 0]);
        assert_eq!(batch.text.columns, [2, 3, 4]);
        assert!(!batch.text.ids.contains(&0));
        assert_eq!(batch.audio.labels, [7, 33, 33, 33, 33]);
        assert_eq!(batch.audio.columns, [5, 6, 7, 8, 9]);
    }

    #[test]
    fn the_original_layout_hides_the_padding_of_text_and_codes() {
        let clips = [clip(&[5, 6], &[7]), clip(&[8], &[])];
        let batch = pack(RowLayout::Padded, Parity::Correct, &clips, STEP);
        assert_eq!(batch.length, 2 + 4 + 6);
        let seen = |columns: &str| columns.chars().map(|one| one == 'x').collect::<Vec<_>>();
        assert_eq!(batch.seen.unwrap(), seen("xxxxx-xxxxx-xxxx--xxxx--"));
        assert_eq!(batch.text.columns, [2, 3, 4, 14, 15]);
        assert_eq!(batch.audio.columns, [6, 7, 8, 9, 10, 18, 19, 20, 21]);
    }

    fn cropped(crop: Range<usize>) -> GptClip {
        GptClip { crop: Some(crop), ..clip(&[5], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) }
    }

    #[test]
    fn codes_that_the_conditioning_was_cut_from_are_not_learned_in_any_clip() {
        let clips = [cropped(1500..3072), cropped(1024..5120)];
        for purpose in [STEP, Purpose::HeldOut] {
            let batch = packed(Parity::Correct, &clips, purpose);
            let stops = [33; 4];
            let first = [&[0, 3, 4, 5, 6, 7, 8, 9][..], &stops].concat();
            let second = [&[0, 5, 6, 7, 8, 9][..], &stops].concat();
            assert_eq!(batch.audio.labels, [first, second].concat());
        }
    }

    #[test]
    fn upstream_ignores_a_shifted_span_of_the_last_clip_and_nothing_of_held_out_clips() {
        let clips = [cropped(1500..3072), cropped(1024..3072)];
        let batch = packed(Parity::Upstream, &clips, STEP);
        let all = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 33, 33, 33, 33];
        assert_eq!(batch.audio.labels, [&all[..], &all[..4], &all[12..]].concat());
        let batch = packed(Parity::Upstream, &clips, Purpose::HeldOut);
        assert_eq!(batch.audio.labels, [all, all].concat());
    }

    #[test]
    fn clips_that_do_not_fit_are_refused() {
        let error = |clip: GptClip| {
            let packer =
                Packer { config: &config(), parity: Parity::Correct, layout: RowLayout::Packed };
            packer.pack(&[&clip], STEP).unwrap_err().to_string()
        };
        let long = error(clip(&[1; 9], &[]));
        assert!(long.contains("9 text tokens, expected at most 8"), "{long}");
        assert!(error(clip(&[], &[1; 18])).contains("18 codes, expected at most 17"));
        assert!(error(clip(&[50], &[])).contains("text tokens from 0 to 49, found 50"));
        assert!(error(clip(&[], &[32])).contains("codes from 0 to 31, found 32"));
        assert!(error(GptClip::default()).contains("conditionings"));
    }
}
