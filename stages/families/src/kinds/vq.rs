//! The kinds of the family `vq`: audio to tokens and back.

use crate::artifact;
use crate::kinds::parameters::{SEED, at_least_one, count};
use stage_core::cost::{Cost, Rates};
use stage_core::{
    Batching, Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    Place, Role, Unit, Work,
};

pub const KINDS: &[&Kind] = &[&FIT, &ENCODE, &ADOPT, &DECODE];

/// The field for tokens that a corpus found beside its clips, not yet validated.
pub const FOUND_TOKENS: &str = "found_tokens";

const FITTED: Rates = Rates {
    start: 1.0,
    bytes_per_item: 0.0,
    origin: "the embedded codec is fitted in a second or a few on two cores",
    ..Rates::LIGHT
};
const ENCODED: Rates = Rates {
    start: 5e-3,
    model: None,
    on_processor: false,
    seconds_per_item: 5e-3,
    seconds_per_second: 0.03,
    // 21.5 frames of 10 codes of 2 bytes, and the header of an array.
    bytes_per_second: 430.0,
    sample_rate: None,
    bytes_per_item: 128.0,
    // The first convolution has 64 channels of f32 for each sample of 44.1 kHz, and several such
    // tensors exist at a time.
    vram_per_second: 4.0 * 11.3e6,
    spread: 3.0,
    origin: "an A100 encodes 4 h of sound with the codec of Fish Speech in 15 min with reading and \
             writing, as its users report; half of that is assumed for the codec itself",
};
const SPOKEN: Rates = Rates { bytes_per_second: 88_200.0, ..ENCODED };

const MODEL: &[(&str, FieldType)] = &[("model", FieldType::Blob)];

/// The codec of a stage: its fields depend on the stage that made it.
const CODEC: InputPort = InputPort {
    name: "codec",
    reads: FieldSet::All,
    doc: "The codec: a `vq.fit` stage, `model.import` with the file of a Fish codec, or an XTTS \
        model with its DVAE.",
    takes: artifact::CODECS,
    ..InputPort::ARTIFACT
};

const BATCH: Parameter = Parameter {
    name: "batch",
    parameter_type: ParameterType::Size,
    role: Role::Execution,
    ..Parameter::BASE
};

pub static FIT: Kind = Kind {
    name: "vq.fit",
    summary: "Fits the embedded codec `mel-rvq` on a corpus, in seconds.",
    doc: "\
The codec is residual k-means over log-mel frames (window 1024, hop 256, 80 bands up to half
the sample rate). It needs no download, so that a pipeline works on any machine; for speech of
good quality use the codec of the model that is to be trained.

It is fitted on `clips` clips and at most `frames` frames of them, drawn by hashing their audio.
Which clips are drawn depends neither on their order nor on their names, and clips that are added to
a large corpus seldom change the draw. To rule that out, put a `dataset.filter` before this stage.
All drawn clips must have the same sample rate, which becomes that of the codec.",
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Rates(FITTED),
    inputs: &[InputPort {
        reads: FieldSet::These(&[("audio", FieldType::Blob)]),
        doc: "Clips as mono `audio/wav`, all at one rate.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: MODEL,
        doc: "The codec, as one file in the safetensors format.",
        gives: &[artifact::MEL_RVQ],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        at_least_one(
            count(
                "codebooks",
                8,
                "Tokens per frame. Each codebook encodes the residual of the ones before it.",
            ),
            64,
        ),
        Parameter {
            parameter_type: ParameterType::Integer { min: 2, max: 65_536 },
            ..count("entries", 256, "Different tokens per codebook.")
        },
        at_least_one(count("clips", 64, "The largest number of clips to use."), 1_000_000),
        at_least_one(
            count("frames", 20_000, "The largest number of frames to use from these clips."),
            2_000_000,
        ),
        SEED,
    ],
    ..Kind::BASE
};

pub static ENCODE: Kind = Kind {
    name: "vq.encode",
    summary: "Turns audio into VQ tokens.",
    doc: "\
A clip becomes an array of codebooks by frames. Its tokens depend only on the clip and the codec,
not on the batch, the padding or the number of threads; on the CPU they are the same to the bit. On
a GPU a batch of another shape rounds differently, so if two entries of a codebook are equally near,
the other one may be chosen; TF32 is never used.

The codec of Fish Speech takes mono audio of 44,100 Hz and makes 10 codebooks of 21.5 frames per
second. Clips over 190.2 s are quarantined: its position tables end there. The size of a batch is
its longest clip times the number of clips; batches that would not fit into the free memory of a GPU
are split beforehand. A small probe before the first batch measures the memory per second of audio,
and the result is remembered for the codec and the kind of GPU; if a batch still does not fit, half
as much is planned from then on. On the CPU clips are encoded one by one, on as many threads as the
memory allows.

The DVAE of an XTTS model takes mono audio of 22,050 Hz, at most 600 s, and makes one codebook of
21.5 frames per second. Each clip is encoded by itself, with 8,192 silent samples after it, and has
one frame per 1,024 samples, rounded up; in the original the last seven frames depend on the silence
after the clip in its batch. Give `codec` the imported model and not the trained one: training does
not change the DVAE, but another model encodes all clips again.",
    place: Place::Worker,
    batching: Batching::ByBytes { parameter: "batch" },
    cost: Cost::Rates(ENCODED),
    inputs: &[
        InputPort {
            reads: FieldSet::These(&[("audio", FieldType::Blob)]),
            doc: "Clips as mono `audio/wav` at the codec's rate.",
            ..InputPort::DATASET
        },
        CODEC,
    ],
    outputs: &[OutputPort {
        writes: &[("tokens", FieldType::Blob), ("frames", FieldType::Number)],
        doc: "`tokens` is a NumPy array (`tokens/npy`) of integers, codebooks by frames; `frames` \
              is its length.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "integers",
            parameter_type: ParameterType::Choice(&["u16", "i64"]),
            default: Default::Text("u16"),
            doc: "The integer type of tokens. `i64` is the type in the tools of Fish Speech, at \
                four times the size; every stage here reads both.",
            ..Parameter::BASE
        },
        Parameter {
            default: Default::Bytes(8_000_000),
            doc: "The amount of audio that is encoded at a time; reduced if it does not fit into \
                memory.",
            ..BATCH
        },
    ],
    ..Kind::BASE
};

