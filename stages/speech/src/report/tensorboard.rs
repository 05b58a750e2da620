//! The stage `report.tensorboard`: recordings in an event file.

use std::sync::Arc;

use crate::report::kinds;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, PortOutput, Setup, Stage,
    StageError,
};
use stage_formats::FormatError;
use stage_formats::tensorboard::{self, Audio, EventWriter, Moment};

use crate::audio::decode::{DecodeOptions, decode};
use crate::audio::wav;
use crate::plain;

pub fn stage() -> Arc<dyn Stage> {
    plain::stage(&kinds::TENSORBOARD, open)
}

struct Listening;

fn open(_: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Gather(Box::new(Listening)))
}

impl GatherJob for Listening {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let mut heard: Vec<EventRecording> =
            input.items("input")?.iter().map(EventRecording::of).collect();
        heard.sort_by(|one, other| (one.step, one.name).cmp(&(other.step, other.name)));
        let mut writer = EventWriter::new(Vec::new(), 0.0)?;
        texts(&heard, &mut writer)?;
        for heard in &heard {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            heard.write(&mut writer, context)?;
        }
        let events = NewValue::bytes(tensorboard::KIND, writer.finish()?);
        let values = vec![("events".to_owned(), events)];
        Ok(GatherOutput::default().with("output", PortOutput::Artifact(values)))
    }
}

/// A recording for the event file.
struct EventRecording<'a> {
    item: &'a Item,
    name: &'a str,
    step: u64,
}

impl EventRecording<'_> {
    fn of(item: &Item) -> EventRecording<'_> {
        let name = item.fields.text("sentence").unwrap_or(&item.id);
        let step = item.fields.number("step").unwrap_or(0.0).max(0.0) as u64;
        EventRecording { item, name, step }
    }

    fn write(
        &self,
        writer: &mut EventWriter<Vec<u8>>,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let unheard = |why: String| {
            StageError::failed(format!("the audio of `{}` cannot be shown: {why}", self.item.id))
        };
        let blob = self.item.fields.blob("audio").ok_or_else(|| unheard("there is none".into()))?;
        let bytes = context.read(blob)?;
        let clip = decode(&bytes, &DecodeOptions::default())
            .map_err(|fault| unheard(fault.to_string()))?
            .clip;
        let (rate, channels, frames) = (clip.rate, clip.channels, clip.frames() as u64);
        let (wav, _) = wav::write(clip).map_err(|fault| unheard(fault.to_string()))?;
        let audio = Audio { rate, channels, frames, wav: &wav };
        let at = Moment { step: self.step, seconds: self.step as f64 };
        Ok(writer.audio(at, self.name, audio)?)
    }
}

/// The texts, once for each sentence.
fn texts(
    heard: &[EventRecording<'_>],
    writer: &mut EventWriter<Vec<u8>>,
) -> Result<(), FormatError> {
    let said = heard.iter().filter_map(|heard| Some((heard.name, heard.item.fields.text("text")?)));
    let said: std::collections::BTreeMap<&str, &str> = said.collect();
    let at = Moment { step: 0, seconds: 0.0 };
    said.into_iter().try_for_each(|(name, text)| writer.text(at, name, text))
}
