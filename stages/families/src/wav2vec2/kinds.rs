//! The kind of the family `asr`: a speech recogniser.

use crate::artifact;
use crate::kinds::parameters::LONGEST;
use stage_core::cost::{Cost, Rates};
use stage_core::{Batching, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, Place};

pub const KINDS: &[&Kind] = &[&TRANSCRIBE, &EMIT];

const HEARD: Rates = Rates {
    start: 1.0,
    seconds_per_item: 5e-3,
    seconds_per_second: 3e-3,
    bytes_per_item: 100.0,
    // The widest layer: 3,200 frames per second of 512 channels of f32, several of them at a time.
    vram_per_second: 3_200.0 * 512.0 * 4.0 * 4.0,
    model: Some(artifact::WAV2VEC2),
    spread: 4.0,
    origin: "the base model of a recogniser takes a fifth of a second of a processor core for a second \
             of sound (measured), a hundredth of that on an A100, and others by their multiplications",
    ..Rates::LIGHT
};

pub static TRANSCRIBE: Kind = Kind {
    name: "asr.transcribe",
    summary: "Transcribes recordings with a speech recogniser.",
    doc: "\
The recogniser is a `Wav2Vec2ForCTC` checkpoint of transformers, read with `model.import`: for
example `facebook/wav2vec2-base-960h` for English, or one for the spoken language. Each recording is
transcribed by itself, in f32. Decoding is greedy CTC, without a language model.

Recordings must have the sample rate of the recogniser, which is 16000 for all published ones: put
`audio.resample` with `rate = 16000` before this stage. Recordings shorter than one frame (25 ms)
are quarantined. `quality.cer` compares `transcript` with the text.",
    place: Place::Worker,
    cost: Cost::Rates(HEARD),
    batching: Batching::Single,
    inputs: &[
        InputPort {
            reads: FieldSet::These(&[("audio", FieldType::Blob)]),
            doc: "Recordings as mono `audio/wav` at the recogniser's rate.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "model",
            reads: FieldSet::All,
            doc: "The recogniser, of `model.import`.",
            takes: &[artifact::WAV2VEC2],
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[("transcript", FieldType::Text)],
        doc: "The recordings with `transcript`, in the letters of the recogniser's vocabulary, \
              often capitals. It is empty if nothing was recognised.",
        ..OutputPort::DATASET
    }],
    parameters: &[Parameter {
        doc: "Longer recordings are quarantined: time and memory grow with the square of the \
            length.",
        ..LONGEST
    }],
    ..Kind::BASE
};

/// The kind of emissions.
pub const EMISSIONS_KIND: &str = "emissions/npy";

pub static EMIT: Kind = Kind {
    name: "asr.emit",
    version: 2,
    summary: "Computes the symbol probabilities of a speech recogniser for each frame of segments.",
    doc: "\
The recogniser is that of `asr.transcribe`, and each segment is processed by itself. The result is
the logarithm of the probability of each symbol in each frame, for `text.align`, and the transcript
by greedy decoding.

Segments must have the sample rate of the recogniser: put `audio.resample` with `rate = 16000`
between `audio.segment` and this stage. A corrected text does not run this stage again.",
    cost: Cost::Rates(Rates {
        // 50 frames per second, with 32 symbols of two bytes.
        bytes_per_second: 3_200.0,
        ..HEARD
    }),
    outputs: &[OutputPort {
        writes: &[
            ("emissions", FieldType::Blob),
            ("alphabet", FieldType::Text),
            ("hop", FieldType::Number),
            ("transcript", FieldType::Text),
        ],
        doc: "The segments with their emissions (an array of 16-bit floats, one row for each \
              frame), the symbols of the columns as JSON, the seconds between frames, and the \
              transcript.",
        ..OutputPort::DATASET
    }],
    ..TRANSCRIBE
};
