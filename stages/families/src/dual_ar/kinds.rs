//! The kinds of the family `fish`: the text model of Fish Speech from weights to sentences.

use crate::artifact;
use crate::kinds::parameters::{
    COUNT, SEED, TRAINING, absent, at_least_one, checkpoints, choice, count, join, not_zero,
    number, training_mistakes,
};
use crate::kinds::training::{
    BATCH, CHARACTERS_PER_SECOND, LOG, MODEL_FIELDS, PRECISION, adapters, lora, validation,
};
use stage_core::artifact::{ITEM, WEIGHTS};
use stage_core::cost::{Cost, Rates, Training, Weights};
use stage_core::{
    Batching, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    ParentNeeds, Place, Work,
};

pub const KINDS: &[&Kind] = &[&INIT, &FINETUNE, &LORA, &MERGE, &SYNTHESIZE];

const SPEECH: Rates = Rates {
    start: 5e-3,
    model: Some(artifact::DUAL_AR),
    on_processor: false,
    seconds_per_item: 0.2,
    // 21.5 frames per second of speech, at 27 per second.
    seconds_per_second: 0.8,
    bytes_per_item: 500.0,
    bytes_per_second: 88_200.0 + 430.0,
    sample_rate: None,
    vram_per_second: 4.0 * 11.3e6,
    spread: 3.0,
    origin: "33 frames of speech a second on an H200, one sentence at a time (measured), taken for \
             27 on an A100",
};

const MODEL_OUTPUT: OutputPort = OutputPort {
    name: "model",
    writes: MODEL_FIELDS,
    open: true,
    doc: "The model: `config`, the tokenizer's files, `lineage` (what it was made from, as JSON), \
          and one field `tensor/NAME` for each tensor.",
    gives: &[artifact::DUAL_AR],
    ..OutputPort::ARTIFACT
};

const BASE_MODEL: InputPort = InputPort {
    name: "base",
    reads: FieldSet::All,
    doc: "The model to begin from: of `model.import`, `fish.init`, `fish.finetune` or `fish.merge`.",
    takes: &[artifact::DUAL_AR],
    parent_needs: ParentNeeds::Fields(&[artifact::TOKENIZER, artifact::SPECIAL_TOKENS]),
    ..InputPort::ARTIFACT
};

/// Adapters mean nothing beside another base.
const ADAPTED: InputPort = InputPort { parent_needs: ParentNeeds::Everything, ..BASE_MODEL };

const ADAPTERS: InputPort = InputPort {
    name: "adapters",
    reads: FieldSet::All,
    doc: "Adapters of `fish.lora`.",
    takes: &[artifact::LORA],
    ..InputPort::ARTIFACT
};

const CLIP: &[(&str, FieldType)] = &[("text", FieldType::Text), ("tokens", FieldType::Blob)];

const MAY_READ: &[(&str, FieldType)] = &[("speaker", FieldType::Text)];

const CLIPS: InputPort = InputPort {
    reads: FieldSet::These(CLIP),
    may_read: MAY_READ,
    doc: "Clips with texts and with tokens as `vq.encode` makes them.",
    ..InputPort::DATASET
};

const PROMPT_FORMAT: Parameter = choice(
    "prompt_format",
    &["interleave", "speak_out"],
    "The order of text and tokens in a row. `interleave` is the format of synthesis; `speak_out` \
        is the format in which the original project trains, but never synthesises.",
);

/// The largest value of the size parameters.
const LARGEST: i64 = 10_000_000;

const SHAPE: Parameter = choice(
    "shape",
    &["small", "s1-mini"],
    "The base of the sizes below: `small` trains in a minute on two cores, `s1-mini` is the \
     published model of 860 million parameters.",
);

const fn figure(name: &'static str, doc: &'static str) -> Parameter {
    absent(at_least_one(count(name, 0, doc), LARGEST))
}

