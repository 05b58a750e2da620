//! The kinds of the family `xtts` without training: new models, and longer vocabularies.

use crate::kinds::parameters::{SEED, at_least_one, choice, count};
use stage_core::cost::{Cost, Weights};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, Place, Work,
};

use super::mistakes;
use crate::artifact;
use crate::kinds::training::{MODEL_FIELDS, figure};

pub const KINDS: &[&Kind] = &[&INIT, &EXTEND];

pub(super) const MODEL: InputPort = InputPort {
    name: "model",
    reads: FieldSet::All,
    doc: "The model, of `model.import` for example.",
    takes: &[artifact::XTTS],
    ..InputPort::ARTIFACT
};

pub(super) const MODEL_OUTPUT: OutputPort = OutputPort {
    name: "model",
    writes: MODEL_FIELDS,
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
A whole model, with DVAE, decoder and speaker encoder, and a tokenizer of single characters. It is
untrained: its DVAE makes codes without meaning and its decoder makes noise. Import published
weights with `model.import` to train a voice.",
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Weights(Weights { start: 0.3, written: 1.0, streams: false }),
    inputs: &[],
    outputs: &[MODEL_OUTPUT],
    parameters: &[
        choice(
            "shape",
            &["small", "published"],
            "The base of the sizes below: `small` takes a training step in a moment on two cores, \
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
    check: mistakes::of_init,
    ..Kind::BASE
};

pub static EXTEND: Kind = Kind {
    name: "xtts.extend",
    version: 3,
    summary: "Adds a language to the tokenizer of an XTTS model.",
    doc: "\
Appends to the vocabulary the tag of `language`, the characters of the texts that it lacks, and
pieces of several characters: new merges are learned on the texts after the old merges. Ids never
move, and holes between them stay. The text embedding and the text head grow by as many rows: old
ones keep their bits, new ones are the mean of the old with a little noise. All other tensors do not
change. Train the model afterwards: the new rows are untrained.

Texts are cleaned as for training. Languages beyond the 17 of XTTS v2 lose straight quotes and
capitals, and keep everything else; spell out their numbers before. About 2000 pieces work well for
languages with a script of their own.",
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Weights(Weights { start: 0.3, written: 1.0, streams: true }),
    inputs: &[
        InputPort {
            reads: FieldSet::These(&[("text", FieldType::Text)]),
            doc: "Clips with the texts of the new language.",
            ..InputPort::DATASET
        },
        MODEL,
    ],
    outputs: &[MODEL_OUTPUT],
    parameters: &[
        Parameter {
            name: "language",
            doc: "The code of the language, such as `am`. A region after it is ignored.",
            ..Parameter::BASE
        },
        count("pieces", 2000, "The largest number of added pieces of several characters."),
        at_least_one(
            count("min_count", 2, "The smallest count of a pair of tokens that becomes a piece."),
            1_000_000_000,
        ),
        SEED,
    ],
    check: mistakes::of_language,
    ..Kind::BASE
};
