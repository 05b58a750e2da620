//! The kinds of the family `xtts` but training: a model to begin with, a longer vocabulary.

use stage_core::catalogue::train::{SEED, absent, at_least_one, choice, count};
use stage_core::cost::{Cost, Weights};
use stage_core::{Default, FieldType, Kind, OutputPort, Parameter, Place, Work};

use crate::artifact;

pub const KINDS: &[&Kind] = &[&INIT];

const fn figure(name: &'static str, largest: i64, doc: &'static str) -> Parameter {
    absent(at_least_one(count(name, 0, doc), largest))
}

const MODEL_OUTPUT: OutputPort = OutputPort {
    name: "model",
    writes: &[("config", FieldType::Blob), ("family", FieldType::Text)],
    open: true,
    doc: "The model: `config`, `vocab.json`, `lineage` (its origin, as JSON), and one field \
          `tensor/NAME` for each tensor.",
    gives: &[artifact::XTTS],
    ..OutputPort::ARTIFACT
};

pub static INIT: Kind = Kind {
    name: "xtts.init",
    summary: "Makes an XTTS model with random weights, to try a pipeline without a download.",
    doc: "\
A whole model, with DVAE, decoder and speaker encoder, and a tokenizer of single characters. It
knows nothing: its DVAE makes codes without meaning and its decoder makes noise. Import published
weights with `model.import` to train a voice.",
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Weights(Weights { written: 1.0 }),
    inputs: &[],
    outputs: &[MODEL_OUTPUT],
    parameters: &[
        choice(
            "shape",
            &["small", "published"],
            "Where the sizes below begin: `small` takes a training step in a moment on two cores, \
             `published` has the 466 million parameters of XTTS v2 and 52 million of its DVAE.",
        ),
        Parameter {
            name: "characters",
            default: Default::Text("abcdefghijklmnopqrstuvwxyzåäö'-.,!?"),
            doc: "The characters that the model can read.",
            ..Parameter::BASE
        },
        Parameter {
            name: "languages",
            default: Default::Absent,
            doc: "Language codes with a tag in the vocabulary, separated by spaces, such as \
                  `en fi`; the 17 languages of XTTS v2 if not given.",
            ..Parameter::BASE
        },
        figure("layers", 256, "Blocks of the GPT. Small: 2."),
        figure("width", 8192, "Channels of the GPT, a multiple of its heads. Small: 64."),
        figure("heads", 256, "Heads of the GPT. Small: 4."),
        figure("audio_codes", 1 << 20, "Codes of the DVAE. Small: 32."),
        SEED,
    ],
    ..Kind::BASE
};
