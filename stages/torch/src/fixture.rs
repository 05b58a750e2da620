//! Compares a model with the results of its reference implementation for the same inputs.
//!
//! A fixture is a folder with `fixture.json` ([`Fixture`]) and the files that it names. The tensors
//! are `input.*`, passed to the model, and `expected.*`, compared with its outputs; the largest
//! absolute difference of each must stay within its tolerance. [`Setup`] has the tolerances for
//! other devices and number formats.

pub mod parts;
pub mod setup;

use std::collections::BTreeMap;
use std::path::Path;

use cache::fs::{Fs, RealFs};
use camino::Utf8Path;
use safetensors::tensor::{Dtype, SafeTensors};
use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use crate::dac;
use crate::error::TorchError;
use crate::fish;
use crate::nn::lora_fixture;
use crate::nn::weights::{self, Weights};
use crate::runtime::threads::one_thread;
use crate::sound::codec::Codec;
use crate::sound::mel::Mel;
use crate::sound::mel_rvq::MelRvq;
use crate::train::precision::Precision;
use crate::vits;
use crate::wav2vec2;
use crate::xtts;

use self::parts::Outputs;
pub use self::setup::Setup;

/// The content of `fixture.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    pub model: FixtureModel,
    /// The packages or commits that made it.
    #[serde(default)]
    pub reference: String,
    /// The name of the model's file.
    pub weights: String,
    /// The name of the file with inputs and expected outputs.
    pub tensors: String,
    /// The compared outputs by name, with their tolerances.
    ///
    /// A name also covers all names that begin with it and a dot.
    pub tolerances: BTreeMap<String, f64>,
    /// Names that are compared relative to the largest expected value, or to this number if it is
    /// larger.
    #[serde(default)]
    pub relative: BTreeMap<String, f64>,
    /// Further settings of the model.
    #[serde(default)]
    pub settings: serde_json::Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum FixtureModel {
    #[serde(rename = "mel-rvq")]
    MelRvq,
    #[serde(rename = "fish-dac")]
    FishDac,
    #[serde(rename = "fish-dual-ar")]
    FishDualAr,
    #[serde(rename = "lora")]
    Lora,
    #[serde(rename = "vits")]
    Vits,
    #[serde(rename = "wav2vec2")]
    Wav2Vec2,
    #[serde(rename = "xtts-gpt")]
    XttsGpt,
    #[serde(rename = "xtts-sound")]
    XttsSound,
}

impl FixtureModel {
    /// The number formats of its stages.
    pub fn precisions(self) -> &'static [Precision] {
        use Precision::{Bf16, F32, Fp16, Tf32};
        match self {
            FixtureModel::FishDualAr | FixtureModel::Lora | FixtureModel::XttsGpt => {
                &[F32, Tf32, Bf16, Fp16]
            }
            FixtureModel::Vits => &[F32, Bf16, Fp16],
            FixtureModel::MelRvq
            | FixtureModel::FishDac
            | FixtureModel::Wav2Vec2
            | FixtureModel::XttsSound => &[F32],
        }
    }

    /// Refuses a setup that the stages of the model do not offer either.
    pub fn check(self, setup: &Setup) -> Result<(), TorchError> {
        let refuse = |what: &str| Err(TorchError::Input(format!("this model {what}")));
        if self == FixtureModel::MelRvq && setup.device != Device::Cpu {
            return refuse("supports only the CPU");
        }
        if self.precisions().contains(&setup.precision) {
            Ok(())
        } else {
            let names: Vec<&str> = self.precisions().iter().map(|one| one.name()).collect();
            refuse(&format!("supports only {}", names.join(", ")))
        }
    }
}

/// The difference of one output.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub name: String,
    pub worst: f64,
    pub tolerance: f64,
}

impl Comparison {
    pub fn is_good(&self) -> bool {
        self.worst <= self.tolerance
    }
}

/// Runs the model of a fixture in f32 on the CPU and compares all outputs that it lists.
pub fn check(folder: &Path) -> Result<Vec<Comparison>, TorchError> {
    check_on(folder, &Setup::default())
}

