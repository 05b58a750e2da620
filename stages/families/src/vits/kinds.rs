//! The kinds of the family `vits`: new models, spectrograms, synthesis. Training is in `tune`.

use super::complete::COMPLETE;
use super::tokenizer::PHONEMES;
use super::tune::FINETUNE;
use crate::artifact;
use crate::dropped::ON_UNKNOWN;
use crate::kinds::parameters::{SEED, absent, choice, duration, number};
use crate::kinds::training::{CHARACTERS_PER_SECOND, figure};
use stage_core::artifact::WEIGHTS;
use stage_core::cost::{Cost, Rates, Weights};
use stage_core::{
    Batching, Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    Place, Role, Unit, Work,
};

pub const KINDS: &[&Kind] = &[&INIT, &SPECTROGRAM, &SYNTHESIZE, &COMPLETE, &FINETUNE];

/// 513 magnitudes in f32 for every 256 samples of 16 kHz.
const ANALYSED: Rates = Rates {
    seconds_per_item: 1e-3,
    seconds_per_second: 2e-3,
    bytes_per_item: 128.0,
    bytes_per_second: 513.0 * 4.0 * 62.5,
    on_processor: true,
    spread: 3.0,
    origin: "a core makes spectrograms of 500 s of sound in a second, at 128 kB for each, with \
             what it takes to write them (measured on a virtual machine)",
    ..Rates::LIGHT
};

const SPEECH: Rates = Rates {
    seconds_per_item: 0.02,
    seconds_per_second: 5e-3,
    bytes_per_item: 44.0,
    bytes_per_second: 32_000.0,
    // The decoder's widest layers: 32 channels of f32 for each sample, several of them at a time.
    vram_per_second: 16_000.0 * 32.0 * 4.0 * 4.0,
    model: Some(artifact::VITS),
    spread: 3.0,
    origin: "VITS of the published size takes half a second of a processor core for a second of \
             speech (measured), and a hundredth of that on an A100",
    ..Rates::LIGHT
};

const MODEL: InputPort = InputPort {
    name: "model",
    reads: FieldSet::All,
    optional: true,
    doc: "",
    takes: &[artifact::VITS],
    ..InputPort::ARTIFACT
};

const CLIP: &[(&str, FieldType)] = &[("audio", FieldType::Blob)];

const fn rate(default: Default, doc: &'static str) -> Parameter {
    Parameter {
        name: "rate",
        parameter_type: ParameterType::Integer { min: 1_000, max: 384_000 },
        default,
        unit: Unit::Hertz,
        doc,
        ..Parameter::BASE
    }
}

