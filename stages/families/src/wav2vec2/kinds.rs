//! The kind of the family `asr`: a speech recogniser.

use crate::artifact;
use stage_core::catalogue::quality::LONGEST;
use stage_core::cost::{Cost, Rates};
use stage_core::{Batching, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, Place};

pub const KINDS: &[&Kind] = &[&TRANSCRIBE];

const HEARD: Rates = Rates {
    start: 1.0,
    seconds_per_item: 5e-3,
    seconds_per_second: 3e-3,
    bytes_per_item: 100.0,
    // The widest layer: 3,200 frames per second of 512 channels of f32, several of them at a time.
    vram_per_second: 3_200.0 * 512.0 * 4.0 * 4.0,
    spread: 4.0,
    origin: "the base model takes a fifth of a second of a processor core for a second of sound \
             (measured), a hundredth of that on an A100, and large models three times as much",
    ..Rates::LIGHT
};

pub static TRANSCRIBE: Kind = Kind {
    name: "asr.transcribe",
    summary: "Writes down what a speech recogniser hears.",
    doc: "\
The recogniser is a checkpoint of `Wav2Vec2ForCTC` of transformers, which `model.import` has read:
`facebook/wav2vec2-base-960h` for English, for example, or one of the language that is spoken. Each
recording is heard by itself, in f32; of each frame the likeliest symbol is taken, repeats are one,
and no language model corrects what was heard.

Recordings have to have the rate of the recogniser, which is 16000 of all that are published: put
`audio.resample` with `rate = 16000` before this stage. Those that are shorter than what a frame is
made of (25 ms) are set aside. `quality.cer` compares `transcript` with the text.",
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
        doc: "The recordings with what was heard, in the letters of the recogniser's vocabulary, \
              which often are capitals. It is empty where nothing was heard.",
        ..OutputPort::DATASET
    }],
    parameters: &[Parameter {
        doc: "Longer recordings are quarantined: time and memory grow with the square of the \
            length.",
        ..LONGEST
    }],
    ..Kind::BASE
};