/// The same on another device or in another number format.
pub fn check_on(folder: &Path, setup: &Setup) -> Result<Vec<Comparison>, TorchError> {
    let fixture = Fixture::read(folder)?;
    fixture.model.check(setup)?;
    let weights = read(folder, &fixture.weights)?;
    let tensors = read(folder, &fixture.tensors)?;
    let tensors = SafeTensors::deserialize(&tensors)
        .map_err(|error| TorchError::Input(format!("`{}`: {error}", fixture.tensors)))?;
    one_thread();
    let _in_use = setup.begin()?;
    let outputs = fixture.outputs(&weights, &tensors, setup)?;
    let mut comparisons = Vec::new();
    for (group, tolerance) in &fixture.tolerances {
        let names = expected(&tensors, group)?;
        for name in names {
            let Some(tolerance) = setup.tolerance(&name, *tolerance) else { continue };
            let output = outputs.get(&name);
            let output = output
                .ok_or_else(|| TorchError::Input(format!("the model has no output `{name}`")))?;
            let expected = values(&tensors, &format!("expected.{name}"))?;
            let scale = setup.scale(&expected, fixture.relative.get(group).copied());
            let worst = worst(output, &expected) / scale;
            comparisons.push(Comparison { name, worst, tolerance });
        }
    }
    Ok(comparisons)
}

/// The names of expected outputs that a group covers, sorted.
fn expected(tensors: &SafeTensors, group: &str) -> Result<Vec<String>, TorchError> {
    let is_own = |name: &&str| {
        *name == group || name.strip_prefix(group).is_some_and(|rest| rest.starts_with('.'))
    };
    let names = tensors.names().into_iter().filter_map(|name| name.strip_prefix("expected."));
    let mut names: Vec<String> = names.filter(is_own).map(str::to_owned).collect();
    names.sort();
    if names.is_empty() {
        Err(TorchError::Input(format!("`{group}` has no expected outputs")))
    } else {
        Ok(names)
    }
}

impl Fixture {
    pub fn read(folder: &Path) -> Result<Fixture, TorchError> {
        serde_json::from_slice(&read(folder, "fixture.json")?)
            .map_err(|error| TorchError::Input(format!("`fixture.json`: {error}")))
    }

    fn outputs(
        &self,
        weights: &[u8],
        tensors: &SafeTensors,
        setup: &Setup,
    ) -> Result<FlatOutputs, TorchError> {
        let settings = &self.settings;
        let outputs = match self.model {
            FixtureModel::MelRvq => return mel_rvq(weights, tensors),
            FixtureModel::FishDac => return fish_dac(weights, tensors, setup),
            FixtureModel::Lora => lora(weights, tensors, setup)?,
            FixtureModel::Wav2Vec2 => {
                let wave = singles(tensors, "input.wave")?;
                wav2vec2::fixture::outputs(settings, weights, &wave, setup)?
            }
            FixtureModel::FishDualAr => {
                fish::fixture::outputs(settings, weights, &inputs(tensors)?, setup)?
            }
            FixtureModel::Vits => {
                vits::fixture::outputs(settings, weights, &inputs(tensors)?, setup)?
            }
            FixtureModel::XttsGpt => {
                xtts::gpt_fixture::outputs(settings, weights, &inputs(tensors)?, setup)?
            }
            FixtureModel::XttsSound => {
                xtts::sound_fixture::outputs(settings, weights, inputs(tensors)?, setup)?
            }
        };
        flat(outputs)
    }
}

/// The outputs of a model by name, each row by row.
type FlatOutputs = BTreeMap<String, Vec<f64>>;

/// The tensors `input.*`.
fn inputs(tensors: &SafeTensors) -> Result<Weights, TorchError> {
    let inputs = tensors.tensors().into_iter().filter(|(name, _)| name.starts_with("input."));
    inputs.map(|(name, view)| Ok((name, weights::read(&view)?))).collect()
}

