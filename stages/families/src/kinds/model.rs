//! The kinds of the family `model`: import of published weights, and export.

use crate::artifact;
use stage_core::artifact::FILES;
use stage_core::cost::{Cost, Rates, Weights};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType, Work,
};

pub const KINDS: &[&Kind] = &[&IMPORT, &EXPORT, &AUDITION];

/// The families of published weights, for the parameter `family`.
const MODELS: &[&str] =
    &[artifact::DUAL_AR, artifact::DAC, artifact::VITS, artifact::WAV2VEC2, artifact::XTTS];

pub static IMPORT: Kind = Kind {
    name: "model.import",
    version: 2,
    summary: "Turns published weights into a model.",
    doc: "\
The asset is a folder with a file of weights (`.safetensors`, `.pth`, `.pt`, `.ckpt` or `.bin`),
`config.json` and the files of the tokenizer, or a single file of weights. Pickles are never run:
a file that holds anything but tensors is read past it. Each tensor is stored once by its content,
so that models that share tensors share the space as well.

Files are read a tensor at a time: the memory that an import needs is a few times the largest tensor,
however large the file. A file that is none is refused by its head and its directory.

Names lose what training tools put before them (`state_dict`, `model.`, `generator.`); rotation
tables and masks are left out, since they are made anew; separate matrices of queries, keys and
values become one. The tensors of a text model, a VITS model or a speech recogniser are compared
with what its `config.json` asks for, and the size of its tokenizer with its vocabulary.

VITS models are those of transformers (`vocab.json` and `tokenizer_config.json` beside),
finetune-hf-vits at any moment of training, and the original project (`G_100000.pth`, `config.json`,
`vocab.txt`, as MMS publishes them), which become models of transformers. Each weight stays whole,
or a length and a direction, as the file has it; a discriminator stays where there is one.
`speakers.json`, as `model.export` writes it, names the speakers. Models that read phonemes of
espeak are refused. Models that read romanised texts (`is_uroman`) are taken, and the notes say so:
`text.audit`, `vits.finetune` and `vits.synthesize` set aside or refuse texts with letters or digits
beyond ASCII for them, which a `command` stage with uroman has to write anew before.

Speech recognisers (`wav2vec2`) are checkpoints of `Wav2Vec2ForCTC` of transformers without adapters,
with `vocab.json` and `preprocessor_config.json` beside; `asr.transcribe` hears with them.

XTTS v2 models are `model.pth` of the release or a checkpoint of its trainer, with `config.json` and
`vocab.json` beside. `dvae.pth`, which training needs, `mel_stats.pth` and `speakers_xtts.pth` are
taken where they are; copies of tensors, filters and the optimizer's state are left out. Sizes that
`config.json` does not give follow from the tensors.",
    work: Work::Gather,
    cost: Cost::Weights(Weights { written: 1.0 }),
    inputs: &[InputPort {
        name: "asset",
        reads: FieldSet::All,
        doc: "The files, of `[assets]`.",
        takes: &[FILES],
        ..InputPort::ARTIFACT
    }],
    outputs: &[OutputPort {
        name: "model",
        writes: &[("config", FieldType::Blob), ("family", FieldType::Text)],
        open: true,
        doc: "The model: `config`, `family`, the tokenizer's files, `license` where it is known, \
              and one field `tensor/NAME` for each tensor.",
        gives: MODELS,
        given_by: Some("family"),
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "family",
            parameter_type: ParameterType::Choice(&[
                "auto",
                "fish-dual-ar",
                "fish-dac",
                "vits",
                "wav2vec2",
                "xtts",
            ]),
            default: Default::Text("auto"),
            doc: "The type of the weights: a text model of Fish Speech, its codec, a VITS model, \
                a speech recogniser, an XTTS model, or detected from the names of the tensors.",
            ..Parameter::BASE
        },
        Parameter {
            name: "file",
            default: Default::Absent,
            doc: "The weight file in the asset. Required if there are several and none is \
                `model.safetensors` or `model.pth` (for `fish-dac` these names begin with \
                `codec`).",
            ..Parameter::BASE
        },
        Parameter {
            name: "config",
            default: Default::Absent,
            doc: "The file in the asset with the configuration. If not given, a model has \
                  `config.json` beside the weights; a codec has `codec.json`, or is the \
                  published one where there is none.",
            ..Parameter::BASE
        },
        Parameter {
            name: "discriminator",
            default: Default::Absent,
            doc: "For VITS models of the original project: the file in the asset with the \
                  discriminator, such as `D_100000.pth`, which training goes on with.",
            ..Parameter::BASE
        },
        Parameter {
            name: "dtype",
            parameter_type: ParameterType::Choice(&["keep", "bf16", "fp16", "f32"]),
            default: Default::Text("keep"),
            doc: "The type that floating-point tensors are stored in; `keep` leaves each as it is.",
            ..Parameter::BASE
        },
        Parameter {
            name: "license",
            default: Default::Absent,
            doc: "The licence of the weights. If not given, the one that the head of the asset's \
                  `README.md` names.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static EXPORT: Kind = Kind {
    name: "model.export",
    summary: "Turns a model into the files of the original project.",
    doc: "\
With `export = \"out/voice\"` the stage writes a folder that the original project loads. A text
model has `model.pth`, `config.json`, `tokenizer.tiktoken` and `special_tokens.json`. A codec has
`codec.pth`, and `codec.json` where it is not the published one. Adapters have `adapters.pth`, with
the names that loralib gives, and `adapters.json` with their base, rank and alpha. A VITS model has
`model.safetensors` (`pytorch_model.bin` as `pth`), `config.json`, `vocab.json` and
`tokenizer_config.json`, which `VitsModel` and `VitsTokenizer` of transformers load, and
`speakers.json` where its speakers have names. An XTTS model has `model.pth`, `config.json`,
`vocab.json`, `dvae.pth`, `mel_stats.pth` and `speakers_xtts.pth`, which `Xtts.load_checkpoint` and
the trainer load. Of these there are those that the model has; where there is one alone, `export`
names the file itself: `export = \"out/voice/codec.pth\"`.

The weights are one flat state dict in C order (of XTTS under the key `model`), under the names that
the original has now, and `model.import` gives the same tensors again, to the bit unless `dtype`
says otherwise. Of a VITS model there are the weights that it speaks with: those that transformers
wants whole are made whole, in f32 unless `dtype` says otherwise, and a discriminator is left out
unless `discriminator` asks for it. A licence that the model carries stands in the head of
`README.md`, where `model.import` finds it.",
    work: Work::Gather,
    cost: Cost::Weights(Weights { written: 1.0 }),
    inputs: &[InputPort {
        name: "model",
        reads: FieldSet::All,
        doc: "A model or adapters: of `model.import`, `fish.finetune`, `fish.lora`, `fish.merge` \
            or `vits.finetune`, for example.",
        takes: &[artifact::DUAL_AR, artifact::LORA, artifact::DAC, artifact::VITS, artifact::XTTS],
        ..InputPort::ARTIFACT
    }],
    outputs: &[OutputPort {
        name: "files",
        open: true,
        doc: "One field for each file, named like it.",
        gives: &[FILES],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "format",
            parameter_type: ParameterType::Choice(&["auto", "pth", "safetensors"]),
            default: Default::Text("auto"),
            doc: "The format of the weights. `auto` is the format that the original project reads: \
                  `pth` for Fish Speech and XTTS, `safetensors` for VITS.",
            ..Parameter::BASE
        },
        Parameter {
            name: "discriminator",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(false),
            doc: "For VITS models: writes the discriminator beside, so that training can go on \
                elsewhere, as `discriminator.safetensors` or `discriminator.pth`: a flat state \
                dict under the names of the original project, weights in pairs. `model.import` \
                takes it back with its own `discriminator`, to the bit unless `dtype` says \
                otherwise.",
            ..Parameter::BASE
        },
        Parameter {
            name: "dtype",
            parameter_type: ParameterType::Choice(&["keep", "bf16", "fp16", "f32"]),
            default: Default::Text("keep"),
            doc: "The type that floating-point tensors are written in; `keep` leaves each as it is.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static AUDITION: Kind = Kind {
    name: "model.audition",
    summary: "Has each checkpoint speak each sentence.",
    doc: "\
Makes an item of every sentence and every checkpoint that a training kept, for one stage that
speaks them all: `fish.synthesize` or `vits.synthesize`. The item of `hello` and `step-400` is
`hello@step-400`. Each item depends only on the sentence and the checkpoint's weights, so
another sentence costs as many syntheses as there are checkpoints, and a checkpoint that was kept
before costs none.

To go on with the one that sounds best, take it out with `dataset.item`, as a model or as adapters:
`input = \"trained.checkpoints\"`, `id = \"step-400\"`.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::All,
            doc: "Sentences with all their fields, of `corpus.sentences` for example.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "checkpoints",
            reads: FieldSet::These(&[("step", FieldType::Number), ("weights", FieldType::Blob)]),
            reads_id: true,
            doc: "The `checkpoints` of a training.",
            ..InputPort::DATASET
        },
    ],
    outputs: &[OutputPort {
        writes: &[
            ("sentence", FieldType::Text),
            ("checkpoint", FieldType::Text),
            ("step", FieldType::Number),
            ("weights", FieldType::Blob),
        ],
        doc: "The sentences, each as often as there are checkpoints: `sentence` and `checkpoint` \
              are the ids of the two, `step` and `weights` those of the checkpoint.",
        ..OutputPort::DATASET
    }],
    ..Kind::BASE
};
