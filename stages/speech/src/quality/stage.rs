//! The stages of the family `quality` for single items.

use std::sync::Arc;

use super::choose::kinds as choice;
use super::kinds;
use stage_core::{
    Context, Item, ItemJob, Job, NewValue, Output, Parameters, Reject, Setup, Stage, StageError,
    Value,
};

use super::compare::{Comparison, compare};
use super::frames;
use super::measure::{Quality, quality};
use super::pitch::Range;
use super::transcript::{self, Errors, errors};
use super::{choose, fit, gain, pair, regression};
use crate::audio::Note;
use crate::audio::decode::DecodeOptions;
use crate::audio::source::ClipSource;
use crate::numbers::rounded;
use crate::plain::{stage, unknown_choice};
use crate::speaker::{cosine, embedding};
use crate::text::normalize;
use crate::text::written;

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![
        stage(&kinds::MEASURE, open_measure),
        stage(&kinds::PAIR, pair::open),
        stage(&kinds::COMPARE, open_compare),
        stage(&kinds::CER, open_cer),
        stage(&kinds::SIMILARITY, |_, _| Ok(each(Similarity))),
        stage(&kinds::REGRESSION, regression::open),
        stage(&kinds::ALIGN, fit::open),
        stage(&choice::CHOOSE, choose::open),
        stage(&choice::GAIN, gain::open),
    ]
}

/// The reason why an item has no figures.
enum JudgeError {
    /// It is the item's fault.
    Reject(Reject),
    Stage(StageError),
}

impl From<Reject> for JudgeError {
    fn from(reject: Reject) -> JudgeError {
        JudgeError::Reject(reject)
    }
}

impl From<StageError> for JudgeError {
    fn from(error: StageError) -> JudgeError {
        JudgeError::Stage(error)
    }
}

impl From<crate::audio::Fault> for JudgeError {
    fn from(fault: crate::audio::Fault) -> JudgeError {
        JudgeError::Reject(fault.into())
    }
}

/// Computes the figures of one item.
trait Judge: Send + Sync {
    fn judge(&self, item: &Item, context: &mut dyn Context) -> Result<Output, JudgeError>;
}

struct ItemJudge<T>(T);

fn each(judge: impl Judge + 'static) -> Job {
    Job::Item(Box::new(ItemJudge(judge)))
}

impl<T: Judge> ItemJob for ItemJudge<T> {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let mut one = |item| match self.0.judge(item, context) {
            Ok(output) => Ok(Ok(output)),
            Err(JudgeError::Reject(reject)) => Ok(Err(reject)),
            Err(JudgeError::Stage(error)) => Err(error),
        };
        items.iter().map(&mut one).collect()
    }
}

/// Numbers as fields; missing measures are left out.
fn figures<const N: usize>(figures: [(&str, Option<f64>); N]) -> Output {
    let found = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let finite = found.filter(|(_, value)| value.is_finite());
    finite.fold(Output::default(), |output, (name, value)| {
        output.with(name, NewValue::Number(rounded(value)))
    })
}

fn range(parameters: &Parameters) -> Result<Range, StageError> {
    let (lowest, highest) = (parameters.number("lowest")?, parameters.number("highest")?);
    if lowest >= highest {
        return Err(StageError::with_help(
            format!("`lowest` = {lowest} Hz must be below `highest` = {highest} Hz"),
            "set the pitch range of the voice, such as 60 to 500 Hz",
        ));
    }
    Ok(Range { lowest, highest })
}

struct ClipMeasures(Range);

fn open_measure(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(each(ClipMeasures(range(&setup.parameters)?)))
}

impl Judge for ClipMeasures {
    fn judge(&self, item: &Item, context: &mut dyn Context) -> Result<Output, JudgeError> {
        let decoded = ClipSource::of(item, "audio", context)??.decode(&DecodeOptions::default())?;
        let Quality { levels, loudness, characters_per_second, pitch } =
            quality(decoded.clip, item.fields.text("text"), self.0)?;
        let mut output = figures([
            ("seconds", Some(levels.seconds)),
            ("silence_share", Some(levels.silence_share)),
            ("longest_silence", Some(levels.longest_silence_seconds)),
            ("clipped_share", Some(levels.clipped_share)),
            ("loudness", loudness),
            ("snr", levels.snr_db),
            ("flatness", levels.flatness),
            ("characters_per_second", characters_per_second),
            ("f0_median", pitch.median),
            ("f0_range", pitch.range),
            ("voiced_share", Some(pitch.voiced_share)),
        ]);
        for (code, count) in decoded.notes.iter().map(Note::tally) {
            output.note(code, count);
        }
        Ok(output)
    }
}