fn flat(outputs: Outputs) -> Result<FlatOutputs, TorchError> {
    let flat = |(name, tensor): (String, Tensor)| {
        let tensor = tensor.to_device(Device::Cpu).contiguous();
        let tensor = tensor.view(-1).to_kind(Kind::Double);
        Ok((name, Vec::try_from(tensor)?))
    };
    outputs.into_iter().map(flat).collect()
}

fn mel_rvq(weights: &[u8], tensors: &SafeTensors) -> Result<FlatOutputs, TorchError> {
    let model = MelRvq::load(weights)?;
    let wave = singles(tensors, "input.wave")?;
    let log_mel = Mel::new(model.config().mel)?.frames(&wave);
    let codes = model.encode(&[&wave])?.remove(0);
    let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect();
    Ok(FlatOutputs::from([
        ("log_mel".into(), wide(log_mel)),
        ("frames".into(), wide(model.frames_of(&codes)?)),
        ("codes".into(), codes.values.iter().map(|code| f64::from(*code)).collect()),
    ]))
}

fn fish_dac(
    weights: &[u8],
    tensors: &SafeTensors,
    setup: &Setup,
) -> Result<FlatOutputs, TorchError> {
    let inputs = dac::fixture::Inputs {
        waves: singles(tensors, "input.waves")?,
        lengths: values(tensors, "input.lengths")?.iter().map(|v| *v as usize).collect(),
        spoken: values(tensors, "input.codes")?.iter().map(|v| *v as u16).collect(),
        codes: values(tensors, "expected.codes")?,
        margins: values(tensors, "expected.margins")?,
    };
    dac::fixture::outputs(weights, &inputs, setup)
}

fn lora(weights: &[u8], tensors: &SafeTensors, setup: &Setup) -> Result<Outputs, TorchError> {
    let tokens: Vec<i64> = values(tensors, "input.tokens")?.iter().map(|v| *v as i64).collect();
    let slope = singles(tensors, "input.slope")?;
    let (tokens, slope) = (Tensor::from_slice(&tokens), Tensor::from_slice(&slope));
    lora_fixture::outputs(weights, &tokens, &slope, setup)
}

/// The largest difference; infinite for NaN and for another length.
fn worst(output: &[f64], expected: &[f64]) -> f64 {
    if output.len() != expected.len() {
        return f64::INFINITY;
    }
    let difference = |(a, b): (&f64, &f64)| match (a - b).abs() {
        difference if difference.is_nan() => f64::INFINITY,
        difference => difference,
    };
    output.iter().zip(expected).map(difference).fold(0.0, f64::max)
}

/// Reads a file of the folder itself: a fixture must not refer to other folders.
fn read(folder: &Path, name: &str) -> Result<Vec<u8>, TorchError> {
    if Path::new(name).file_name() != Some(std::ffi::OsStr::new(name)) {
        return Err(TorchError::Input(format!("`{name}` is not a plain file name")));
    }
    let path = folder.join(name);
    let path = Utf8Path::from_path(&path)
        .ok_or_else(|| TorchError::Input(format!("`{}` is not UTF-8", path.display())))?;
    RealFs.read(path).map_err(|error| TorchError::Input(format!("{error}: {}", error.source)))
}

/// The values of a tensor of f32.
fn singles(tensors: &SafeTensors, name: &str) -> Result<Vec<f32>, TorchError> {
    Ok(values(tensors, name)?.into_iter().map(|value| value as f32).collect())
}

fn values(tensors: &SafeTensors, name: &str) -> Result<Vec<f64>, TorchError> {
    let tensor = tensors.tensor(name);
    let tensor = tensor.map_err(|error| TorchError::Input(format!("`{name}`: {error}")))?;
    let words = tensor.data().as_chunks::<4>().0.iter();
    match tensor.dtype() {
        Dtype::F32 => Ok(words.map(|word| f64::from(f32::from_le_bytes(*word))).collect()),
        Dtype::I32 => Ok(words.map(|word| f64::from(i32::from_le_bytes(*word))).collect()),
        other => Err(TorchError::Input(format!("`{name}` is {other:?}, expected F32 or I32"))),
    }
}
