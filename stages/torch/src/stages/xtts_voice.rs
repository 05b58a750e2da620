//! `xtts.voice`: the voice of an XTTS model.

use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, Parameters,
    PortOutput, Reject, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::xtts::{SPEAKERS_FILE, Speakers, speech};
use stage_formats::WeightFile;
use tch::Device;

use super::arrived::check_rate;
use crate::device::Machine;
use crate::error::TorchError;
use crate::sound::wave;
use crate::tune::Base;
use crate::xtts::artifact::XttsModel;
use crate::xtts::voice::{LATENTS, ReferenceLengths, VECTOR, VoiceEncoder};

pub struct XttsVoice {
    pub machine: Machine,
}

impl Stage for XttsVoice {
    fn kind(&self) -> &'static Kind {
        &speech::VOICE
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let device = self.machine.open(setup.device)?;
        Ok(Job::Gather(Box::new(VoiceJob { parameters: setup.parameters, device })))
    }
}

struct VoiceJob {
    parameters: Parameters,
    device: Device,
}

impl GatherJob for VoiceJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        self.make(&input, context)
    }
}

impl VoiceJob {
    fn make(
        &self,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let model = XttsModel::read("model", input.artifact("model"), context)?;
        let speaker = self.parameters.if_set("speaker", Parameters::text)?;
        let has_references =
            ["input", "reference"].iter().any(|port| input.ports.contains_key(*port));
        let tensors = match speaker {
            Some(_) if has_references => {
                return Err(StageError::with_help(
                    "both references and a `speaker` are given",
                    "leave out one of them",
                ));
            }
            Some(name) => known(&model, name, context)?,
            None => self.heard(&model, input, context)?,
        };
        let mut values = vec![
            (artifact::FAMILY.to_owned(), NewValue::Text(artifact::XTTS_VOICE.to_owned())),
            ("name".to_owned(), NewValue::Text(speaker.unwrap_or_default().to_owned())),
        ];
        if let Some(license) = model.fields.get(artifact::LICENSE) {
            values.push((artifact::LICENSE.to_owned(), NewValue::Kept(license.clone())));
        }
        values.extend(tensors);
        Ok(GatherOutput::default().with("voice", PortOutput::Artifact(values)))
    }

    /// The voice of references.
    fn heard(
        &self,
        model: &XttsModel,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        let references = references(model, input, context)?;
        let listening = self.listening(model)?;
        let encoder = VoiceEncoder::of(model, self.device, context)?;
        encoder.voice(&references, &listening, self.device)?.values(context)
    }

    fn listening(&self, model: &XttsModel) -> Result<ReferenceLengths, StageError> {
        let own = &model.config.sampling;
        let seconds = |name: &str| self.parameters.if_set(name, Parameters::number);
        Ok(ReferenceLengths {
            conditioning: seconds("conditioning_seconds")?.unwrap_or(own.conditioning_seconds),
            chunk: seconds("chunk_seconds")?.unwrap_or(own.conditioning_chunk_seconds),
            reference: seconds("max_reference_seconds")?.unwrap_or(own.max_reference_seconds),
        })
    }
}

/// The waves of all references; unreadable ones are quarantined.
fn references(
    model: &XttsModel,
    input: &GatherInput,
    context: &mut dyn Context,
) -> Result<Vec<Vec<f32>>, StageError> {
    let mut waves = Vec::new();
    let mut rejects = Vec::new();
    if let Some(reference) = input.artifact("reference") {
        let wave = read(model, reference, context)?;
        waves.push(wave.map_err(|reject| XttsModel::refused("reference", &reject.reason))?);
    }
    if input.ports.contains_key("input") {
        for (place, item) in input.items("input")?.iter().enumerate() {
            match read(model, &item.fields, context)? {
                Ok(wave) => waves.push(wave),
                Err(reject) => rejects.push((place, reject)),
            }
        }
        if !rejects.is_empty() {
            context.set_aside("input", rejects)?;
        }
    }
    if waves.is_empty() {
        Err(StageError::with_help(
            "there is no reference for a voice",
            "set `input` to a data set of clips, `reference` to a `dataset.item`, or `speaker` to \
             the name of a voice of the model",
        ))
    } else {
        Ok(waves)
    }
}

fn read(
    model: &XttsModel,
    fields: &Fields,
    context: &mut dyn Context,
) -> Result<Result<Vec<f32>, Reject>, StageError> {
    let Some(blob) = fields.blob("audio") else {
        return Ok(Err(Reject::new("no-audio", "it has no `audio`")));
    };
    let wave = wave::read(&context.read(blob)?);
    Ok(wave.and_then(|wave| {
        check_rate(wave.rate, model.config.gpt.sample_rate as u32, "model")?;
        Ok(wave.samples)
    }))
}

/// A voice that came with the model.
fn known(
    model: &XttsModel,
    name: &str,
    context: &mut dyn Context,
) -> Result<Vec<(String, NewValue)>, StageError> {
    let Some(blob) = model.fields.blob(SPEAKERS_FILE) else {
        return Err(StageError::with_help(
            format!(
                "the model was imported without `{SPEAKERS_FILE}`, so it has no speaker `{name}`"
            ),
            "import the model together with that file, or use references",
        ));
    };
    let file = WeightFile::read(context.open(blob)?).map_err(TorchError::from)?;
    let speakers = Speakers::read(file, &model.config).map_err(TorchError::from)?;
    let Some(speaker) = speakers.speaker(name).map_err(TorchError::from)? else {
        let known: Vec<&str> = speakers.names().collect();
        return Err(StageError::with_help(
            format!("there is no speaker `{name}`"),
            format!("speakers of the model: {}", known.join(", ")),
        ));
    };
    let value = |(name, tensor): (&str, _)| -> Result<_, StageError> {
        let value = artifact::tensor_value(tensor).map_err(TorchError::from)?;
        Ok((artifact::tensor_field(name), value))
    };
    [(LATENTS, &speaker.latents), (VECTOR, &speaker.vector)].into_iter().map(value).collect()
}
