//! The kinds of the family `rate`: voices compared by people who listen.

use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, Derived, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    Parameters, Unit, Work, artifact,
};

use crate::quality::choose::kinds::{BOOTSTRAP, CONFIDENCE, Named};
use stage_families::kinds::parameters::SEED;

pub const KINDS: &[&Kind] = &[&PAIRS, &VOTES, &RESULT];

/// The fields of a pair beside its two recordings.
const PAIR: Named = &[
    ("role", FieldType::Text),
    ("sentence", FieldType::Text),
    ("one", FieldType::Text),
    ("other", FieldType::Text),
];

/// The field that names the voice of a recording.
fn voice_field(parameters: &Parameters) -> Vec<(String, FieldType)> {
    let by = parameters.text("by").ok();
    by.map(|by| (by.to_owned(), FieldType::Text)).into_iter().collect()
}

pub static PAIRS: Kind = Kind {
    name: "rate.pairs",
    summary: "Prepares pairs of recordings for a blind listening test.",
    doc: "\
Every two voices meet in some sentences. `throstle rate STAGE --rater NAME` plays the pairs in the
browser and stores the answers; `rate.votes` reads them, and `rate.result` computes the ranks.

All recordings of a sentence get the same loudness: `loudness`, or less if one of them would
otherwise clip. Silence before and after the speech is cut to a quarter of a second.

A round has one pair for each sentence. Each rater hears the voices in a different order, each voice
is on the left as often as on the right, and the sides and the order follow from the seed and the
name of the rater. The share `repeats` of the pairs is played again with the sides exchanged, and
`traps` are mixed in: the same recording twice (with `tie`), and a recording beside a copy of it
without everything above 3.5 kHz. Both kinds show if a rater listens.

The share `hold` of the sentences is not played: `quality.choose` holds out the same ones, so that
its report is about sentences that took no part in the choice. The id of a pair is a hash of its
voices and recordings: votes for recordings that have changed since do not count.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        reads: FieldSet::Derived(Derived {
            names: voice_field,
            parameter: "by",
            also: &[("sentence", FieldType::Text), ("audio", FieldType::Blob)],
        }),
        may_read: &[("text", FieldType::Text)],
        doc: "Sentences, spoken by each voice: of `model.audition` or `voice.audition`.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[
            ("role", FieldType::Text),
            ("sentence", FieldType::Text),
            ("text", FieldType::Text),
            ("one", FieldType::Text),
            ("other", FieldType::Text),
            ("one_audio", FieldType::Blob),
            ("other_audio", FieldType::Blob),
        ],
        passes: None,
        doc: "The pairs: the voices `one` and `other` with their recordings, and the `role`: \
              `pair`, `same` (a trap of one recording) or `dull` (a trap with a muffled copy).",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "by",
            default: Default::Text("checkpoint"),
            doc: "The field that names the voice of a recording.",
            ..Parameter::BASE
        },
        Parameter {
            name: "sentences",
            parameter_type: ParameterType::Integer { min: 1, max: 10_000 },
            default: Default::Integer(20),
            unit: Unit::Count,
            doc: "The number of sentences, selected by a hash, and so the pairs of a round.",
            ..Parameter::BASE
        },
        Parameter {
            name: "hold",
            parameter_type: ParameterType::Number { min: 0.0, max: 0.9 },
            default: Default::Number(0.5),
            doc: "The share of sentences that is not played, as in `quality.choose`.",
            ..Parameter::BASE
        },
        Parameter {
            name: "repeats",
            parameter_type: ParameterType::Number { min: 0.0, max: 1.0 },
            default: Default::Number(0.1),
            doc: "The share of pairs that is played again with the sides exchanged.",
            ..Parameter::BASE
        },
        Parameter {
            name: "traps",
            parameter_type: ParameterType::Integer { min: 0, max: 100 },
            default: Default::Integer(2),
            unit: Unit::Count,
            doc: "The number of traps in a round.",
            ..Parameter::BASE
        },
        Parameter {
            name: "tie",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(false),
            doc: "Allows the answer \"no difference\", which counts as half a win for each.",
            ..Parameter::BASE
        },
        Parameter {
            name: "loudness",
            parameter_type: ParameterType::Number { min: -60.0, max: -10.0 },
            default: Default::Number(-23.0),
            unit: Unit::Lufs,
            doc: "The loudness of all recordings.",
            ..Parameter::BASE
        },
        SEED,
    ],
    ..Kind::BASE
};

pub static VOTES: Kind = Kind {
    name: "rate.votes",
    summary: "Reads the votes of raters.",
    doc: "\
Reads the files that `throstle rate STAGE` writes to `ratings/STAGE`, one for each rater, in JSON
lines. Without the folder there are no votes. A last line that was cut off is left out; files that
contain no votes are quarantined.",
    work: Work::Source,
    cost: Cost::Rates(Rates::LIGHT),
    outputs: &[OutputPort {
        writes: &[
            ("rater", FieldType::Text),
            ("pair", FieldType::Text),
            ("answer", FieldType::Text),
            ("side", FieldType::Text),
            ("repeat", FieldType::Text),
        ],
        passes: None,
        doc: "One item for each vote: the `answer` is `one`, `other` or `same`, the `side` is \
              `left`, `right` or `none`, and `repeat` is `yes` or `no`.",
        ..OutputPort::DATASET
    }],
    parameters: &[Parameter {
        name: "folder",
        parameter_type: ParameterType::OptionalFolder,
        doc: "The folder of the votes: `ratings/STAGE`. It need not exist yet.",
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

pub static RESULT: Kind = Kind {
    name: "rate.result",
    summary: "Ranks voices by the votes of raters.",
    doc: "\
Computes a strength for each voice from the votes (Bradley and Terry 1952), with a Gaussian prior of
the deviation `prior`: one unit more of strength wins 73 % of the pairs. A voice ranks behind
another one if the interval of their difference shows it; voices that no interval separates share a
rank. The intervals hold for all pairs of voices at once. With three raters or more they also
contain the spread between raters. If the first voice is undecided, the report estimates how many
more pairs would decide it.

A rater who always prefers one side is left out, and so is one with traps and repeats that random
answers explain thirty times better than care does. The report says so, with the figures. Votes for
recordings that have changed do not count.

With one rater, the report says so: the ranks are the preference of this person for these sentences.
Decide before the test how many rounds each rater hears: stopping as soon as a difference shows
finds differences that do not exist.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::These(PAIR),
            reads_id: true,
            doc: "The pairs, of `rate.pairs`.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "votes",
            reads: FieldSet::These(&[
                ("rater", FieldType::Text),
                ("pair", FieldType::Text),
                ("answer", FieldType::Text),
                ("side", FieldType::Text),
                ("repeat", FieldType::Text),
            ]),
            doc: "The votes, of `rate.votes`.",
            ..InputPort::DATASET
        },
    ],
    outputs: &[OutputPort {
        writes: &[
            ("report", FieldType::Blob),
            ("votes", FieldType::Number),
            ("raters", FieldType::Number),
        ],
        doc: "Ranks, strengths with intervals, and raters, as JSON; the number of votes that count \
              and of their raters.",
        gives: &[artifact::RATED],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "prior",
            parameter_type: ParameterType::Number { min: 0.01, max: 100.0 },
            default: Default::Number(1.0),
            doc: "The standard deviation of the strengths before any vote.",
            ..Parameter::BASE
        },
        CONFIDENCE,
        BOOTSTRAP,
        SEED,
    ],
    ..Kind::BASE
};
