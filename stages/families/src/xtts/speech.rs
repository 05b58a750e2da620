//! The synthesis kinds of the family `xtts`: voices from references, and sentences.

use crate::kinds::parameters::{SEED, absent, choice, count, known, number};
use stage_core::artifact as words;
use stage_core::cost::{Cost, Rates};
use stage_core::{
    Batching, Default, FieldSet, FieldType, InputPort, Kind, Mistake, OutputPort, Parameter,
    ParameterType, Parameters, Place, Work,
};

use super::kinds::MODEL;
use super::mistakes;
use crate::artifact;
use crate::dropped::ON_UNKNOWN;
use crate::kinds::training::{BATCH, CHARACTERS_PER_SECOND, PRECISION};

pub const KINDS: &[&Kind] = &[&VOICE, &SYNTHESIZE];

const CLIP: &[(&str, FieldType)] = &[("audio", FieldType::Blob)];

const LISTENED: Rates = Rates {
    start: 5.0,
    bytes_per_item: 140_000.0,
    model: Some(artifact::XTTS),
    origin: "a voice takes a moment beside loading the model",
    ..Rates::LIGHT
};

const SPEECH: Rates = Rates {
    start: 5.0,
    seconds_per_item: 0.1,
    seconds_per_second: 0.25,
    bytes_per_item: 44.0,
    bytes_per_second: 48_000.0,
    // The decoder's widest layers: 32 channels of f32 for each sample, several of them at a time.
    vram_per_second: 24_000.0 * 32.0 * 4.0 * 4.0,
    model: Some(artifact::XTTS),
    spread: 4.0,
    origin: "a second of speech takes 21.5 steps of the GPT, each taken for 10 ms on an A100, and \
             the decoder little beside them",
    ..Rates::LIGHT
};

/// Seconds; the default is in the model's configuration.
const fn seconds(name: &'static str, doc: &'static str) -> Parameter {
    let parameter_type = ParameterType::Number { min: 0.33, max: 3600.0 };
    absent(Parameter { parameter_type, ..number(name, 3600.0, 0.0, doc) })
}

pub static VOICE: Kind = Kind {
    name: "xtts.voice",
    summary: "Computes the voice of an XTTS model from references.",
    doc: "\
The references are those of `input` or `reference`: clips of one speaker, a few seconds each,
without noise. Each is cut to `max_reference_seconds`. The speaker vector of the decoder is the mean
of those of all references; the conditioning latents of the GPT are the mean over parts of
`chunk_seconds` of all references in sequence, up to `conditioning_seconds` in total. A part shorter
than 0.33 s is left out.

`speaker` takes one of the voices that came with the model (`speakers_xtts.pth`) in place of
references.

Latents belong to the GPT that computed them: compute the voice again with the trained model.",
    work: Work::Gather,
    place: Place::Worker,
    cost: Cost::Rates(LISTENED),
    inputs: &[
        InputPort {
            reads: FieldSet::These(CLIP),
            optional: true,
            replaced_by: &["speaker"],
            doc: "References as mono `audio/wav` at the rate of the model, 22,050 Hz.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "reference",
            reads: FieldSet::These(CLIP),
            optional: true,
            replaced_by: &["speaker"],
            doc: "One reference, of `dataset.item`.",
            takes: &[words::ITEM],
            ..InputPort::ARTIFACT
        },
        InputPort { doc: "The model that will speak.", ..MODEL },
    ],
    outputs: &[OutputPort {
        name: "voice",
        writes: &[("family", FieldType::Text), ("name", FieldType::Text)],
        open: true,
        doc: "`tensor/gpt_cond_latent` [1, 32, 1024] and `tensor/speaker_embedding` [1, 512, 1] in \
              the published sizes, under the names of `speakers_xtts.pth`; `name` is that of the \
              speaker, or empty.",
        gives: &[artifact::XTTS_VOICE],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "speaker",
            default: Default::Absent,
            doc: "The name of a voice that came with the model.",
            ..Parameter::BASE
        },
        seconds(
            "conditioning_seconds",
            "Seconds of the references that latents are computed from. Default: that of the model.",
        ),
        seconds("chunk_seconds", "Seconds of each part. Default: that of the model."),
        seconds(
            "max_reference_seconds",
            "Seconds of each reference that are used. Default: that of the model.",
        ),
    ],
    check: chunks_fit,
    ..Kind::BASE
};

fn chunks_fit(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let given = |name: &str| known(parameters, unknown, name, Parameters::number);
    match (given("chunk_seconds"), given("conditioning_seconds")) {
        (Some(chunk), Some(all)) if chunk > all => {
            let message = format!("parts of {chunk} s do not fit into {all} s");
            vec![Mistake::new("chunk_seconds", message, "give at most `conditioning_seconds`")]
        }
        _ => Vec::new(),
    }
}

