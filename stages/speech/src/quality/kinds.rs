//! The kinds of the family `quality`: measures of a synthesis.

use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType, Unit,
    Work, artifact,
};
use stage_families::kinds::parameters::LONGEST;

use super::choose::kinds::{CHOOSE, GAIN};
use crate::text::kinds::{LANGUAGE, NUMBERS, mistakes_of_language};

pub const KINDS: &[&Kind] =
    &[&MEASURE, &PAIR, &COMPARE, &CER, &SIMILARITY, &REGRESSION, &ALIGN, &CHOOSE, &GAIN];

const HEARD: Rates = Rates {
    seconds_per_second: 6e-3,
    origin: "to measure sound is taken for ten times the work of reading and writing it, which \
        nobody has timed",
    ..Rates::LIGHT
};

const LOWEST: Parameter = Parameter {
    name: "lowest",
    parameter_type: ParameterType::Number { min: 40.0, max: 1_000.0 },
    default: Default::Number(60.0),
    unit: Unit::Hertz,
    doc: "The lowest pitch that is looked for.",
    ..Parameter::BASE
};

const HIGHEST: Parameter = Parameter {
    name: "highest",
    default: Default::Number(500.0),
    doc: "The highest pitch that is looked for.",
    ..LOWEST
};

pub static MEASURE: Kind = Kind {
    name: "quality.measure",
    version: 3,
    summary: "Measures syntheses without another recording: levels, pauses, rate, pitch.",
    doc: "\
Silence, clipping and noise are measured as in `audio.check`, which quarantines bad recordings; this
stage only quarantines files without sound. `loudness` is after EBU R128. The pitch is found by YIN
in frames of 10 ms at 16 kHz. Measures are left out if a recording is too short or too silent for
them.

`longest_silence` finds a voice that has stopped, `flatness` one that has become noise,
`characters_per_second` one that skips or drags, and `f0_range` one that has become monotonous.",
    cost: Cost::Rates(HEARD),
    inputs: &[InputPort {
        reads: FieldSet::These(&[("audio", FieldType::Blob)]),
        may_read: &[("text", FieldType::Text)],
        doc: "Recordings, of `fish.synthesize` for example, with their texts.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[
            ("seconds", FieldType::Number),
            ("silence_share", FieldType::Number),
            ("longest_silence", FieldType::Number),
            ("clipped_share", FieldType::Number),
            ("loudness", FieldType::Number),
            ("snr", FieldType::Number),
            ("flatness", FieldType::Number),
            ("characters_per_second", FieldType::Number),
            ("f0_median", FieldType::Number),
            ("f0_range", FieldType::Number),
            ("voiced_share", FieldType::Number),
        ],
        doc: "`seconds`; `silence_share` of frames of 20 ms below -50 dBFS and the \
            `longest_silence` in seconds; `clipped_share` of samples; `loudness` in LUFS; `snr` \
            in dB; `flatness` of the spectrum from 0, a tone, to 1, white noise; \
            `characters_per_second` of the text; `f0_median` in hertz, `f0_range` in semitones \
            from the lowest to the highest twentieth, and the `voiced_share` of frames that have \
            a pitch.",
        ..OutputPort::DATASET
    }],
    parameters: &[LOWEST, HIGHEST],
    ..Kind::BASE
};

