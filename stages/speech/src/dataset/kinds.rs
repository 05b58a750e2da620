//! The kinds of the family `dataset`: gathers on whole data sets.

use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType, Share,
    Work, artifact,
};

pub const KINDS: &[&Kind] = &[&SPLIT, &FILTER, &MERGE, &ITEM, &CORPUS, &PACK];

const GATHER: Kind = Kind { work: Work::Gather, ..Kind::BASE };

const WHOLE: InputPort =
    InputPort { reads: FieldSet::All, doc: "Items with all their fields.", ..InputPort::DATASET };

const FRACTION: &str = "fraction";

/// The value of `repeats` for which held-out clips with the sound of a training clip stay.
pub const KEEP_REPEATS: &str = "keep";

pub static SPLIT: Kind = Kind {
    name: "dataset.split",
    version: 2,
    summary: "Holds out clips for validation, by a hash of their ids.",
    doc: "A clip is held out if the hash of its id (or group) and the salt is below the fraction, \
        so added and removed clips move no others. The fraction is met on average. A speaker with \
        fewer held-out clips than `minimum_per_speaker` gets more, in the order of the hash; only \
        these can return to training, when a new clip of the speaker sorts before them. The notes \
        count texts that are on both sides; `group = \"text\"` keeps equal texts together. A \
        held-out clip with the sound of a training clip is quarantined, whatever its id: the model \
        has trained on this sound. Sounds are compared by the content of `audio`, so decode or \
        resample recordings of several formats first.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[WHOLE],
    outputs: &[
        OutputPort {
            name: "training",
            share: Some(Share::Rest(FRACTION)),
            doc: "The training items.",
            ..OutputPort::DATASET
        },
        OutputPort {
            name: "validation",
            share: Some(Share::Of(FRACTION)),
            doc: "The held-out items.",
            ..OutputPort::DATASET
        },
        OutputPort {
            name: "all",
            writes: &[("side", FieldType::Text)],
            doc: "The items of both sides, with `side` being `training` or `validation`.",
            ..OutputPort::DATASET
        },
    ],
    parameters: &[
        Parameter {
            name: FRACTION,
            parameter_type: ParameterType::Number { min: 0.0, max: 1.0 },
            default: Default::Number(0.025),
            doc: "The share that is held out.",
            ..Parameter::BASE
        },
        Parameter {
            name: "split_salt",
            default: Default::Text(""),
            doc: "Another text makes another split.",
            ..Parameter::BASE
        },
        Parameter {
            name: "group",
            default: Default::Absent,
            doc: "A field, such as `recording` or `speaker`; items with the same value stay on \
                one side.",
            ..Parameter::BASE
        },
        Parameter {
            name: "minimum_per_speaker",
            parameter_type: ParameterType::Integer { min: 0, max: 1_000_000 },
            default: Default::Integer(0),
            doc: "The smallest number of held-out clips of each speaker, counted before `repeats` \
                drops any.",
            ..Parameter::BASE
        },
        Parameter {
            name: "repeats",
            parameter_type: ParameterType::Choice(&["drop", KEEP_REPEATS]),
            default: Default::Text("drop"),
            doc: "Held-out clips with the sound of a training clip: `drop` quarantines them without \
                counting them as faults, `keep` leaves them on their side and notes them.",
            ..Parameter::BASE
        },
    ],
    ..GATHER
};

const CONDITION: &[Parameter] = &[
    Parameter { name: "field", doc: "The field, or `id`.", ..Parameter::BASE },
    Parameter { name: "min", doc: "The smallest number allowed.", ..BOUND },
    Parameter { name: "max", doc: "The largest number allowed.", ..BOUND },
    Parameter { name: "min_length", doc: "The fewest characters allowed.", ..BOUND },
    Parameter { name: "max_length", doc: "The most characters allowed.", ..BOUND },
    Parameter { name: "any_of", doc: "The texts that are allowed.", ..TEXTS },
    Parameter { name: "none_of", doc: "The texts that are not allowed.", ..TEXTS },
    Parameter {
        name: "not_empty",
        parameter_type: ParameterType::Flag,
        default: Default::Flag(false),
        doc: "The field must be there and hold something.",
        ..Parameter::BASE
    },
];

const BOUND: Parameter = Parameter {
    parameter_type: ParameterType::Number { min: f64::MIN, max: f64::MAX },
    default: Default::Absent,
    ..Parameter::BASE
};

const TEXTS: Parameter = Parameter {
    parameter_type: ParameterType::List(&ParameterType::Text),
    default: Default::Absent,
    ..Parameter::BASE
};

