//! `vits.synthesize`: synthesises sentences with a VITS model.

use std::time::Instant;

use stage_core::{
    Context, Fields, Item, ItemJob, Job, Kind, NewValue, Parameters, Reject, Setup, Stage,
    StageError,
};
use stage_families::dropped::{self, Dropped};
use stage_families::vits::Tokens;
use stage_families::vits::kinds as vits;
use tch::Device;

use crate::device::Machine;
use crate::error::TorchError;
use crate::model_slot::{ModelSlot, brought};
use crate::sound::measure::SpeakingRate;
use crate::sound::mel::to_vec;
use crate::sound::utterance::{SentenceResult, Utterance, own_speed, sentence_seed, speak_each};
use crate::vits::artifact::VitsModel;
use crate::vits::{SeededNormal, SynthesisSettings, Vits, WeightForm};

pub struct VitsSynthesize {
    pub machine: Machine,
}

impl Stage for VitsSynthesize {
    fn kind(&self) -> &'static Kind {
        &vits::SYNTHESIZE
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(self.job(&setup, context)?)))
    }
}

/// Synthesises one sentence after the other.
struct VitsSynthesizeJob {
    /// The model on the port; needed for sentences without weights of their own.
    base: Option<Fields>,
    loaded: ModelSlot<VitsVoice>,
    device: Device,
    settings: VitsOverrides,
    speaker: Option<String>,
    /// Letters and digits that the model does not know are left out.
    leaves_out: bool,
    pace: SpeakingRate,
    seed: u64,
}

/// A model ready for synthesis.
struct VitsVoice {
    model: VitsModel,
    net: Vits,
}

/// The settings in the manifest; the model has the others.
struct VitsOverrides {
    noise_scale: Option<f64>,
    noise_scale_duration: Option<f64>,
    speaking_rate: Option<f64>,
    most_seconds: f64,
}

impl VitsSynthesize {
    fn job(
        &self,
        setup: &Setup,
        context: &mut dyn Context,
    ) -> Result<VitsSynthesizeJob, StageError> {
        let parameters = &setup.parameters;
        let base = setup.artifacts.get("model").and_then(|artifacts| artifacts.first());
        if base.is_some() {
            // Checked before the first sentence, and without loading a tensor.
            VitsModel::read("model", base, context)?;
        }
        Ok(VitsSynthesizeJob {
            base: base.cloned(),
            loaded: ModelSlot::default(),
            device: self.machine.open(setup.device)?,
            settings: VitsOverrides::of(parameters)?,
            speaker: parameters.if_set("speaker", Parameters::text)?.map(str::to_owned),
            leaves_out: parameters.text("on_unknown")? == "report",
            pace: SpeakingRate::read(parameters)?,
            seed: parameters.integer("seed")? as u64,
        })
    }
}

impl VitsOverrides {
    fn of(parameters: &Parameters) -> Result<VitsOverrides, StageError> {
        let number = |name: &str| parameters.if_set(name, Parameters::number);
        Ok(VitsOverrides {
            noise_scale: number("noise_scale")?,
            noise_scale_duration: number("noise_scale_duration")?,
            speaking_rate: number("speaking_rate")?,
            most_seconds: parameters.seconds("max_duration")?,
        })
    }

    fn of_model(&self, net: &Vits) -> SynthesisSettings {
        let own = SynthesisSettings::of(&net.config);
        let frames = self.most_seconds * net.config.sampling_rate as f64 / net.config.hop() as f64;
        SynthesisSettings {
            noise_scale: self.noise_scale.unwrap_or(own.noise_scale),
            noise_scale_duration: self.noise_scale_duration.unwrap_or(own.noise_scale_duration),
            speaking_rate: self.speaking_rate.unwrap_or(own.speaking_rate),
            most_frames: frames as i64,
        }
    }
}

impl ItemJob for VitsSynthesizeJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<SentenceResult>, StageError> {
        speak_each(items, context, |item, weights, context| {
            let load = || self.load(weights, context);
            self.loaded.with(weights, load, |voice| self.speak(voice, item))?
        })
    }
}

impl VitsSynthesizeJob {
    fn load(
        &self,
        weights: Option<&stage_core::Blob>,
        context: &mut dyn Context,
    ) -> Result<VitsVoice, StageError> {
        let brought = brought(weights, context)?;
        let model = VitsModel::read("model", brought.as_ref().or(self.base.as_ref()), context)?;
        let prepared = model.prepared(WeightForm::Whole, self.device, context)?;
        let net = Vits::load(model.config.clone(), prepared.generator)?;
        Ok(VitsVoice { model, net })
    }

