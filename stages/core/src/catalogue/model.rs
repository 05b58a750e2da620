//! The kinds of the family `model`: published weights as artifacts.

use crate::kind::{FieldType, Fields, InputPort, Kind, OutputPort, Work};
use crate::parameter::{Default, Parameter, ParameterType};

pub const KINDS: &[&Kind] = &[&IMPORT];

pub static IMPORT: Kind = Kind {
    name: "model.import",
    summary: "Turns published weights into a model.",
    doc: "\
The asset is a folder with a file of weights (`.safetensors`, `.pth`, `.pt`, `.ckpt` or `.bin`),
`config.json` and the files of the tokenizer, or a single file of weights. Pickles are never run:
a file that holds anything but tensors is read past it. Each tensor is stored once by its content,
so that models that share tensors share the space as well.

Names lose what training tools put before them (`state_dict`, `model.`, `generator.`); rotation
tables and masks are left out, since they are made anew; separate matrices of queries, keys and
values become one. The tensors of a text model are compared with what its `config.json` asks for,
and the size of its tokenizer with its vocabulary.",
    work: Work::Gather,
    inputs: &[InputPort {
        name: "asset",
        reads: Fields::All,
        doc: "The files, of `[assets]`.",
        ..InputPort::ARTIFACT
    }],
    outputs: &[OutputPort {
        name: "model",
        writes: &[("config", FieldType::Blob), ("family", FieldType::Text)],
        open: true,
        doc: "The model: `config`, `family`, the tokenizer's files, `license` where it is known, \
              and one field `tensor/NAME` for each tensor.",
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "family",
            parameter_type: ParameterType::Choice(&["auto", "fish-dual-ar", "fish-dac"]),
            default: Default::Text("auto"),
            doc: "What the weights are: a text model of Fish Speech, its codec, or what the names \
                  of the tensors say.",
            ..Parameter::BASE
        },
        Parameter {
            name: "file",
            default: Default::Absent,
            doc: "The file of weights in the asset. Needed where there are several, of which none \
                  is `model.safetensors` or `model.pth` (for `fish-dac` these names begin with \
                  `codec`).",
            ..Parameter::BASE
        },
        Parameter {
            name: "config",
            default: Default::Absent,
            doc: "The file in the asset with the configuration. If not given, a text model has \
                  `config.json` beside the weights, and a codec is the published one.",
            ..Parameter::BASE
        },
        Parameter {
            name: "dtype",
            parameter_type: ParameterType::Choice(&["keep", "f32", "bf16", "f16"]),
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