pub static FILTER: Kind = Kind {
    name: "dataset.filter",
    summary: "Keeps the items that meet every condition.",
    doc: "`where = [{ field = \"seconds\", min = 0.5, max = 20 }, { field = \"speaker\", any_of = \
        [\"anna\"] }]`. Dropped items are not quarantined, but counted by condition. An item \
        without a tested field is quarantined, unless the test is `not_empty`. A field that no \
        item has is an error.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[WHOLE],
    outputs: &[OutputPort { doc: "The items that are kept.", ..OutputPort::DATASET }],
    parameters: &[Parameter {
        name: "where",
        parameter_type: ParameterType::List(&ParameterType::Record(CONDITION)),
        doc: "The conditions.",
        ..Parameter::BASE
    }],
    ..GATHER
};

pub static MERGE: Kind = Kind {
    name: "dataset.merge",
    summary: "Joins several data sets into one.",
    doc: "An item that is equal in two sets appears once. Different items with the same id are an \
          error, unless `prefix = \"stage\"` puts the name of each item's stage before its id.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort { many: true, reads_name: true, ..WHOLE }],
    outputs: &[OutputPort { doc: "All items.", ..OutputPort::DATASET }],
    parameters: &[Parameter {
        name: "prefix",
        parameter_type: ParameterType::Choice(&["never", "stage"]),
        default: Default::Text("never"),
        doc: "The prefix of the ids.",
        ..Parameter::BASE
    }],
    ..GATHER
};

pub static ITEM: Kind = Kind {
    name: "dataset.item",
    summary: "Takes one item out, as an artifact.",
    doc: "For example the reference clip of a voice. The artifact has the fields of the item.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[WHOLE],
    outputs: &[OutputPort { open: true, doc: "The fields of the item.", ..OutputPort::ARTIFACT }],
    parameters: &[Parameter {
        name: "id",
        default: Default::Absent,
        doc: "The id of the item. Default: the only one.",
        ..Parameter::BASE
    }],
    ..GATHER
};

/// A clip as other programs read it.
const WRITTEN: InputPort = InputPort {
    reads: FieldSet::These(&[("audio", FieldType::Blob), ("text", FieldType::Text)]),
    may_read: &[("speaker", FieldType::Text)],
    reads_id: true,
    ..InputPort::DATASET
};

pub static CORPUS: Kind = Kind {
    name: "dataset.corpus",
    summary: "Writes clips and their texts as a corpus that other pipelines and programs read.",
    doc: "\
`export = \"out/corpus\"` writes a folder with `SPEAKER/CLIP.wav` and `SPEAKER/CLIP.lab`, as
`corpus.folder` reads them, and with `metadata.csv`, a table of `file|text|speaker`, as `corpus.table`
reads it. With `validation` there are two more tables, `train.csv` and `valid.csv`. The name of a clip
is its id, with `_` in place of `/`.

A clip that cannot be written is quarantined: its text has a bar or a line break, or two clips would
have one name.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort { doc: "Clips with their texts.", ..WRITTEN },
        InputPort { name: "validation", optional: true, doc: "Held-out clips.", ..WRITTEN },
    ],
    outputs: &[OutputPort {
        doc: "The files of the corpus.",
        gives: &[artifact::FILES],
        open: true,
        ..OutputPort::ARTIFACT
    }],
    parameters: &[Parameter {
        name: "speaker",
        default: Default::Text("speaker"),
        doc: "The speaker of clips that name none.",
        ..Parameter::BASE
    }],
    ..GATHER
};

pub static PACK: Kind = Kind {
    name: "dataset.pack",
    version: 2,
    summary: "Packs texts and tokens into shards.",
    doc: "`protos` is the training format of Fish Speech. `npy` is an array of all tokens, \
        codebooks by frames, and an index in JSON. The shard of a clip depends only on its id, so \
        a new clip rewrites one shard.",
    cost: Cost::Rates(Rates { bytes_per_second: 450.0, bytes_per_item: 200.0, ..Rates::LIGHT }),
    inputs: &[InputPort {
        reads: FieldSet::These(&[("text", FieldType::Text), ("tokens", FieldType::Blob)]),
        may_read: &[("speaker", FieldType::Text)],
        reads_id: true,
        doc: "Clips with tokens as `.npy` arrays of integers, codebooks by frames.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        open: true,
        doc: "The shards by file name: `00000000.protos`, or `00000000.npy` with `00000000.json`. \
            Shards without clips are left out.",
        gives: &[artifact::SHARDS],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "format",
            parameter_type: ParameterType::Choice(&["protos", "npy"]),
            default: Default::Text("protos"),
            doc: "The format of the shards.",
            ..Parameter::BASE
        },
        Parameter {
            name: "shards",
            parameter_type: ParameterType::Integer { min: 1, max: 65_536 },
            default: Default::Integer(16),
            doc: "The number of shards. Changing it moves clips between shards.",
            ..Parameter::BASE
        },
        Parameter {
            name: "integers",
            parameter_type: ParameterType::Choice(&["i64", "i32"]),
            default: Default::Text("i64"),
            doc: "The width of the integers of `npy`.",
            ..Parameter::BASE
        },
    ],
    ..GATHER
};