pub static INIT: Kind = Kind {
    name: "fish.init",
    summary: "Makes a text model with random weights, to try a pipeline without a download.",
    doc: "\
A DualAR model with random weights and a tokenizer of single bytes. It is untrained and speaks
noise; trained on a small corpus, it sounds at best like that corpus. For good speech start from
published weights with `model.import`.

Codebooks and their entries are those of `codec`, or of the parameters if there is no `codec`. By
default `intermediate` is 3 x `dim` and `head_dim` is `dim` / `heads`; the fast layers are as wide
as the slow ones. The tokenizer of `s1-mini` has as many tokens as the published one; text uses 256
of them.",
    version: 2,
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Weights(Weights { start: 0.0, written: 1.0, streams: false }),
    inputs: &[InputPort {
        name: "codec",
        reads: FieldSet::All,
        optional: true,
        doc: "The codec of the model's tokens.",
        takes: artifact::CODECS,
        ..InputPort::ARTIFACT
    }],
    outputs: &[MODEL_OUTPUT],
    parameters: &[
        SHAPE,
        figure("layers", "Slow layers, over the text and the frames. Small: 3."),
        figure("fast_layers", "Fast layers, over the codebooks of a frame. Small: 1."),
        figure("dim", "The width. Small: 128."),
        figure("heads", "Heads of attention. Small: 4."),
        figure("key_heads", "Heads of keys and values. Small: 2."),
        figure("head_dim", "The width of a head."),
        figure("intermediate", "The width within a feed-forward layer."),
        figure("max_length", "The longest row that the model supports, in tokens. Small: 1024."),
        figure("codebooks", "Tokens per frame."),
        figure("entries", "Different tokens per codebook."),
        choice("dtype", &["f32", "bf16"], "The type of the stored tensors."),
        SEED,
    ],
    ..Kind::BASE
};

const TRAINING_DOC: &str = "\
Rows hold whole clips of similar length. A token sees the tokens before it in its own clip only, and
the loss counts the frames and the end of each clip. Held-out clips are never trained on, and the
loss on them decides which state is kept (`take`) and when training ends (`patience`).

A run that is stopped, killed or cut off resumes from its last checkpoint and ends with the same
weights as an uninterrupted run: on the CPU to the bit, on a GPU to rounding.

Before the first step a preflight looks for mistakes that would ruin the run, each with its own
message: a tokenizer or codec tokens that do not belong to the model, a base with the loss of lost
weights, a frozen base that changes, codebook embeddings that are not scaled as in synthesis. It
also makes one step, saves, reloads and continues, which needs disk space for a checkpoint and the
weights, and speaks one short sentence.

`parity = \"upstream\"` trains as the original project does: without scaling the codebook embeddings,
although its synthesis scales them.";

pub static FINETUNE: Kind = Kind {
    name: "fish.finetune",
    version: 5,
    summary: "Trains all weights of a text model on clips.",
    doc: TRAINING_DOC,
    work: Work::Train,
    place: Place::Worker,
    cost: Cost::Training(Training { family: artifact::DUAL_AR, adapters: false }),
    inputs: &[CLIPS, validation(CLIP, MAY_READ), BASE_MODEL],
    outputs: &[MODEL_OUTPUT, LOG, checkpoints(&[artifact::DUAL_AR])],
    parameters: &FINETUNE_PARAMETERS,
    check: training_mistakes,
    ..Kind::BASE
};

static FINETUNE_PARAMETERS: [Parameter; COUNT + 1] = join([PROMPT_FORMAT], TRAINING);

pub static LORA: Kind = Kind {
    name: "fish.lora",
    version: 5,
    summary: "Trains low-rank adapters beside the frozen weights of a text model.",
    doc: "\
The base does not change, to the bit: two small matrices beside each chosen module are trained. They
are saved alone, with the digest of their base. `adapters` continues from adapters of an earlier run
on the same base.

Training is that of `fish.finetune`, and so are its preflight and `parity`. With the adapters turned
off, the loss must equal that of the base to the bit.",
    work: Work::Train,
    place: Place::Worker,
    cost: Cost::Training(Training { family: artifact::DUAL_AR, adapters: true }),
    inputs: &[CLIPS, validation(CLIP, MAY_READ), ADAPTED, InputPort { optional: true, ..ADAPTERS }],
    outputs: &[adapters(&[artifact::LORA]), LOG, checkpoints(&[artifact::LORA])],
    parameters: &LORA_PARAMETERS,
    check: training_mistakes,
    ..Kind::BASE
};

static LORA_PARAMETERS: [Parameter; COUNT + 5] = join(
    join::<1, 4, 5>(
        [PROMPT_FORMAT],
        lora(
            (8, 16.0),
            ("dropout", 0.01),
            &[
                "embeddings",
                "codebook_embeddings",
                "output",
                "layers.*.attention.w*",
                "layers.*.feed_forward.w*",
                "fast_embeddings",
                "fast_output",
                "fast_layers.*.attention.w*",
                "fast_layers.*.feed_forward.w*",
            ],
        ),
    ),
    TRAINING,
);