    fn speak(&self, voice: &VitsVoice, item: &Item) -> Result<SentenceResult, StageError> {
        let text = item.fields.text("text").unwrap_or_default();
        let tokens = match voice.model.tokens_of(&item.fields) {
            Ok(tokens) => tokens,
            Err(reject) => return Ok(Err(reject)),
        };
        let unknown = counted(&tokens);
        let lost = dropped::spoken(&unknown);
        if !lost.is_empty() && !self.leaves_out {
            return Ok(Err(dropped::reject(&lost)));
        }
        let speed = match own_speed(item) {
            Ok(speed) => speed,
            Err(reject) => return Ok(Err(reject)),
        };
        let begin = Instant::now();
        let name = self.speaker.as_deref().or_else(|| item.fields.text("speaker"));
        let mut settings = self.settings.of_model(&voice.net);
        settings.speaking_rate *= speed;
        let (samples, frames) = match self.generate(voice, text, &tokens, name, &settings) {
            Err(TorchError::Input(reason)) => return Ok(Err(Reject::new("sentence", reason))),
            spoken => spoken?,
        };
        let utterance = Utterance {
            text,
            samples: &samples,
            rate: voice.net.config.sampling_rate as u32,
            frames: frames as usize,
            pace: self.pace,
            work: begin.elapsed(),
        };
        let listed: String = unknown.keys().collect();
        Ok(utterance.output()?.map(|output| {
            let mut output = output.with("unknown", NewValue::Text(listed));
            for (character, count) in &unknown {
                output.note(dropped::note(*character), *count);
            }
            output
        }))
    }

    /// The samples, and their number of frames.
    fn generate(
        &self,
        voice: &VitsVoice,
        text: &str,
        tokens: &Tokens,
        speaker: Option<&str>,
        settings: &SynthesisSettings,
    ) -> Result<(Vec<f32>, i64), TorchError> {
        require_short(
            text,
            tokens,
            voice.net.config.sampling_rate / voice.net.config.hop(),
            settings,
        )?;
        let speaker = voice.model.speaker(speaker)?.map(|number| vec![number]);
        let texts = voice.net.texts(std::slice::from_ref(&tokens.ids))?;
        let mut noise = SeededNormal::new(vec![sentence_seed(self.seed, text)]);
        let speech = voice.net.speak(&texts, speaker.as_deref(), settings, &mut noise)?;
        let samples = speech.waves.first().map(to_vec).unwrap_or_default();
        Ok((samples, speech.frames.iter().sum()))
    }
}

/// Refuses a text that cannot end within the limit, before the attention over all its tokens fills the
/// memory: a token takes at least one frame.
fn require_short(
    text: &str,
    tokens: &Tokens,
    frames_per_second: i64,
    settings: &SynthesisSettings,
) -> Result<(), TorchError> {
    let frames = tokens.ids.len() as i64;
    if frames <= settings.most_frames {
        return Ok(());
    }
    let seconds = |frames: i64| frames as f64 / frames_per_second.max(1) as f64;
    Err(TorchError::Input(format!(
        "its {} characters take at least {:.1} s, more than the {:.1} s of `max_duration`; split it, with \
         `text.sentences` for example",
        text.chars().count(),
        seconds(frames),
        seconds(settings.most_frames),
    )))
}

fn counted(tokens: &Tokens) -> Dropped {
    tokens.unknown.iter().map(|(character, count)| (*character, *count as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_cannot_end_in_time_is_refused_before_it_is_spoken() {
        let tokens = |count| Tokens { ids: vec![1; count], ..Tokens::default() };
        let settings = SynthesisSettings {
            noise_scale: 0.0,
            noise_scale_duration: 0.0,
            speaking_rate: 1.0,
            most_frames: 120,
        };
        let check = |count| require_short(&"a".repeat(count), &tokens(count), 2, &settings);
        assert!(check(120).is_ok());
        let told = check(400).err().map(|error| error.to_string()).unwrap_or_default();
        let expected =
            "its 400 characters take at least 200.0 s, more than the 60.0 s of `max_duration`";
        assert!(told.starts_with(expected), "{told}");
    }
}
