//! `vits.spectrogram`: audio to the linear spectrograms for training VITS.

use stage_core::{
    Context, Fields, Item, ItemJob, Job, Kind, NewValue, Output, Parameters, Reject, Setup, Stage,
    StageError,
};
use stage_families::vits::kinds as vits;
use tch::{Device, Tensor};

use super::arrived::{blob, check_rate};
use crate::error::TorchError;
use crate::sound::mel::MelShape;
use crate::sound::wave;
use crate::vits::artifact::VitsModel;
use crate::vits::{Analysis, mel_processing};

/// The default settings of a spectrogram without a model: those of MMS.
const PUBLISHED: [(&str, i64); 3] = [("rate", 16_000), ("transform", 1024), ("hop", 256)];

pub struct VitsSpectrogram;

impl Stage for VitsSpectrogram {
    fn kind(&self) -> &'static Kind {
        &vits::SPECTROGRAM
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        let model = setup.artifacts.get("model").and_then(|artifacts| artifacts.first());
        let shape = match model {
            Some(model) => shape_of(model, &setup.parameters, context)?,
            None => shape(&setup.parameters)?,
        };
        shape.check()?;
        Ok(Job::Item(Box::new(SpectrogramJob(shape))))
    }
}

fn shape_of(
    model: &Fields,
    parameters: &Parameters,
    context: &mut dyn Context,
) -> Result<MelShape, StageError> {
    if let Some((name, _)) = PUBLISHED.iter().find(|(name, _)| parameters.is_set(name)) {
        return Err(StageError::with_help(
            format!("both `{name}` and a model on port `model` are given"),
            format!("leave out `{name}`, or the model"),
        ));
    }
    let config = VitsModel::read("model", Some(model), context)?.config;
    Ok(MelShape::linear(config.sampling_rate, config.transform(), config.hop()))
}

fn shape(parameters: &Parameters) -> Result<MelShape, StageError> {
    let mut figures = [0; PUBLISHED.len()];
    for (figure, (name, published)) in figures.iter_mut().zip(PUBLISHED) {
        *figure = parameters.integer_or(name, published)?;
    }
    let [rate, transform, hop] = figures;
    Ok(MelShape::linear(rate, transform, hop))
}

struct SpectrogramJob(MelShape);

impl ItemJob for SpectrogramJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let analysis = Analysis::of(self.0, Device::Cpu)?;
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            let bytes = context.read(blob(item, "audio")?)?;
            outputs.push(match wave::read(&bytes).and_then(|wave| self.check(wave)) {
                Ok(samples) => Ok(output(&analysis, &samples)?),
                Err(reject) => Err(reject),
            });
        }
        Ok(outputs)
    }
}

impl SpectrogramJob {
    /// The samples of whole frames.
    fn check(&self, wave: wave::Wave) -> Result<Vec<f32>, Reject> {
        let shape = &self.0;
        check_rate(wave.rate, shape.rate, "model")?;
        let mut samples = wave.samples;
        samples.truncate(samples.len() / shape.hop * shape.hop);
        let margin = shape.margin();
        if samples.len() <= margin {
            let reason = format!(
                "the audio has {} samples in whole frames, but the padding needs {margin}; leave \
                 such clips out with `audio.check` and `min_duration`",
                samples.len()
            );
            return Err(Reject::new("too-short", reason));
        }
        Ok(samples)
    }
}

fn output(analysis: &Analysis, samples: &[f32]) -> Result<Output, TorchError> {
    let wave = Tensor::from_slice(samples).unsqueeze(0);
    let spectrogram = analysis.linear(&wave)?.squeeze_dim(0);
    let frames = spectrogram.size()[1] as f64;
    Ok(Output::default()
        .with(
            "spectrogram",
            NewValue::bytes(mel_processing::KIND, mel_processing::write(&spectrogram)?),
        )
        .with("frames", NewValue::Number(frames)))
}