pub static INIT: Kind = Kind {
    name: "vits.init",
    summary: "Makes a VITS model with random weights, to try a pipeline without a download.",
    doc: "\
The model is initialised as in the original project, with a tokenizer of single characters and, for
training, a discriminator. It is untrained, and days of training are needed for good speech: start
from published weights with `model.import` instead.",
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Weights(Weights { start: 0.25, written: 1.0, streams: false }),
    inputs: &[],
    outputs: &[OutputPort {
        name: "model",
        writes: &[("config", FieldType::Blob), ("family", FieldType::Text)],
        open: true,
        doc: "The model: `config`, the tokenizer's files, `lineage` (what it was made from, as \
              JSON), and one field `tensor/NAME` for each tensor.",
        gives: &[artifact::VITS],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        choice(
            "shape",
            &["small", "mms"],
            "The base of the sizes below: `small` takes a training step in a moment on two \
             cores, `mms` is as large as the published models of MMS.",
        ),
        Parameter {
            name: "characters",
            default: Default::Text(" abcdefghijklmnopqrstuvwxyzåäö'-"),
            doc: "The characters that the model can read. Other capitals are read as lower case; \
                the first character is also the blank between all others.",
            ..Parameter::BASE
        },
        rate(Default::Integer(16_000), "The sample rate of the clips and of its speech."),
        figure("hidden", 8192, "The width of all but the decoder, an even number. Small: 32."),
        figure("layers", 256, "Layers of the text encoder. Small: 2."),
        figure("channels", 65_536, "The initial number of channels of the decoder. Small: 32."),
        Parameter {
            default: Default::Integer(1),
            ..figure("speakers", 100_000, "The number of speakers.")
        },
        Parameter {
            name: "discriminator",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(true),
            doc: "Adds a discriminator, which training needs and synthesis does not.",
            ..Parameter::BASE
        },
        SEED,
    ],
    ..Kind::BASE
};

pub static SPECTROGRAM: Kind = Kind {
    name: "vits.spectrogram",
    summary: "Computes linear spectrograms to train VITS models on, once for all trainings.",
    doc: "\
A clip is cut to whole frames and padded by reflection at both ends; a frame is in the middle of its
window. The sizes are those of `model`, or of the parameters if there is no `model`. The spectrogram
of a clip depends only on the clip and these sizes, not on the batch. It is computed on the CPU.

Without this stage every training computes the spectrograms again.",
    place: Place::Worker,
    cost: Cost::Rates(ANALYSED),
    batching: Batching::ByBytes { parameter: "batch" },
    inputs: &[
        InputPort {
            reads: FieldSet::These(CLIP),
            doc: "Clips as mono `audio/wav` at the model's rate.",
            ..InputPort::DATASET
        },
        InputPort { doc: "The model to train.", ..MODEL },
    ],
    outputs: &[OutputPort {
        writes: &[("spectrogram", FieldType::Blob), ("frames", FieldType::Number)],
        doc: "`spectrogram` is a NumPy array (`spectrogram/npy`) of magnitudes in f32, bins by \
              frames; `frames` is its length.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        rate(
            Default::Absent,
            "The sample rate that clips must have; 16000 if neither this nor `model` is given.",
        ),
        figure(
            "transform",
            8192,
            "Points of the transform, an even number; 1024 if neither this nor `model` is given.",
        ),
        figure(
            "hop",
            8192,
            "Samples from frame to frame; 256 if neither this nor `model` is given.",
        ),
        Parameter {
            name: "batch",
            parameter_type: ParameterType::Size,
            default: Default::Bytes(8_000_000),
            role: Role::Execution,
            doc: "The amount of audio per batch.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static SYNTHESIZE: Kind = Kind {
    name: "vits.synthesize",
    version: 2,
    summary: "Speaks sentences with a VITS model.",
    doc: "\
The audio depends only on the model, the text, the speaker, the seed and the parameters, not on the
other sentences. Texts are read as the model's tokenizer reads them, after letters and their marks
have become one character (NFC). Signs that the model does not know, such as punctuation, are dropped:
each is counted in the notes, and `unknown` lists those of a sentence. A sentence with letters or digits
that it does not know is quarantined, unless `on_unknown = \"report\"`: put the text stages of the training
before this one, such as `text.normalize` with `numbers`. A sentence with no known character is
quarantined too, and so are texts that are not romanised if the model was trained on romanised ones: put
a `command` stage with uroman before this one.

`duration_ratio` is the length relative to the text's length at `characters_per_second`, and
`loudness_slope` the change of loudness in dB per second: below 0 the voice fades. The notes give
the time that synthesis took, and so the real-time factor.

Sentences of `model.audition` carry their checkpoint; then `model` is not needed.",
    place: Place::Worker,
    cost: Cost::Rates(SPEECH),
    batching: Batching::Single,
    inputs: &[
        InputPort {
            reads: FieldSet::These(&[("text", FieldType::Text)]),
            may_read: &[
                ("weights", FieldType::Blob),
                ("speaker", FieldType::Text),
                ("speed", FieldType::Number),
                (PHONEMES, FieldType::Text),
            ],
            doc: "Sentences, of `corpus.sentences` for example, or of `model.audition`. The \
                  `speed` of a sentence multiplies `speaking_rate`.",
            ..InputPort::DATASET
        },
        InputPort {
            doc: "The model; not needed if each sentence carries its own.",
            brought_by: Some(WEIGHTS),
            ..MODEL
        },
    ],
    outputs: &[OutputPort {
        writes: &[
            ("audio", FieldType::Blob),
            ("frames", FieldType::Number),
            ("seconds", FieldType::Number),
            ("unknown", FieldType::Text),
            ("duration_ratio", FieldType::Number),
            ("loudness_slope", FieldType::Number),
        ],
        doc: "`audio` at the model's rate, its `frames` and `seconds`, the characters that were \
              dropped (`unknown`), and signs of a bad sentence.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        absent(number(
            "noise_scale",
            10.0,
            0.0,
            "The noise scale: variation of the sound. Default: that of the model.",
        )),
        absent(number(
            "noise_scale_duration",
            10.0,
            0.0,
            "The duration noise scale: variation of the rhythm. Default: that of the model.",
        )),
        absent(Parameter {
            parameter_type: ParameterType::Number { min: 0.05, max: 20.0 },
            ..number(
                "speaking_rate",
                20.0,
                1.0,
                "The speed, 2.0 is twice as fast. Default: that of the model.",
            )
        }),
        Parameter {
            name: "speaker",
            default: Default::Absent,
            doc: "The speaker, by name or number, for models with several. Default: the `speaker` \
                of each sentence.",
            ..Parameter::BASE
        },
        ON_UNKNOWN,
        duration("max_duration", 60.0, "A sentence that would be longer is quarantined."),
        CHARACTERS_PER_SECOND,
        SEED,
    ],
    ..Kind::BASE
};
