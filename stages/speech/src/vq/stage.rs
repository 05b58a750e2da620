//! The stage `vq.adopt`.

use std::sync::Arc;

use stage_core::catalogue::vq as kinds;
use stage_core::{
    Context, Item, ItemJob, Job, NewValue, Output, Parameters, Reject, Setup, Stage, StageError,
    Value,
};
use stage_formats::npy;

use super::adopt::{Codec, Length};
use crate::audio;
use crate::plain::{stage, unknown_choice};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![stage(&kinds::ADOPT, open)]
}

struct Adopt {
    codec: Codec,
    /// Clips whose tokens cannot be adopted go on without any.
    keeps_others: bool,
}

fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let codec = Codec {
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

impl ItemJob for Adopt {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        items.iter().map(|item| self.one(item, context)).collect()
    }
}

impl Adopt {
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
            let reason = "no tokens were found for this clip, which lie as `ID.npy` in the folder \
                          that the corpus stage names with `tokens`";
            return Ok(self.other(Reject::new("no-tokens", reason)));
        };
        let length = match length(&context.read(audio)?) {
            Ok(length) => length,
            Err(reject) => return Ok(Err(reject)),
        };
        let tokens = context.read(found)?;
        Ok(match self.frames(&tokens, length) {
            Err(reject) => self.other(reject),
            Ok(frames) => Ok(Output::default()
                .with("tokens", NewValue::Kept(Value::Blob(found.clone())))
                .with("frames", NewValue::Number(frames as f64))
                .with("adopted", NewValue::Text("yes".to_owned()))),
        })
    }

    fn frames(&self, tokens: &[u8], length: Length) -> Result<u64, Reject> {
        let array = npy::read(tokens).map_err(|error| {
            Reject::new("unreadable-tokens", format!("the tokens cannot be read: {error}"))
        })?;
        let checked = self.codec.check(&array, length);
        checked.map_err(|mismatch| Reject::new(mismatch.code(), mismatch.to_string()))
    }

    /// What becomes of a clip whose tokens cannot be adopted.
    fn other(&self, reject: Reject) -> Result<Output, Reject> {
        if !self.keeps_others {
            return Err(reject);
        }
        let mut output = Output::default().with("adopted", NewValue::Text("no".to_owned()));
        output.note(reject.code, 1);
        Ok(output)
    }
}

fn length(bytes: &[u8]) -> Result<Length, Reject> {
    let clip = audio::decode(bytes, &audio::decode::Options::default())
        .map_err(|fault| Reject::new(fault.code(), fault.to_string()))?
        .clip;
    Ok(Length { samples: clip.frames() as u64, rate: u64::from(clip.rate) })
}
