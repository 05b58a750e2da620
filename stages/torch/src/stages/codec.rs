//! The codec on a port, for all kinds of models.

use cache::Digest;
use stage_core::device::DeviceId;
use stage_core::key::{HashSink, Sink};
use stage_core::{Blob, Context, Fields, StageError};
use stage_families::artifact;
use tch::Device;

use crate::dac::{Dac, DacConfig};
use crate::device::{Machine, free_memory, peak_memory, place};
use crate::error::TorchError;
use crate::sound::codec::{Codec, CodecFormat};
use crate::sound::griffin_lim;
use crate::sound::mel_rvq::MelRvq;
use crate::stored;
use crate::tune::Base;
use crate::xtts::artifact::XttsModel;
use crate::xtts::codec::DvaeCodec;

/// The share of the free memory of a device that is planned for: the rest is for use that the plan
/// does not know.
const SHARE: u64 = 2;
/// The length of the clips that a probe encodes.
const PROBE_SECONDS: usize = 8;

/// The settings of a codec.
#[derive(Clone, Copy, Debug)]
pub struct CodecUse {
    pub device: Device,
    /// The number of clips at a time on the CPU.
    pub threads: usize,
    /// The number of phase iterations of `mel-rvq`.
    pub rounds: usize,
}

impl CodecUse {
    pub fn new(machine: &Machine, device: DeviceId) -> CodecUse {
        let (device, threads) = (place(device), machine.threads());
        CodecUse { device, threads, rounds: griffin_lim::ROUNDS }
    }
}

/// Reads a codec: an output of `vq.fit` or `model.import`, an XTTS model, or a file of older kinds.
pub fn open(
    artifact: &Fields,
    how: CodecUse,
    context: &mut dyn Context,
) -> Result<Box<dyn Codec>, StageError> {
    let dac = match stored_as(artifact)? {
        CodecForm::Xtts => {
            let codec = XttsModel::read("codec", Some(artifact), context)?;
            let codec = codec.codec(how.device, context)?;
            return Ok(Box::new(codec.with_threads(how.threads).with_rounds(how.rounds)));
        }
        CodecForm::Tensors => {
            let config = dac_config(artifact, context)?;
            Dac::new(config, stored::weights(artifact, context)?, how.device)
        }
        CodecForm::File(blob) => {
            let bytes = context.read(blob)?;
            if !Dac::is_in(&bytes) {
                let codec = MelRvq::load(&bytes).map_err(advised)?;
                return Ok(Box::new(codec.with_threads(how.threads).with_rounds(how.rounds)));
            }
            Dac::load(&bytes, how.device)
        }
    };
    let memory = free_memory(how.device).map(|bytes| bytes / SHARE);
    Ok(Box::new(dac.map_err(advised)?.with_threads(how.threads).with_memory(memory)))
}

/// The properties of a codec, from its configuration alone: its weights are not read.
pub fn format(artifact: &Fields, context: &mut dyn Context) -> Result<CodecFormat, StageError> {
    match stored_as(artifact)? {
        CodecForm::Xtts => {
            let config = XttsModel::read("codec", Some(artifact), context)?.config;
            Ok(DvaeCodec::format_of(&config.dvae, config.gpt.sample_rate))
        }
        CodecForm::Tensors => Ok(Dac::format_of(&dac_config(artifact, context)?)),
        CodecForm::File(blob) => {
            let bytes = context.read(blob)?;
            let format = if Dac::is_in(&bytes) {
                Dac::read_config(&bytes).map(|config| Dac::format_of(&config))
            } else {
                MelRvq::read_config(&bytes).map(|config| config.format())
            };
            format.map_err(advised)
        }
    }
}

/// Measures the GPU memory of batches, once per codec and model of GPU. On the CPU, where clips are
/// encoded one by one, the estimate is enough.
pub fn probe(
    codec: &dyn Codec,
    device: Device,
    key: &Digest,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    let (Some(budget), Device::Cuda(number)) = (codec.budget(), device) else { return Ok(()) };
    if budget.recall(key, context)? {
        return Ok(());
    }
    let samples = PROBE_SECONDS * codec.format().rate as usize;
    let silence = vec![0f32; codec.longest().map_or(samples, |longest| longest.min(samples))];
    let encode = |clips: usize| codec.encode(&vec![silence.as_slice(); clips]).map(drop);
    budget.probe(codec.frames(silence.len()), encode, || peak_memory(number));
    budget.remember(key, context)
}

/// The key of a remembered budget: the codec, and the model of the device.
pub fn budget_key(artifact: &Fields, device: &str) -> Digest {
    let mut sink = HashSink::default();
    sink.text("device", device);
    artifact.blobs().for_each(|blob| sink.digest("blob", &blob.digest));
    sink.finish()
}

/// The form of a codec in its artifact.
enum CodecForm<'a> {
    /// A Fish codec, tensor by tensor, with its configuration beside.
    Tensors,
    /// An XTTS model, which has a DVAE.
    Xtts,
    File(&'a Blob),
}

fn stored_as(artifact: &Fields) -> Result<CodecForm<'_>, StageError> {
    match artifact.text(artifact::FAMILY) {
        Some(artifact::DAC) => Ok(CodecForm::Tensors),
        Some(artifact::XTTS) => Ok(CodecForm::Xtts),
        Some(other) => {
            let message = format!("port `codec` has a model of the family `{other}`");
            Err(StageError::with_help(message, ADVICE))
        }
        None => only_file(artifact).map(CodecForm::File),
    }
}

fn dac_config(artifact: &Fields, context: &mut dyn Context) -> Result<DacConfig, StageError> {
    match artifact.blob(artifact::CONFIG) {
        Some(blob) => {
            DacConfig::from_json(&context.read(blob)?).map_err(|error| advised(error.into()))
        }
        None => Ok(DacConfig::default()),
    }
}

/// The field `model`, or the only file of an asset.
fn only_file(artifact: &Fields) -> Result<&Blob, StageError> {
    let model = artifact.blob("model").or_else(|| artifact.blobs().next());
    let model = model.map(|blob| &**blob);
    model.ok_or_else(|| StageError::failed("no codec arrived on port `codec`"))
}

const ADVICE: &str = "set `codec` to a `vq.fit` stage, a `model.import` stage with a codec or an \
                      XTTS model, or a file made by `vq.fit`";

fn advised(error: TorchError) -> StageError {
    StageError::with_help(error.to_string(), ADVICE)
}