pub static SYNTHESIZE: Kind = Kind {
    name: "xtts.synthesize",
    version: 4,
    summary: "Speaks sentences with an XTTS model in a voice.",
    doc: "\
The audio depends only on the model, the voice, the text, the language, the seed and the
parameters, not on the other sentences: sentences are spoken `batch` at a time, and in f32 on the CPU
each is the same to the bit in any batch. On a GPU and in half precision a batch of another size
rounds differently, so that another code may be drawn now and then.

A text that is longer than the language allows, or than the model has tokens for, is cut at the ends
of sentences, then at commas, then between words; its pieces are spoken at once and joined. Texts in
a language without a tag are quarantined. So are texts with characters that the vocabulary lacks, signs
such as `«` included, unless `on_unknown = \"report\"`: put the text stages of the training before this
one, such as `text.normalize`.

A piece that the model ends before it speaks is drawn again up to three times, each time with
other random numbers that follow from the seed. A sentence with a piece that stays silent is quarantined.

A piece ends with the end token of the model, or at the number of codes that it has positions for:
602, which are 28 s, in the published sizes; then `stop` is `limit`. `max_codes` cuts earlier.
`duration_ratio` is the length relative to the text's length at `characters_per_second`, and
`loudness_slope` the change of loudness in dB per second: below 0 the voice fades. The notes give
the time that synthesis took, and so the real-time factor.

Sentences of `model.audition` carry their checkpoint with its decoder; then `model` is not needed.
Adapters, of checkpoints or on `adapters`, need their base on `model`. The voice is used as it is.",
    place: Place::Worker,
    cost: Cost::Rates(SPEECH),
    batching: Batching::ByCount { parameter: "batch" },
    inputs: &[
        InputPort {
            reads: FieldSet::These(&[("text", FieldType::Text)]),
            may_read: &[
                ("weights", FieldType::Blob),
                ("language", FieldType::Text),
                ("speed", FieldType::Number),
            ],
            doc: "Sentences, of `corpus.sentences` for example, or of `model.audition`. The \
                  `speed` of a sentence multiplies that of the stage.",
            ..InputPort::DATASET
        },
        InputPort {
            optional: true,
            doc: "The model; not needed if each sentence carries its own.",
            brought_by: Some(words::WEIGHTS),
            ..MODEL
        },
        InputPort { optional: true, ..super::tune::ADAPTERS },
        InputPort {
            name: "voice",
            reads: FieldSet::All,
            doc: "The voice to speak in.",
            takes: &[artifact::XTTS_VOICE],
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[
            ("audio", FieldType::Blob),
            ("frames", FieldType::Number),
            ("seconds", FieldType::Number),
            ("stop", FieldType::Text),
            ("pieces", FieldType::Number),
            ("duration_ratio", FieldType::Number),
            ("loudness_slope", FieldType::Number),
        ],
        doc: "`audio` at 24,000 Hz, its codes (`frames`) and `seconds`, `stop` (`end` or `limit`), \
              the number of `pieces`, and signs of a bad sentence.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "language",
            default: Default::Absent,
            doc: "The language of all sentences, such as `en`; if not given, the `language` of \
                  each.",
            ..Parameter::BASE
        },
        absent(number(
            "temperature",
            10.0,
            0.0,
            "The sampling temperature; near 0 the most likely is drawn. Default: that of the model.",
        )),
        absent(number(
            "top_p",
            1.0,
            0.0,
            "Draws among the most likely codes that together have this probability. Default: that \
             of the model.",
        )),
        absent(Parameter {
            parameter_type: ParameterType::Integer { min: 0, max: 1_000_000 },
            ..count(
                "top_k",
                0,
                "Draws among this number of the most likely codes; 0: among all. Default: that of \
                 the model.",
            )
        }),
        absent(Parameter {
            parameter_type: ParameterType::Number { min: 0.01, max: 100.0 },
            ..number(
                "repetition_penalty",
                100.0,
                0.0,
                "Makes codes that were drawn before less likely; 1: no penalty. Default: that of \
                 the model.",
            )
        }),
        Parameter {
            parameter_type: ParameterType::Number { min: 0.05, max: 20.0 },
            ..number("speed", 20.0, 1.0, "The speed, 2.0 is twice as fast.")
        },
        absent(Parameter {
            parameter_type: ParameterType::Integer { min: 1, max: 1_000_000 },
            ..count(
                "max_codes",
                0,
                "The largest number of codes of a piece. Default: all positions of the model.",
            )
        }),
        Parameter {
            doc: "The effect of characters that the vocabulary lacks: fail the sentence, which is then \
                  quarantined, or speak it without them and count each in the notes.",
            ..ON_UNKNOWN
        },
        CHARACTERS_PER_SECOND,
        Parameter { doc: "The compute type of the GPT; `auto`: the type of the stored model, and f32 on the CPU.", ..PRECISION },
        choice(
            "parity",
            &["corrected", "upstream"],
            "`upstream` samples as the original project does: code 1 and the start count as drawn \
             before the first code.",
        ),
        BATCH,
        SEED,
    ],
    check: mistakes::of_synthesize,
    ..Kind::BASE
};
