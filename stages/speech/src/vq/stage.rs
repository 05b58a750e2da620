//! The stage `vq.adopt`.

use std::sync::Arc;

use cache::{Digest, Hasher};
use stage_core::key::{HashSink, Sink};
use stage_core::{
    Context, EachItem, Item, Job, NewValue, Output, Parameters, Reject, Setup, Stage, StageError,
    Value,
};
use stage_families::kinds::vq as kinds;
use stage_formats::npy;

use super::adopt::{CodecSizes, Length};
use crate::audio::decode::DecodeOptions;
use crate::audio::{Clip, Samples, decode};
use crate::plain::{stage, unknown_choice};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![stage(&kinds::ADOPT, open)]
}

struct Adopt {
    codec: CodecSizes,
    /// Clips with unusable tokens are passed on without tokens.
    keeps_others: bool,
}

fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let codec = CodecSizes {
        rate: size(parameters, "rate")?,
        hop: size(parameters, "hop")?,
        codebooks: size(parameters, "codebooks")?,
        first_entries: size(parameters, "first_entries")?,
        entries: size(parameters, "entries")?,
    };
    let keeps_others = match parameters.text("others")? {
        "quarantine" => false,
        "keep" => true,
        other => return Err(unknown_choice("others", other)),
    };
    Ok(Job::Item(Box::new(Adopt { codec, keeps_others })))
}

fn size(parameters: &Parameters, name: &str) -> Result<u64, StageError> {
    Ok(parameters.integer(name)?.unsigned_abs())
}

impl EachItem for Adopt {
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError> {
        let Some(audio) = item.fields.blob("audio") else {
            let reason = "the item has no field `audio` that holds a recording";
            return Ok(Err(Reject::new("no-audio", reason)));
        };
        let Some(found) = item.fields.blob(kinds::FOUND_TOKENS) else {
            let reason = "this clip has no tokens: expected `ID.npy` in the folder that `tokens` \
                          of the corpus stage names";
            return Ok(self.other(Reject::new("no-tokens", reason)));
        };
        let clip = match decode(&context.read(audio)?, &DecodeOptions::default()) {
            Ok(decoded) => decoded.clip,
            Err(fault) => return Ok(Err(fault.into())),
        };
        let length = Length { samples: clip.frames() as u64, rate: u64::from(clip.rate) };
        let tokens = context.read(found)?;
        let frames = match self.frames(&tokens, length) {
            Ok(frames) => frames,
            Err(reject) => return Ok(self.other(reject)),
        };
        if is_of_another_recording(&item.id, &found.digest, &clip, context)? {
            let reason =
                "the recording changed, but its tokens are old: make them again, or remove them";
            return Ok(self.other(Reject::new("stale-tokens", reason)));
        }
        Ok(Ok(Output::default()
            .with("tokens", NewValue::Kept(Value::Blob(found.clone())))
            .with("frames", NewValue::Number(frames as f64))
            .with("adopted", NewValue::Text("yes".to_owned()))))
    }
}

impl Adopt {
    fn frames(&self, tokens: &[u8], length: Length) -> Result<u64, Reject> {
        let array = npy::read(tokens).map_err(|error| {
            Reject::new("unreadable-tokens", format!("the tokens cannot be read: {error}"))
        })?;
        let checked = self.codec.check(&array, length);
        checked.map_err(|mismatch| Reject::new(mismatch.code(), mismatch.to_string()))
    }

    /// The output for a clip with unusable tokens.
    fn other(&self, reject: Reject) -> Result<Output, Reject> {
        if !self.keeps_others {
            return Err(reject);
        }
        let mut output = Output::default().with("adopted", NewValue::Text("no".to_owned()));
        output.note(reject.code, 1);
        Ok(output)
    }
}

/// True if these tokens were adopted for another recording of the clip before. Then an equal length
/// proves nothing.
fn is_of_another_recording(
    clip: &str,
    tokens: &Digest,
    recording: &Clip,
    context: &mut dyn Context,
) -> Result<bool, StageError> {
    let mut sink = HashSink::default();
    sink.text("tokens adopted for", clip);
    sink.digest("tokens", tokens);
    let sound = sound_of(recording).to_string();
    Ok(context.remember_first(&sink.finish(), &sound)? != sound)
}

/// The digest of the decoded sound: another container or tag does not change it.
fn sound_of(clip: &Clip) -> Digest {
    let mut hasher = Hasher::default();
    hasher.update(&clip.rate.to_le_bytes());
    hasher.update(&clip.channels.to_le_bytes());
    let (name, bytes): (&[u8], Vec<u8>) = match &clip.samples {
        Samples::Pcm(samples) => {
            (b"i16", samples.iter().flat_map(|one| one.to_le_bytes()).collect())
        }
        Samples::Wide(samples) => {
            (b"f32", samples.iter().flat_map(|one| one.to_le_bytes()).collect())
        }
    };
    hasher.update(name).update(&bytes);
    hasher.finish()
}
