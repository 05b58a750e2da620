//! Training clips of a model, from the texts and tokens that arrive.

use stage_core::{Context, Item, Reject, StageError};
use stage_families::dual_ar::clip_identity;

use super::vocabulary::Vocabulary;
use crate::dual_ar::prompt::{PromptFormat, Script, SpokenText};
use crate::dual_ar::{ClipColumns, DualArBatch};
use crate::error::TorchError;
use crate::npy;
use crate::train::clips::{self, Clips, Sides, TrainingClip, begin};
use crate::train::order::{ClipEntry, Row};
use crate::train::run::{Data, Purpose};

/// A tokenized clip with its labels.
pub type FishClip = TrainingClip<ClipColumns>;

pub type FishClips = Clips<ClipColumns>;

/// The settings for reading clips.
pub struct FishReading<'a> {
    pub vocabulary: &'a Vocabulary,
    pub format: PromptFormat,
    pub max_length: usize,
}

impl FishReading<'_> {
    /// Reads the training clips, and the held-out ones if they are given; else a share is held out.
    pub fn clips(
        &self,
        sides: &Sides<'_>,
        context: &mut dyn Context,
    ) -> Result<FishClips, StageError> {
        let mut clips = sides.clips(|item, _| {
            let clip = self.clip(item, context)?;
            Ok(if clip.entry.length > self.max_length {
                Err(self.too_long(&clip))
            } else {
                Ok(clip)
            })
        })?;
        std::mem::take(&mut clips.aside).tell(context)?;
        Ok(clips)
    }

    fn too_long(&self, clip: &FishClip) -> Reject {
        let reason = format!(
            "the clip needs {} positions, but a row has {}: raise `max_length` if the model \
             allows it, or cut the recording",
            clip.entry.length, self.max_length
        );
        Reject::new("too-long", reason)
    }

    fn clip(&self, item: &Item, context: &mut dyn Context) -> Result<FishClip, StageError> {
        let missing = |field: &str| clips::missing(item, field);
        let text = item.fields.text("text").ok_or_else(|| missing("text"))?;
        let blob = item.fields.blob("tokens").ok_or_else(|| missing("tokens"))?;
        let codes = npy::read(&context.read(blob)?);
        let codes = codes.and_then(|codes| {
            self.vocabulary.check_codes(&codes)?;
            Ok(codes)
        });
        let codes = codes.map_err(|error| unusable(text, &error.to_string()))?;
        let codes: Vec<i32> = codes.values.iter().map(|code| i32::from(*code)).collect();
        let columns =
            script(self.vocabulary).clip(self.format, &SpokenText { text, codes: &codes })?;
        let length = columns.tokens.len() / (self.vocabulary.codebooks() + 1);
        let id = clip_identity(text, &blob.digest).to_string();
        let entry = ClipEntry { id, length, group: 0 };
        Ok(FishClip { entry, begin: begin(text), content: columns })
    }
}

pub fn script(vocabulary: &Vocabulary) -> Script<'_, Vocabulary> {
    Script::new(vocabulary, vocabulary.tokens(), vocabulary.codebooks())
}

fn unusable(text: &str, why: &str) -> StageError {
    let begin = begin(text);
    StageError::with_help(
        format!("the clip with the text `{begin}` does not fit the model: {why}"),
        "encode the clips with the codec that the model was made for",
    )
}

/// Makes batches of clips.
pub struct FishData<'a> {
    clips: &'a [FishClip],
    codebooks: usize,
    pad: i64,
}

impl<'a> FishData<'a> {
    pub fn new(clips: &'a FishClips, vocabulary: &Vocabulary) -> FishData<'a> {
        FishData { clips: &clips.clips, codebooks: vocabulary.codebooks(), pad: vocabulary.pad() }
    }
}

impl Data<DualArBatch> for FishData<'_> {
    fn batch(&self, rows: &[Row], _: Purpose) -> Result<DualArBatch, TorchError> {
        let clips = |row: &Row| row.iter().map(|clip| &self.clips[*clip].content).collect();
        let rows: Vec<Vec<&ClipColumns>> = rows.iter().map(clips).collect();
        DualArBatch::new(self.codebooks, &rows, self.pad as i32)
    }