struct Compare {
    range: Range,
    options: DecodeOptions,
}

fn open_compare(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let mut options = DecodeOptions::default();
    options.limits.seconds = setup.parameters.seconds("longest")?;
    Ok(each(Compare { range: range(&setup.parameters)?, options }))
}

impl Judge for Compare {
    fn judge(&self, item: &Item, context: &mut dyn Context) -> Result<Output, JudgeError> {
        let mut samples = |field| -> Result<Vec<f64>, JudgeError> {
            let source = ClipSource::of(item, field, context)??;
            Ok(frames::samples(source.decode(&self.options)?.clip)?)
        };
        let (synthesis, reference) = (samples("audio")?, samples("reference_audio")?);
        let Comparison { mcd, f0_rmse, f0_correlation, voicing_difference, length_ratio } =
            compare(&synthesis, &reference, self.range);
        Ok(figures([
            ("mcd", Some(mcd)),
            ("f0_rmse", f0_rmse),
            ("f0_correlation", f0_correlation),
            ("voicing_difference", Some(voicing_difference)),
            ("length_ratio", Some(length_ratio)),
        ]))
    }
}

struct Cer {
    field: String,
    options: transcript::TranscriptOptions,
}

fn open_cer(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let text = normalize::NormalizeOptions {
        form: written::form(parameters)?,
        case: written::case(parameters)?,
        letters: written::letters(parameters)?,
        numbers: written::numbers(parameters)?,
        ..normalize::NormalizeOptions::default()
    };
    let punctuation = match parameters.text("punctuation")? {
        "keep" => true,
        "remove" => false,
        other => return Err(unknown_choice("punctuation", other)),
    };
    let field = parameters.text("transcript")?.to_owned();
    Ok(each(Cer { field, options: transcript::TranscriptOptions { text, punctuation } }))
}

impl Cer {
    fn heard(&self, item: &Item, context: &mut dyn Context) -> Result<String, JudgeError> {
        let field = &self.field;
        match item.fields.get(field) {
            Some(Value::Text(text)) => Ok(text.to_string()),
            Some(Value::Blob(blob)) => {
                let text = String::from_utf8(context.read(blob)?.to_vec()).map_err(|error| {
                    Reject::new("not-text", format!("the file in `{field}` is not UTF-8: {error}"))
                })?;
                Ok(text)
            }
            _ => {
                let reason = format!("the item has no field `{field}` with the recognised text");
                Err(Reject::new("no-transcript", reason).into())
            }
        }
    }
}

impl Judge for Cer {
    fn judge(&self, item: &Item, context: &mut dyn Context) -> Result<Output, JudgeError> {
        let heard = self.heard(item, context)?;
        let wanted = item.fields.text("text").unwrap_or_default();
        let found: Errors = errors(wanted, &heard, &self.options)
            .map_err(|unfit| Reject::new(unfit.code(), unfit.to_string()))?;
        let edits = found.characters;
        let counted = figures([
            ("cer", Some(found.cer())),
            ("wer", Some(found.wer())),
            ("substitutions", Some(edits.substitutions as f64)),
            ("insertions", Some(edits.insertions as f64)),
            ("deletions", Some(edits.deletions as f64)),
        ]);
        Ok(counted.with("heard", NewValue::Text(found.heard)))
    }
}

struct Similarity;

impl Judge for Similarity {
    fn judge(&self, item: &Item, context: &mut dyn Context) -> Result<Output, JudgeError> {
        let mut read = |field: &str| -> Result<Vec<f64>, JudgeError> {
            let Some(blob) = item.fields.blob(field) else {
                let reason = format!("the item has no field `{field}` that holds an embedding");
                return Err(Reject::new("no-embedding", reason).into());
            };
            let bytes = context.read(blob)?;
            let damaged = |reason: String| {
                Reject::new("damaged-embedding", format!("the embedding in `{field}` {reason}"))
            };
            Ok(embedding(&bytes).map_err(damaged)?)
        };
        let (own, other) = (read("embedding")?, read("reference_embedding")?);
        let found = cosine(&own, &other).ok_or_else(|| {
            let lengths = format!("of {} and {} numbers", own.len(), other.len());
            let reason = format!(
                "the embeddings {lengths} have no cosine: they are from different programs, or \
                 all zeros"
            );
            Reject::new("other-embedding", reason)
        })?;
        Ok(figures([("similarity", Some(found))]))
    }
}
