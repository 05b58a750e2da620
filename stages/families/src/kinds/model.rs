//! The kinds of the family `model`: import of published weights, and export.

use crate::artifact;
use crate::kinds::parameters::known;
use stage_core::artifact::{FILES, WEIGHTS};
use stage_core::cost::{Cost, Rates, Weights};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, Mistake, OutputPort, Parameter, ParameterType,
    Parameters, Work,
};

pub const KINDS: &[&Kind] = &[&IMPORT, &EXPORT, &AUDITION];

/// The families of published weights, for the parameter `family`.
const MODELS: &[&str] =
    &[artifact::DUAL_AR, artifact::DAC, artifact::VITS, artifact::WAV2VEC2, artifact::XTTS];

pub static IMPORT: Kind = Kind {
    name: "model.import",
    version: 2,
    summary: "Imports published weights as a model.",
    doc: "\
The asset is a folder with a file of weights (`.safetensors`, `.pth`, `.pt`, `.ckpt`, `.bin` or `.onnx`),
`config.json` and the files of the tokenizer, or a single file of weights. Weights in shards are read by
their index (`model.safetensors.index.json`, `pytorch_model.bin.index.json`) beside them. Pickles are never
executed: anything in a file that is not a tensor is skipped. Each tensor is stored once by its
content, so that models that share tensors share the space as well. A model of the Hugging Face Hub is
an asset too: `path = \"hf://OWNER/NAME@REVISION\"`.

Files are read one tensor at a time: an import needs a few times the memory of the largest tensor,
however large the file is. A file without weights is refused after its header and its directory are
read.

Prefixes of training tools (`state_dict`, `model.`, `generator.`) are removed from names;
`module.` and `_orig_mod.` too, with a note, if every name has them; rotary
tables and masks are left out, since they are computed; separate matrices of queries, keys and
values are joined. Tensors are checked against `config.json` (of a codec, `codec.json`), and the size of
a tokenizer against its vocabulary. As in the original projects, further tensors are left out, and
fields without effect are kept; the notes name and count both. Further tensors of an XTTS model are an
error, as in the original.

VITS models are those of transformers (`vocab.json` and `tokenizer_config.json` beside),
finetune-hf-vits at any moment of training, and the original project (`G_100000.pth`, `config.json`,
`vocab.txt`, as MMS publishes them), which become models of transformers. Each weight stays plain or
weight-normalised, as in the file; a discriminator is kept. `speakers.json`, as `model.export`
writes it, names the speakers. Models that read phonemes of espeak are refused. Models that read
romanised texts (`is_uroman`) are imported with a note: `text.audit`, `vits.finetune` and
`vits.synthesize` quarantine or refuse texts with letters or digits beyond ASCII for them; romanise
these before, with uroman in a `command` stage.

A voice of Piper is a graph with its description beside it (`NAME.onnx`, `NAME.onnx.json`). Its sizes come from the
graph. It speaks what `text.phonemise` writes; a graph lacks the
parts that only training needs, so `vits.complete` comes before `vits.finetune`. The tests have a voice of quality `medium`; those of other qualities and of
several speakers are read by the same rules. `phoneme_type` is `espeak` or `text`. A `phoneme_map`, or a symbol with several numbers, is refused. Beside other
weights a graph is taken for their export; `file` chooses it.

A checkpoint of Piper's trainer (Lightning, `.ckpt`) is the whole model with its discriminator, and can be trained at once.
Its sizes come from the `hyper_parameters` in it; `config.json` of the training, beside it or as `config`, has the
symbols. The file is read as data: nothing in it is run, and paths and other objects are ignored.

Speech recognisers (`wav2vec2`) are checkpoints of `Wav2Vec2ForCTC` of transformers without
adapters, with `vocab.json` and `preprocessor_config.json` beside; `asr.transcribe` uses them. The
weights may also be those of a pipeline of torchaudio, such as `MMS_FA`, which come without these two
files and `config.json`: the guide to long recordings has all three.

XTTS v2 models are `model.pth` of the release or a checkpoint of its trainer, with `config.json` and
`vocab.json` beside. `dvae.pth`, which training needs, `mel_stats.pth` and `speakers_xtts.pth` are
read if they exist; copies of tensors, filters and the optimizer's state are left out. Sizes that
`config.json` does not give follow from the tensors.",
    work: Work::Gather,
    cost: Cost::Weights(Weights { start: 0.0, written: 1.0, streams: true }),
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
                `codec`); of the folder of a trainer of XTTS, the newest `best_model` is taken, or \
                else the newest `checkpoint`, which a note names.",
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
                  discriminator, such as `D_100000.pth`, for further training.",
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
    version: 2,
    summary: "Writes a model as files of the original project.",
    doc: "\
With `export = \"out/voice\"` the stage writes a folder that the original project loads. A text model
has `model.pth`, `config.json`, `tokenizer.tiktoken` and `special_tokens.json`. A codec has
`codec.pth`, and `codec.json` where it is not the published one. Adapters have `adapters.pth`, with
the names that loralib gives, and `adapters.json` with their base, rank and alpha. A VITS model has
`model.safetensors` (`pytorch_model.bin` as `pth`), `config.json`, `vocab.json` and
`tokenizer_config.json`, which `VitsModel` and `VitsTokenizer` of transformers load, and
`speakers.json` where its speakers have names. An XTTS model has `model.pth`, `config.json`,
`vocab.json`, `dvae.pth`, `mel_stats.pth` and `speakers_xtts.pth`, which `Xtts.load_checkpoint` and
the trainer load. Only files that the model has are written; if there is only one, `export` names
the file itself: `export = \"out/voice/codec.pth\"`.

