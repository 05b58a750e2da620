//! The training kinds of the family `xtts`: the whole GPT, adapters, and their merge.

use crate::kinds::parameters::{
    absent, at_least_one, checkpoints, choice, count, duration, from, join, number, shared,
    with_count, with_number,
};
use stage_core::cost::{Cost, Training, Weights};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    ParentNeeds, Place, Work,
};

use super::{kinds, mistakes};
use crate::artifact;
use crate::kinds::training::{LOG, adapters, lora, patterns, validation};

pub const KINDS: &[&Kind] = &[&FINETUNE, &LORA, &MERGE];

const CLIP: &[(&str, FieldType)] =
    &[("text", FieldType::Text), ("tokens", FieldType::Blob), ("audio", FieldType::Blob)];

const MAY_READ: &[(&str, FieldType)] = &[("language", FieldType::Text)];

const CLIPS: InputPort = InputPort {
    reads: FieldSet::These(CLIP),
    may_read: MAY_READ,
    doc: "Clips with texts, mono `audio/wav` at 22,050 Hz, and `tokens` that `vq.encode` has made of \
          the same audio with the DVAE of this model.",
    ..InputPort::DATASET
};

const BASE: InputPort = InputPort {
    name: "base",
    doc: "The model to begin from.",
    // Rows of another vocabulary stand for other tokens.
    parent_needs: ParentNeeds::Fields(&[artifact::VOCABULARY]),
    ..kinds::MODEL
};

/// Adapters mean nothing beside another base.
const ADAPTED: InputPort = InputPort { parent_needs: ParentNeeds::Everything, ..BASE };

pub(super) const ADAPTERS: InputPort = InputPort {
    name: "adapters",
    reads: FieldSet::All,
    doc: "Adapters of `xtts.lora`, trained on `base`.",
    takes: &[artifact::XTTS_LORA],
    ..InputPort::ARTIFACT
};

const MODEL_OUTPUT: OutputPort = OutputPort {
    doc: "The whole model: the trained GPT, and DVAE, decoder and speaker encoder as they were in \
          `base`.",
    ..kinds::MODEL_OUTPUT
};

const TRAINING_DOC: &str = "\
A row holds the vectors of a conditioning crop, the text and the codes of one clip. The loss is 0.01
times the cross-entropy of the text plus that of the codes, each a mean over all labels of a step.
DVAE, decoder and speaker encoder do not change.

The conditioning is a crop of the clip itself, of 3 to 6 seconds (half of a shorter clip), drawn
from `seed`, step and clip. The codes of the crop are not labels, so that the model does not learn
to read its reference aloud. Held-out clips have the same crop each time, the first 4.5 seconds,
under the same rule, so that their loss compares with that of the training. `parity = \"upstream\"`
repeats two defects of the original: only the last clip of each batch has labels left out, at four
times the position, and held-out clips have none left out.

Clips are quarantined if they are shorter than `min_seconds` or longer than `max_seconds`, if their
text has more than `max_text_tokens` tokens or characters that the vocabulary lacks, if their
language has no tag, or if the audio has another rate. None is replaced by another one. If more than
`quarantine` are quarantined, the stage fails before its first step.

`train_first` is for a new language: in these first steps only the text embedding and its head are
trained; all other tensors and their moments do not change.

A run that is stopped, killed or cut off resumes from its last checkpoint and ends with the same
weights as an uninterrupted run: on the CPU to the bit, on a GPU to rounding. Before the first step a
preflight evaluates a few clips, makes two steps, repeats them with a stop, a save and a reload
between them, and refuses losses that are not finite, frozen tensors that change, and a base with a
worse loss than guessing.

The recipe of the original trains with `batch = 3` and `accumulation = 84`; its authors report
`batch = 8` and `accumulation = 1`, the default here. On a small corpus the former takes more than
one pass over the clips per step.";

pub static FINETUNE: Kind = Kind {
    name: "xtts.finetune",
    version: 4,
    summary: "Trains the GPT of an XTTS model on clips.",
    doc: TRAINING_DOC,
    work: Work::Train,
    place: Place::Worker,
    cost: Cost::Training(Training { family: artifact::XTTS, adapters: false }),
    inputs: &[CLIPS, validation(CLIP, MAY_READ), BASE],
    outputs: &[MODEL_OUTPUT, LOG, checkpoints(&[artifact::XTTS])],
    parameters: &FINETUNE_PARAMETERS,
    check: mistakes::of_finetune,
    ..Kind::BASE
};

