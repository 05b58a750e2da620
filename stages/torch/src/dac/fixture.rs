//! The codec on the inputs of a fixture.

use std::collections::BTreeMap;

use tch::{Device, Tensor};

use super::codec::Dac;
use crate::error::TorchError;
use crate::fixture::setup::Setup;
use crate::sound::codec::{Codec, Codes};

/// A nearest entry that wins by less may differ if sums are rounded differently: between a CPU and
/// the reference, and on a GPU.
const TIE: f64 = 1e-5;
const GPU_TIE: f64 = 1e-4;

/// The inputs of a fixture, and the expected outputs.
pub struct Inputs {
    /// Clips [clips, longest], with their numbers of valid samples.
    pub waves: Vec<f32>,
    pub lengths: Vec<usize>,
    /// [codebooks, frames], for decoding.
    pub spoken: Vec<u16>,
    /// [clips, codebooks, most frames] each; zero after the end of a clip.
    pub codes: Vec<f64>,
    pub margins: Vec<f64>,
}

/// Outputs by name, each row by row.
pub fn outputs(
    weights: &[u8],
    inputs: &Inputs,
    setup: &Setup,
) -> Result<BTreeMap<String, Vec<f64>>, TorchError> {
    let codec = Dac::load(weights, setup.device)?;
    let waves = clips(inputs)?;
    let (mut trace, first) = codec.trace_encode(waves[0])?;
    let together = codec.encode(&waves)?;
    if setup.is_exact() && together[0] != first {
        return Err(TorchError::Model("codes depend on how a clip is cut into pieces".into()));
    }
    let codebooks = codec.format().entries.len();
    let spoken =
        Codes { codebooks, frames: inputs.spoken.len() / codebooks, values: inputs.spoken.clone() };
    let (decoded, _) = codec.trace_decode(&spoken)?;
    trace.extend(decoded);
    let pieces = codec.decode(&spoken, 0)?;
    let mut outputs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, tensor) in trace {
        outputs.insert(name, numbers(&tensor));
    }
    outputs.insert("wave".into(), pieces.into_iter().map(f64::from).collect());
    let tie = if setup.is_exact() { TIE } else { GPU_TIE };
    outputs.insert("codes".into(), excused(&padded(&together), codebooks, inputs, tie));
    Ok(outputs)
}

fn clips(inputs: &Inputs) -> Result<Vec<&[f32]>, TorchError> {
    let wrong = || TorchError::Input("`input.waves` does not fit `input.lengths`".into());
    let width = inputs.waves.len().checked_div(inputs.lengths.len()).filter(|width| *width > 0);
    let rows = inputs.waves.chunks(width.ok_or_else(wrong)?).zip(&inputs.lengths);
    rows.map(|(row, length)| row.get(..*length).ok_or_else(wrong)).collect()
}

/// Codes of all clips in one table, with zeros after the shorter ones.
fn padded(codes: &[Codes]) -> Vec<f64> {
    let frames = codes.iter().map(|codes| codes.frames).max().unwrap_or(0);
    let mut table = Vec::new();
    for row in codes.iter().flat_map(|codes| codes.values.chunks(codes.frames)) {
        table.extend(row.iter().map(|code| f64::from(*code)));
        table.resize(table.len() + frames - row.len(), 0.0);
    }
    table
}

/// Replaces codes of a frame by the expected ones from the first difference on if that is a tie:
/// later codebooks encode the residual that another entry has left.
fn excused(codes: &[f64], codebooks: usize, inputs: &Inputs, tie: f64) -> Vec<f64> {
    let mut codes = codes.to_vec();
    let expected = &inputs.codes;
    if codes.len() != expected.len() || codes.len() != inputs.margins.len() {
        return codes;
    }
    let frames = codes.len() / codebooks / inputs.lengths.len();
    for clip in 0..inputs.lengths.len() {
        for frame in 0..frames {
            let place = |codebook: usize| (clip * codebooks + codebook) * frames + frame;
            let first = (0..codebooks).find(|at| codes[place(*at)] != expected[place(*at)]);
            let Some(first) = first.filter(|at| inputs.margins[place(*at)] < tie) else { continue };
            (first..codebooks).for_each(|at| codes[place(at)] = expected[place(at)]);
        }
    }
    codes
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let tensor = tensor.to_device(Device::Cpu).to_kind(tch::Kind::Double).contiguous();
    let mut values = vec![0f64; tensor.numel()];
    let count = values.len();
    tensor.copy_data(&mut values, count);
    values
}