pub static PAIR: Kind = Kind {
    name: "quality.pair",
    summary: "Pairs each synthesis with the recording of the same sentence.",
    doc: "\
A synthesis gets fields of the recording that has the same id, or the same text in a field: `audio`
becomes `reference_audio`. Held-out clips that `fish.synthesize` has spoken keep their ids. Those of
`model.audition` have the id of the sentence in `sentence`: `by = \"sentence\"`,
`reference_by = \"id\"`. Syntheses without a recording are quarantined; `quarantine = 1.0` allows any
number of them. It is an error if none has a recording, or if two recordings fit one synthesis.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::All,
            doc: "Syntheses with all their fields.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "reference",
            reads: FieldSet::All,
            doc: "Recordings of the same sentences.",
            ..InputPort::DATASET
        },
    ],
    outputs: &[OutputPort {
        open: true,
        doc: "The syntheses with the taken fields, `reference_` before their names.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "by",
            default: Default::Text("id"),
            doc: "`id`, or the field of a synthesis with the text of its recording.",
            ..Parameter::BASE
        },
        Parameter {
            name: "reference_by",
            default: Default::Absent,
            doc: "`id`, or the field of a recording by which it is found; as `by` if not given.",
            ..Parameter::BASE
        },
        Parameter {
            name: "take",
            parameter_type: ParameterType::List(&ParameterType::Text),
            default: Default::Texts(&["audio"]),
            doc: "The fields of the recording that the synthesis gets.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static COMPARE: Kind = Kind {
    name: "quality.compare",
    version: 3,
    summary: "Compares each synthesis with a recording of the same sentence.",
    doc: "\
Both are brought to 16 kHz and cut into frames of 25 ms, one every 10 ms. The mel cepstrum of each
frame has 40 triangular bands from 0 to 8 kHz and coefficients 1 to 13. Dynamic time warping aligns
the frames. `mcd`, in dB, is the mean over the aligned frames of
`10 / ln 10 * sqrt(2 * sum((c - c')^2))` (Kubichek 1993): the root mean square difference of the two
spectra over the mel scale, whatever the level. Bands more than 60 dB below the loudest one of a
recording are set to 60 dB below it. Other programs compute other cepstra, so their figures are not
comparable.

`f0_rmse`, in hertz, and `f0_correlation` are computed over the aligned frames that are voiced on
both sides; they are left out if there are fewer than ten, or if the pitch is constant.
`voicing_difference` is the share of frames that are voiced on one side only, and `length_ratio` the
length of the synthesis over that of the recording. Pauses before and after the speech count: remove
them from both with `audio.trim` first.",
    cost: Cost::Rates(HEARD),
    inputs: &[InputPort {
        reads: FieldSet::These(&[("audio", FieldType::Blob), ("reference_audio", FieldType::Blob)]),
        doc: "Syntheses with their recordings, of `quality.pair`.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[
            ("mcd", FieldType::Number),
            ("f0_rmse", FieldType::Number),
            ("f0_correlation", FieldType::Number),
            ("voicing_difference", FieldType::Number),
            ("length_ratio", FieldType::Number),
        ],
        doc: "The syntheses with their distances from the recordings.",
        ..OutputPort::DATASET
    }],
    parameters: &[LOWEST, HIGHEST, LONGEST],
    ..Kind::BASE
};

pub static CER: Kind = Kind {
    name: "quality.cer",
    version: 4,
    summary: "Computes the error rates of a speech recogniser's transcripts.",
    doc: "\
Transcripts come from `asr.transcribe`, or from a program of your own in a `command` stage that
writes a text file. The edit distance from the text to the transcript is counted in characters (code
points, spaces between words included) and in words. `cer` and `wer` are edits over the length of
the text and can exceed 1. Both sides are normalised first, as by `text.normalize`; the parameters
select the differences that count. Texts over 10,000 characters are quarantined.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        reads: FieldSet::Named { parameter: "transcript", also: &[("text", FieldType::Text)] },
        doc: "Items with their texts and transcripts.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[
            ("cer", FieldType::Number),
            ("wer", FieldType::Number),
            ("substitutions", FieldType::Number),
            ("insertions", FieldType::Number),
            ("deletions", FieldType::Number),
            ("heard", FieldType::Text),
        ],
        doc: "Error rates; `substitutions`, `insertions` and `deletions` of characters; and the \
            normalised transcript, `heard`.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "transcript",
            default: Default::Text("transcript"),
            doc: "The field with the transcript: a text, or a file in UTF-8.",
            ..Parameter::BASE
        },
        Parameter {
            name: "form",
            parameter_type: ParameterType::Choice(&["nfc", "nfd", "nfkc"]),
            default: Default::Text("nfc"),
            doc: "The Unicode form in which both are compared.",
            ..Parameter::BASE
        },
        Parameter {
            name: "case",
            parameter_type: ParameterType::Choice(&["keep", "lower", "upper"]),
            default: Default::Text("lower"),
            doc: "`keep` counts upper and lower case as different.",
            ..Parameter::BASE
        },
        LANGUAGE,
        Parameter {
            name: "punctuation",
            parameter_type: ParameterType::Choice(&["keep", "remove"]),
            default: Default::Text("remove"),
            doc: "`remove` drops apostrophes and takes other signs for spaces.",
            ..Parameter::BASE
        },
        Parameter {
            name: "numbers",
            parameter_type: ParameterType::Choice(NUMBERS),
            default: Default::Text("keep"),
            doc: "The language in which numbers are spelled out on both sides, since recognisers \
                write digits. `keep` leaves them as they are.",
            ..Parameter::BASE
        },
    ],
    check: |parameters, _| mistakes_of_language(parameters),
    ..Kind::BASE
};