The weights are one flat state dict in C order (for XTTS under the key `model`), under the current
names of the original. `model.import` reads the same tensors again, to the bit unless `dtype`
changes them. For a VITS model these are the weights of synthesis: weight normalisation is removed
where transformers expects plain weights, in f32 unless `dtype` says otherwise, and a discriminator
is left out unless `discriminator` is set. The licence of the model is in the head of `README.md`,
where `model.import` finds it.

`format = \"onnx\"` writes a VITS model as a graph, `model.onnx`, which programs run without PyTorch:
`target = \"sherpa\"` for sherpa-onnx, with `tokens.txt`; `\"piper\"` for Piper, with `model.onnx.json`;
`\"plain\"` for programs of your own, with the files of the tokenizer. It has what synthesis needs:
no posterior encoder, no discriminator, no weight normalisation. Noise is drawn in the graph, so
only without noise two runs are the same. The licence is in the metadata. A plain graph takes
`input` (tokens with blanks, one text), `input_lengths`, `scales` (noise, length, noise of
durations) and, with several speakers, `sid`, and gives `output`.

If `python3` on the path has onnxruntime, the stage runs the graph once and fails if that fails; a
note says which. Models of romanised texts are only written as `plain`, since the programs do not
romanise; Piper takes no letters with several marks. A model that reads phonemes is written for
Piper, with `tokens.txt`, so that sherpa-onnx reads the same graph.",
    work: Work::Gather,
    cost: Cost::Weights(Weights { start: 0.0, written: 1.0, streams: false }),
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
            parameter_type: ParameterType::Choice(&["auto", "pth", "safetensors", "onnx"]),
            default: Default::Text("auto"),
            doc: "The format of the weights. `auto` is the format that the original project reads: \
                  `pth` for Fish Speech and XTTS, `safetensors` for VITS. `onnx` is a graph with \
                  the weights in it.",
            ..Parameter::BASE
        },
        Parameter {
            name: "target",
            parameter_type: ParameterType::Choice(&["sherpa", "piper", "plain"]),
            default: Default::Absent,
            doc: "The program that the graph is for; `plain` if not given.",
            ..Parameter::BASE
        },
        Parameter {
            name: "discriminator",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(false),
            doc: "For VITS models: also writes the discriminator, so that training can continue \
                elsewhere, as `discriminator.safetensors` or `discriminator.pth`: a flat state \
                dict under the names of the original project, with weight normalisation. \
                `model.import` reads it with its own `discriminator`, to the bit unless `dtype` \
                changes it.",
            ..Parameter::BASE
        },
        Parameter {
            name: "dtype",
            parameter_type: ParameterType::Choice(&["keep", "bf16", "fp16", "f32", "int8"]),
            default: Default::Text("keep"),
            doc: "The type that floating-point tensors are written in; `keep` leaves each as it is. \
                  A graph computes in f32: `keep` is f32 there, `fp16` and `int8` store the \
                  weights in half and a quarter of the space. `int8` is for graphs only.",
            ..Parameter::BASE
        },
    ],
    check: graph_mistakes,
    ..Kind::BASE
};