    fn name(&self, clip: usize) -> String {
        self.clips[clip].begin.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use stage_core::Value;
    use stage_families::dual_ar::CLIP_SALT;

    use super::*;
    use crate::fish::testing::{codes, vocabulary};
    use crate::testing::Bench;

    fn item(bench: &mut Bench, text: &str, first: u16) -> Item {
        let tokens = npy::write(&codes(&[[first, 2], [3, 4], [5, 6]])).unwrap();
        let mut item = bench.item(0, "tokens", npy::KIND, &tokens);
        item.fields.set("text", Value::text(text));
        item
    }

    fn read(
        bench: &mut Bench,
        training: &[Item],
        validation: Option<&[Item]>,
        fraction: f64,
    ) -> Result<FishClips, StageError> {
        let vocabulary = vocabulary();
        let reading = FishReading {
            vocabulary: &vocabulary,
            format: PromptFormat::Interleave,
            max_length: 40,
        };
        reading.clips(&Sides { training, validation, fraction, salt: CLIP_SALT }, bench)
    }

    #[test]
    fn a_clip_on_both_sides_is_held_out_and_one_that_comes_twice_counts_once() {
        let mut bench = Bench::default();
        let training =
            [item(&mut bench, "a", 1), item(&mut bench, "b", 1), item(&mut bench, "b", 1)];
        let clips = read(&mut bench, &training, Some(&training[..1]), 0.5).unwrap();
        assert_eq!(clips.held_out, [true, false]);
        let notes = &clips.notes;
        assert_eq!(notes.of("duplicate clips, left out"), 2);
        assert_eq!((notes.of("clips held out"), notes.of("clips trained on")), (1, 1));
    }

    #[test]
    fn a_held_out_clip_with_the_sound_of_a_training_clip_is_noted_by_name() {
        let mut bench = Bench::default();
        let named = |item: Item, id: &str| Item { id: id.into(), ..item };
        let trained = named(item(&mut bench, "a", 1), "one");
        let repeated = named(item(&mut bench, "b", 1), "again");
        let other = named(item(&mut bench, "c", 7), "other");
        let note = "held out with the sound of a training clip (`again` is `one`)";
        let clips =
            read(&mut bench, std::slice::from_ref(&trained), Some(&[repeated, other.clone()]), 0.0);
        assert_eq!(clips.unwrap().notes.of(note), 1);
        let clips = read(&mut bench, &[trained], Some(&[other]), 0.0).unwrap();
        assert!(!clips.notes.0.iter().any(|(what, _)| what.starts_with("held out with")));
    }

    #[test]
    fn clips_that_are_too_long_are_set_aside_by_their_place() {
        let mut bench = Bench::default();
        let long = "sana ".repeat(9);
        let training = [item(&mut bench, "a", 1), item(&mut bench, &long, 1)];
        let validation = [item(&mut bench, &long, 2), item(&mut bench, "b", 1)];
        let clips = read(&mut bench, &training, Some(&validation), 0.5).unwrap();
        assert_eq!(clips.held_out, [true, false]);
        let places: Vec<(&str, usize, &str)> = bench
            .aside
            .iter()
            .map(|(port, place, reject)| (port.as_str(), *place, reject.code.as_str()))
            .collect();
        assert_eq!(places, [("validation", 0, "too-long"), ("input", 1, "too-long")]);
        let reason = &bench.aside[0].2.reason;
        assert!(reason.contains("a row has 40: raise `max_length`"), "{reason}");
    }

    #[test]
    fn held_out_clips_stay_held_out_when_others_come_or_go() {
        let mut bench = Bench::default();
        let items: Vec<Item> =
            (0..20).map(|at| item(&mut bench, &format!("text {at}"), at)).collect();
        let held = |clips: FishClips| -> BTreeSet<String> {
            let clips = clips.clips.into_iter().zip(clips.held_out);
            clips.filter(|(_, held)| *held).map(|(clip, _)| clip.entry.id).collect()
        };
        let all = held(read(&mut bench, &items, None, 0.3).unwrap());
        let some = held(read(&mut bench, &items[..12], None, 0.3).unwrap());
        assert!(!some.is_empty() && some.is_subset(&all), "{some:?} {all:?}");
        assert!(held(read(&mut bench, &items, None, 0.0).unwrap()).is_empty());
    }

    #[test]
    fn clips_too_long_are_left_out_and_tokens_of_another_codec_stop_the_training() {
        let mut bench = Bench::default();
        let long = item(&mut bench, "a text that is a little too long for the row", 1);
        let clips = read(&mut bench, &[long], None, 0.0).unwrap();
        assert_eq!(clips.clips.len(), 0);
        let other = item(&mut bench, "other", 99);
        let error = read(&mut bench, &[other], None, 0.0).unwrap_err();
        let expected = "the clip with the text `other` does not fit the model: its tokens have \
                        the code 99, but the model has 24 entries per codebook";
        assert_eq!(error.to_string(), expected);
        assert!(error.help().unwrap().contains("with the codec"));
    }
}