pub static LORA: Kind = Kind {
    name: "xtts.lora",
    version: 4,
    summary: "Trains low-rank adapters beside the frozen GPT of an XTTS model.",
    doc: "\
The base does not change, to the bit; two small matrices beside each chosen module are trained, and
saved alone, with the digest of their base. `adapters` continues from adapters of an earlier run on
the same base; `xtts.merge` adds them to it.

Training is that of `xtts.finetune`, and so are its preflight and `parity`. With fresh adapters the
loss must equal that of the base to the bit.",
    work: Work::Train,
    place: Place::Worker,
    cost: Cost::Training(Training { family: artifact::XTTS, adapters: true }),
    inputs: &[CLIPS, validation(CLIP, MAY_READ), ADAPTED, InputPort { optional: true, ..ADAPTERS }],
    outputs: &[adapters(&[artifact::XTTS_LORA]), LOG, checkpoints(&[artifact::XTTS_LORA])],
    parameters: &LORA_PARAMETERS,
    check: mistakes::of_training,
    ..Kind::BASE
};

pub static MERGE: Kind = Kind {
    name: "xtts.merge",
    version: 2,
    summary: "Adds adapters to the XTTS model that they were trained on.",
    doc: "\
The sum is made in f32 and rounded once, to the type of each tensor in the base. Adapters of another
base are refused.",
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Weights(Weights { start: 0.0, written: 1.0, streams: true }),
    inputs: &[BASE, ADAPTERS],
    outputs: &[MODEL_OUTPUT],
    parameters: &[],
    ..Kind::BASE
};

const COMMON: usize = 42;

/// The parameters of both trainings.
const SHARED: [Parameter; COMMON] = join(FIRST, from::<18>("gradient_checkpointing"));

const FIRST: [Parameter; 24] = [
    shared("steps"),
    shared("epochs"),
    with_number("learning_rate", 5e-6),
    with_count("warm_up", 0),
    shared("schedule"),
    shared("final_rate"),
    Parameter { doc: "Clips that are computed at a time.", ..with_count("batch", 8) },
    shared("accumulation"),
    Parameter {
        name: "language",
        default: Default::Absent,
        doc: "The language of all clips, such as `en` or `pt-br`, where clips have no field \
              `language`.",
        ..Parameter::BASE
    },
    duration("min_seconds", 0.5, "The shortest clip."),
    duration("max_seconds", 11.6, "The longest clip."),
    at_least_one(count("max_text_tokens", 200, "Tokens of the longest text."), 100_000),
    choice(
        "sampling",
        &["without_replacement", "upstream"],
        "Order of the clips. `upstream` draws each clip anew, first a language, each equally often, \
         then a clip of it: a pass sees about 63 % of the clips, those of rare languages several \
         times.",
    ),
    number("dropout", 0.99, 0.1, "On the embeddings and the output of attention and MLP."),
    Parameter {
        doc: "On the weights of attention; `dropout` if not given. A fused kernel computes \
              attention only without it.",
        ..absent(number("attention_dropout", 0.99, 0.1, ""))
    },
    shared("precision"),
    shared("attention"),
    Parameter {
        doc: "The text and the codes of a row follow each other, with padding on the right alone, and \
              attention needs no mask. Off, both are padded to the longest of the batch behind a \
              mask, as in the original. Losses and gradients agree to rounding.",
        ..shared("packing")
    },
    shared("optimizer"),
    Parameter {
        doc: "Decoupled; never on biases, norms and embeddings.",
        ..with_number("weight_decay", 1e-2)
    },
    with_number("beta_1", 0.9),
    with_number("beta_2", 0.96),
    with_number("epsilon", 1e-8),
    with_number("clip", 0.0),
];

static FINETUNE_PARAMETERS: [Parameter; COMMON + 2] = join(
    [
        patterns(
            "freeze",
            Default::Texts(&[]),
            "Patterns of the tensors that stay as they are, such as `gpt.conditioning_*` or \
             `gpt.gpt.h.0.*`; `*` stands for anything. The notes have the number of matches of \
             each; a pattern without matches is an error. The backward pass runs, and keeps \
             activations, from the first block with a trained tensor on; it covers all blocks if \
             conditioning or embeddings are trained.",
        ),
        Parameter {
            doc: "Steps at the beginning in which only the text embedding and its head are \
                  trained, or a share of all steps.",
            parameter_type: ParameterType::CountOrShare { min: 0, max: 1_000_000_000 },
            ..count("train_first", 0, "")
        },
    ],
    SHARED,
);

static LORA_PARAMETERS: [Parameter; COMMON + 4] = join(
    lora(
        (16, 32.0),
        ("lora_dropout", 0.0),
        &[
            "gpt.gpt.h.*.attn.c_attn",
            "gpt.gpt.h.*.attn.c_proj",
            "gpt.gpt.h.*.mlp.c_fc",
            "gpt.gpt.h.*.mlp.c_proj",
        ],
    ),
    SHARED,
);