/// Models and adapters that speak.
const VOICES: &[&str] =
    &[artifact::DUAL_AR, artifact::LORA, artifact::VITS, artifact::XTTS, artifact::XTTS_LORA];

fn graph_mistakes(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let text = |name: &str| known(parameters, unknown, name, Parameters::text);
    let Some(format) = text("format") else { return Vec::new() };
    let is_graph = format == "onnx";
    let mut mistakes = Vec::new();
    if !is_graph && text("target").is_some() {
        let message = "only a graph has a target";
        mistakes.push(Mistake::new("target", message, "give `format = \"onnx\"`, or leave it out"));
    }
    match text("dtype") {
        Some("int8") if !is_graph => {
            let message = "only a graph is written in int8";
            mistakes.push(Mistake::new("dtype", message, "give `format = \"onnx\"`"));
        }
        Some("bf16") if is_graph => {
            let message = "a graph is not written in bf16";
            mistakes.push(Mistake::new("dtype", message, "give `fp16`, `int8` or `f32`"));
        }
        _ => {}
    }
    let judge = known(parameters, unknown, "discriminator", Parameters::flag) == Some(true);
    if is_graph && judge {
        let message = "a graph has no discriminator";
        mistakes.push(Mistake::new("discriminator", message, "leave it out"));
    }
    mistakes
}

pub static AUDITION: Kind = Kind {
    name: "model.audition",
    summary: "Pairs each checkpoint with each sentence.",
    doc: "\
Makes an item of every sentence and every checkpoint that a training kept, for one stage that
speaks them all: `fish.synthesize`, `vits.synthesize` or `xtts.synthesize`; where the checkpoints are
adapters, that stage needs their base on `model`. The item of `hello` and `step-400` is
`hello@step-400`. Each item depends only on the sentence and the checkpoint's weights, so
another sentence costs as many syntheses as there are checkpoints, and a checkpoint that was kept
before costs none.

The model on `base` speaks as `hello@base`, at step 0, so that `quality.choose` and `quality.gain`
can compare others with it; those on `models` speak as `hello@STAGE`, at the step after the last
checkpoint, in the order of their stages.

To continue with the checkpoint that sounds best, select it with `dataset.item`, as a model or as
adapters: `input = \"trained.checkpoints\"`, `id = \"step-400\"`.",
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
            optional: true,
            doc: "The `checkpoints` of a training.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "base",
            optional: true,
            doc: "The untuned model, which speaks each sentence too.",
            takes: VOICES,
            ..InputPort::ARTIFACT
        },
        InputPort {
            name: "models",
            reads_name: true,
            many: true,
            optional: true,
            doc: "Other models, such as the results of several stages.",
            takes: VOICES,
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[
            ("sentence", FieldType::Text),
            ("checkpoint", FieldType::Text),
            ("step", FieldType::Number),
            (WEIGHTS, FieldType::Blob),
        ],
        doc: "One item for each sentence and each checkpoint or model: `sentence` and `checkpoint` \
              are the ids of the two, `step` and `weights` those of the checkpoint.",
        ..OutputPort::DATASET
    }],
    ..Kind::BASE
};