/// A size that is common among codecs.
const fn codec_size(
    name: &'static str,
    most: i64,
    default: i64,
    unit: Unit,
    doc: &'static str,
) -> Parameter {
    Parameter { unit, ..at_least_one(count(name, default, doc), most) }
}

pub static ADOPT: Kind = Kind {
    name: "vq.adopt",
    version: 3,
    summary: "Adopts the tokens of another tool, after checking them.",
    doc: "\
Clips come with their tokens from a corpus stage that names their folder (`tokens`). Nothing is
encoded or copied: the arrays stay in their files, and downstream stages read them like those of
`vq.encode`.

An array is adopted if it has integers of `codebooks` by frames, if every token exists in the codec,
and if it is as long as the clip, give or take one frame. Other clips are quarantined with the
reason (`no-tokens`, `unreadable-tokens`, `token-shape`, `token-range`, `stale-tokens`), or with
`others = \"keep\"` pass without tokens, to be encoded: `dataset.filter` separates them by the field
`adopted`.

Tokens are stale (`stale-tokens`) if their length does not fit the clip. The cache knows clips that
were adopted before: unchanged tokens are stale too when such a clip is recorded again, at any
length. For a clip that is new to the cache only the length counts. Give the clips as they were
encoded, before they are trimmed.

The defaults are those of the codec of Fish Speech, 21.5 frames per second.",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("audio", FieldType::Blob)]),
        may_read: &[(FOUND_TOKENS, FieldType::Blob)],
        reads_id: true,
        doc: "Clips of a corpus stage that has `tokens`, at any rate.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[
            ("tokens", FieldType::Blob),
            ("frames", FieldType::Number),
            ("adopted", FieldType::Text),
        ],
        doc: "`tokens` and `frames` as `vq.encode` gives them; `adopted` is `yes` or `no`.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        codec_size("rate", 384_000, 44_100, Unit::Hertz, "The sample rate of the codec."),
        codec_size("hop", 1_000_000, 2_048, Unit::Count, "Samples per frame at that rate."),
        codec_size("codebooks", 64, 10, Unit::Count, "Tokens per frame."),
        codec_size(
            "first_entries",
            65_536,
            4_096,
            Unit::Count,
            "Different tokens of the first codebook.",
        ),
        codec_size(
            "entries",
            65_536,
            1_024,
            Unit::Count,
            "Different tokens of every other codebook.",
        ),
        Parameter {
            name: "others",
            parameter_type: ParameterType::Choice(&["quarantine", "keep"]),
            default: Default::Text("quarantine"),
            doc: "The treatment of clips without usable tokens.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static DECODE: Kind = Kind {
    name: "vq.decode",
    summary: "Turns VQ tokens back into audio, to listen to.",
    doc: "\
The codec `mel-rvq` and the DVAE of an XTTS model decode to mel spectrograms: the Griffin-Lim
iteration estimates their phases, so voices sound metallic, but losses in the tokens can still be
heard. The codec of Fish Speech decodes to audio and ignores `rounds` and `seed`. A decoded clip is
as long as its frames, up to one hop longer than the original clip.",
    place: Place::Worker,
    batching: Batching::ByBytes { parameter: "batch" },
    cost: Cost::Rates(SPOKEN),
    inputs: &[
        InputPort {
            reads: FieldSet::These(&[("tokens", FieldType::Blob)]),
            doc: "Tokens as `vq.encode` with the same codec makes them.",
            ..InputPort::DATASET
        },
        CODEC,
    ],
    outputs: &[OutputPort {
        writes: &[("audio", FieldType::Blob)],
        doc: "Clips as mono 16-bit `audio/wav` at the codec's rate.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            parameter_type: ParameterType::Integer { min: 0, max: 1_000 },
            ..count("rounds", 32, "The number of phase iterations.")
        },
        SEED,
        Parameter {
            default: Default::Bytes(16_000),
            doc: "The number of bytes of tokens that are decoded at a time.",
            ..BATCH
        },
    ],
    ..Kind::BASE
};