pub static MERGE: Kind = Kind {
    name: "fish.merge",
    version: 2,
    summary: "Merges adapters into their base.",
    doc: "\
The sum is made in f32 and rounded once. Adapters of another base are refused; several sets of
adapters would have to be merged one after the other.",
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Weights(Weights { start: 0.0, written: 1.0, streams: true }),
    inputs: &[BASE_MODEL, ADAPTERS],
    outputs: &[MODEL_OUTPUT],
    parameters: &[choice(
        "dtype",
        &["keep", "bf16", "fp16", "f32"],
        "The type of the written tensors; `keep`: that of each tensor in the base.",
    )],
    ..Kind::BASE
};

pub static SYNTHESIZE: Kind = Kind {
    name: "fish.synthesize",
    version: 6,
    summary: "Speaks sentences with a text model of Fish Speech.",
    doc: "\
The tokens of a sentence depend only on the model, the text, the seed and the parameters, not on the
other sentences: sentences are spoken `batch` at a time, and in f32 on the CPU each is the same to
the bit in any batch. On a GPU and in half precision a batch of another size rounds differently, so
that another token may be drawn now and then. Only audio tokens and the end token can be drawn,
never text tokens, unless `parity = \"upstream\"`, which also penalises repetition as the original
project does.

A sentence ends with the end token of the model (`stop` is `end`), or at `limit` times the frames
that its text is expected to take at `characters_per_second` (`stop` is `limit`). `duration_ratio`
is the length relative to that expectation, and `loudness_slope` the change of loudness in dB per
second: below 0 the voice fades. A sentence that the model ends before it speaks is drawn again up to
three times, each time with other random numbers that follow from the seed, and is quarantined if it
stays silent. The notes give the time that synthesis took, and so the real-time
factor; it is not a field, so no key depends on it.

Sentences of `model.audition` carry their checkpoint: one stage then speaks every sentence with
every checkpoint that a training kept, and a sentence that a checkpoint has spoken before is reused,
whatever training did since. Adapters need their base on `model`; checkpoints of a whole model do
not.",
    place: Place::Worker,
    batching: Batching::ByCount { parameter: "batch" },
    cost: Cost::Rates(SPEECH),
    inputs: &[
        InputPort {
            reads: FieldSet::These(&[("text", FieldType::Text)]),
            may_read: &[("weights", FieldType::Blob)],
            doc: "Sentences, of `corpus.sentences` for example, or of `model.audition`.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "model",
            reads: FieldSet::All,
            optional: true,
            doc: "The text model; not needed if each sentence carries its own.",
            takes: &[artifact::DUAL_AR],
            brought_by: Some(WEIGHTS),
            ..InputPort::ARTIFACT
        },
        InputPort { optional: true, ..ADAPTERS },
        InputPort {
            name: "codec",
            reads: FieldSet::All,
            doc: "The codec of the tokens in training.",
            takes: artifact::CODECS,
            ..InputPort::ARTIFACT
        },
        InputPort {
            name: "reference",
            reads: FieldSet::These(CLIP),
            optional: true,
            doc: "A reference clip for the voice, from `dataset.item`; else a random voice.",
            takes: &[ITEM],
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[
            ("audio", FieldType::Blob),
            ("tokens", FieldType::Blob),
            ("frames", FieldType::Number),
            ("seconds", FieldType::Number),
            ("stop", FieldType::Text),
            ("duration_ratio", FieldType::Number),
            ("loudness_slope", FieldType::Number),
        ],
        doc: "`audio` at the codec's rate, its `tokens` and their number of `frames`, `seconds`, \
              `stop` (`end` or `limit`), and signs of a bad sentence.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        number(
            "temperature",
            10.0,
            0.8,
            "The sampling temperature; near 0 the most likely is \
            drawn.",
        ),
        number(
            "top_p",
            1.0,
            0.8,
            "Draws among the most likely tokens that together have this \
            probability.",
        ),
        number(
            "repetition_penalty",
            10.0,
            1.1,
            "Makes recently drawn tokens less likely; 1: no penalty.",
        ),
        number(
            "least",
            1000.0,
            0.0,
            "A sentence does not end before this multiple of its expected duration. 0 leaves the \
                end to the model; has no effect with `parity = \"upstream\"`.",
        ),
        number(
            "limit",
            1000.0,
            3.0,
            "A sentence is cut off at this multiple of its expected \
            duration.",
        ),
        CHARACTERS_PER_SECOND,
        Parameter {
            parameter_type: ParameterType::Integer { min: 0, max: 1_000_000 },
            ..count("max_frames", 0, "The longest sentence, in frames; 0: no limit.")
        },
        PRECISION,
        choice(
            "parity",
            &["corrected", "upstream"],
            "`upstream` samples as the original project does.",
        ),
        BATCH,
        SEED,
    ],
    check: |parameters, unknown| not_zero(parameters, unknown, "top_p"),
    ..Kind::BASE
};