pub static SIMILARITY: Kind = Kind {
    name: "quality.similarity",
    version: 2,
    summary: "Compares the voices of each synthesis and its recording by their embeddings.",
    doc: "\
`similarity` is the cosine of two speaker embeddings: 1 for the same direction, 0 for none in
common. `speaker.embed`, or a `command` stage with a program of your own, makes an embedding of each synthesis and of
each recording, as a JSON list of numbers or a NumPy array of floats; `quality.pair` with
`take = [\"embedding\"]` brings the two together.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        reads: FieldSet::These(&[
            ("embedding", FieldType::Blob),
            ("reference_embedding", FieldType::Blob),
        ]),
        doc: "Items with two embeddings.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[("similarity", FieldType::Number)],
        doc: "The items with the cosine, from -1 to 1.",
        ..OutputPort::DATASET
    }],
    ..Kind::BASE
};

const MEASURES: &[Parameter] = &[
    Parameter { name: "field", doc: "A field that is a number.", ..Parameter::BASE },
    Parameter {
        name: "better",
        parameter_type: ParameterType::Choice(&["lower", "higher", "same"]),
        default: Default::Text("lower"),
        doc: "The better direction; with `same` any change is worse.",
        ..Parameter::BASE
    },
    Parameter {
        name: "tolerance",
        parameter_type: ParameterType::Number { min: 0.0, max: f64::MAX },
        default: Default::Number(0.0),
        doc: "By how much the mean may be worse, in the unit of the field.",
        ..Parameter::BASE
    },
];

pub static REGRESSION: Kind = Kind {
    name: "quality.regression",
    version: 2,
    summary: "Compares measures with those of a good run, and reports regressions.",
    doc: "\
`measures = [{ field = \"cer\", tolerance = 0.02 }, { field = \"voiced_share\", better = \"same\",
tolerance = 0.1 }]`. The report has the mean of each field over the items that have it, with its 90 % interval, the mean of the baseline, and a verdict: `same` within the tolerance, `better`, `worse`, `new` where the
baseline does not have the field, and `missing` where the items no longer do. `worse` and `missing`
are regressions. Items that have none of the fields are quarantined.

The baseline is the report of a good run: export it, listen, and put a copy with another name beside
the manifest. No run replaces it. With `fail` a regression ends the run, and the message has the
figures.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        reads: FieldSet::Named { parameter: "measures", also: &[] },
        reads_id: true,
        doc: "Items with the measures, of the stages above.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[("report", FieldType::Blob), ("regressions", FieldType::Number)],
        doc: "The report as JSON, with the items that have the worst values, and the number of \
              regressions.",
        gives: &[artifact::REPORT],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "measures",
            parameter_type: ParameterType::List(&ParameterType::Record(MEASURES)),
            doc: "The compared measures.",
            ..Parameter::BASE
        },
        Parameter {
            name: "baseline",
            parameter_type: ParameterType::File,
            default: Default::Absent,
            doc: "The report of a good run. Without it every measure is `new`.",
            ..Parameter::BASE
        },
        Parameter {
            name: "fail",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(false),
            doc: "Makes the stage fail on a regression.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static ALIGN: Kind = Kind {
    name: "quality.align",
    summary: "Quarantines segments with a text that does not fit their sound.",
    doc: "\
Reads the measures of `text.align`. A missing or wrong word shows in the worst ten frames of the
path, and a clipped beginning or end in the first or last letter. The reason names the value and its
limit. Good limits depend on the recogniser: look at the values of a few segments with
`throstle items` first.

A segment with the text of a person (the field `corrected` of `corpus.corrections`) passes.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        reads: FieldSet::These(&[
            ("align_worst", FieldType::Number),
            ("align_edge", FieldType::Number),
            ("letters_per_second", FieldType::Number),
        ]),
        may_read: &[("corrected", FieldType::Text)],
        doc: "Segments of `text.align`.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort { doc: "The segments that fit.", ..OutputPort::DATASET }],
    parameters: &[
        Parameter {
            name: "min_worst",
            parameter_type: ParameterType::Number { min: -100.0, max: 0.0 },
            default: Default::Number(-1.5),
            doc: "The lowest mean logarithm of the probability in ten frames in a row.",
            ..Parameter::BASE
        },
        Parameter {
            name: "edge_letter",
            parameter_type: ParameterType::Number { min: 0.0, max: 1.0 },
            default: Default::Number(0.3),
            doc: "The lowest `align_edge`: the probability of the first and of the last letter.",
            ..Parameter::BASE
        },
        Parameter {
            name: "slowest",
            parameter_type: ParameterType::Number { min: 0.0, max: 100.0 },
            default: Default::Number(4.0),
            doc: "The fewest letters per second.",
            ..Parameter::BASE
        },
        Parameter {
            name: "fastest",
            parameter_type: ParameterType::Number { min: 0.0, max: 100.0 },
            default: Default::Number(25.0),
            doc: "The most letters per second.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};
