//! `my.whisper`: an item stage that makes clips quieter, as an example to change.
//!
//! A stage has two parts. Its [`Kind`] describes inputs, outputs and parameters; the checks of the
//! manifest, the documentation and the keys follow from it, without running any code. Its [`Stage`]
//! opens a job, and the job turns each item into an output or a reason to quarantine it.

use std::io::Cursor;

use stage_core::{
    Context, Default, EachItem, FieldSet, FieldType, InputPort, Item, Job, Kind, NewValue, Output,
    OutputPort, Parameter, ParameterType, Reject, Setup, Stage, StageError,
};

/// The field that is read and written.
const AUDIO: &[(&str, FieldType)] = &[("audio", FieldType::Blob)];

static KIND: Kind = Kind {
    // The family separates names of different authors.
    name: "my.whisper",
    // Raise it when the same clip and parameters give other samples: then stored results are made
    // again, and nothing else is.
    version: 1,
    summary: "Makes clips quieter.",
    doc: "Reads 16-bit WAV, such as `audio.resample` writes.",
    // Only the listed fields are visible, and only they are in the key: a changed transcript causes
    // no work here.
    inputs: &[InputPort { reads: FieldSet::These(AUDIO), doc: "Clips.", ..InputPort::DATASET }],
    // The other fields of the clips are passed on.
    outputs: &[OutputPort { writes: AUDIO, doc: "The quieter clips.", ..OutputPort::DATASET }],
    parameters: &[Parameter {
        name: "quieter_by_db",
        parameter_type: ParameterType::Number { min: 0.0, max: 60.0 },
        default: Default::Number(20.0),
        doc: "How much quieter the clips become, in decibels.",
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

pub struct WhisperStage;

impl Stage for WhisperStage {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    /// Called once before the first clip, and not at all if there is nothing to do: the place to
    /// load models.
    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let decibels = setup.parameters.number("quieter_by_db")?;
        Ok(Job::Item(Box::new(WhisperWork { gain: 10_f64.powf(-decibels / 20.0) })))
    }
}

struct WhisperWork {
    gain: f64,
}

impl EachItem for WhisperWork {
    /// The outer error ends the stage; the inner one quarantines a single clip and is recorded.
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError> {
        let Some(blob) = item.fields.blob("audio") else {
            return Ok(Err(Reject::new("no-audio", "the item has no field `audio` with bytes")));
        };
        let bytes = context.read(blob)?;
        let made = self.quieter(&bytes).map_err(|error| {
            Reject::new("unreadable", format!("the clip is no 16-bit WAV file: {error}"))
        });
        Ok(made.map(|wav| Output::default().with("audio", NewValue::bytes("audio/wav", wav))))
    }
}

impl WhisperWork {
    fn quieter(&self, wav: &[u8]) -> Result<Vec<u8>, hound::Error> {
        let mut reader = hound::WavReader::new(wav)?;
        let mut made = Cursor::new(Vec::with_capacity(wav.len()));
        let mut writer = hound::WavWriter::new(&mut made, reader.spec())?;
        for sample in reader.samples::<i16>() {
            // The gain is at most one, so the product fits.
            writer.write_sample((f64::from(sample?) * self.gain).round() as i16)?;
        }
        writer.finalize()?;
        Ok(made.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use stage_core::{Blob, Detached, Digest, ParameterValue, Parameters, Value};

    use super::*;

    fn wav(samples: &[i16]) -> Vec<u8> {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: 16_000,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
        samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
        writer.finalize().unwrap();
        bytes.into_inner()
    }

    /// The output for one clip.
    fn made_of(clip: &[u8]) -> Result<Output, Reject> {
        let decibels = ("quieter_by_db".to_owned(), ParameterValue::Number(20.0));
        let setup = Setup { parameters: Parameters([decibels].into()), ..Setup::default() };
        let mut context = Detached::holding(clip.to_vec());
        let Ok(Job::Item(job)) = WhisperStage.open(setup, &mut context) else { panic!("no job") };
        let (digest, size) = (Digest::of(clip), clip.len() as u64);
        let blob = Value::Blob(Blob { digest, size, kind: "audio/wav".into() }.into());
        let item = Item::new("clip", [("audio", blob)].into_iter().collect());
        job.process(&[item], &mut context).unwrap().remove(0)
    }

    #[test]
    fn a_clip_becomes_quieter() {
        let quieter = NewValue::bytes("audio/wav", wav(&[100, -200]));
        let expected = Output::default().with("audio", quieter);
        assert_eq!(made_of(&wav(&[1_000, -2_000])), Ok(expected));
    }

    #[test]
    fn bytes_that_are_no_clip_are_quarantined_with_a_reason() {
        assert_eq!(made_of(b"no sound").unwrap_err().code, "unreadable");
    }
}
