//! The kinds of the family `report`.

use stage_core::cost::{Cost, Rates};
use stage_core::{FieldSet, FieldType, InputPort, Kind, OutputPort, Work, artifact};

pub const KINDS: &[&Kind] = &[&SUMMARY, &RECORDINGS, &TENSORBOARD];

pub static SUMMARY: Kind = Kind {
    name: "report.summary",
    summary: "Summarises data sets and artifacts in one JSON file.",
    doc: "For each data set the number of items, statistics of each field, and quarantined items \
        by reason. JSON artifacts are included completely. Keys are sorted.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::All,
            reads_rejects: true,
            reads_name: true,
            many: true,
            doc: "The data sets.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "artifacts",
            reads_name: true,
            many: true,
            optional: true,
            doc: "Artifacts to include.",
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[("summary", FieldType::Blob)],
        doc: "The report.",
        gives: &[artifact::REPORT],
        ..OutputPort::ARTIFACT
    }],
    ..Kind::BASE
};

pub static RECORDINGS: Kind = Kind {
    name: "report.recordings",
    summary: "Reports each second of long recordings as kept, quarantined or without a text.",
    doc: "\
For each recording: the seconds that are kept, those that each reason has quarantined, sound without a
text, parts without a segment, and the parts of its text that were not heard. `throstle report` draws
a timeline of each recording, with players for what was quarantined.

`segments` are all segments, and `input` the later stages in their order, the last one with the
segments that are kept. A segment that a stage neither outputs nor quarantines counts as left out
there. Stages before `segments` may be listed in `input` too: their quarantined recordings are listed.

The report stays small: adjacent spans of the same kind are merged, and at most 200 segments and 200
parts of the text are listed for each recording. The seconds count all of them.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            name: "segments",
            reads: FieldSet::These(&[
                ("recording", FieldType::Text),
                ("start", FieldType::Number),
                ("seconds", FieldType::Number),
            ]),
            reads_id: true,
            reads_rejects: true,
            reads_name: true,
            doc: "All segments, of `audio.segment`.",
            ..InputPort::DATASET
        },
        InputPort {
            reads_id: true,
            reads_rejects: true,
            reads_name: true,
            many: true,
            doc: "The stages behind, in their order.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "unheard",
            reads: FieldSet::These(&[("unheard", FieldType::Blob)]),
            optional: true,
            doc: "The parts of the text that were not heard: `unheard` of `text.align`.",
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[("report", FieldType::Blob)],
        doc: "The report as JSON.",
        gives: &[artifact::REPORT],
        ..OutputPort::ARTIFACT
    }],
    ..Kind::BASE
};

pub static TENSORBOARD: Kind = Kind {
    name: "report.tensorboard",
    summary: "Puts recordings into an event file, to be heard in TensorBoard.",
    doc: "Each sentence is a sound of its own, with a slider for the steps of training where \
          `model.audition` has paired it with checkpoints, and its text beside it. Written beside \
          the `events` of the training, both are shown together: `export = \
          \"out/log/events.out.tfevents.1.heard\"`. The clock advances one second per step.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        reads: FieldSet::These(&[("audio", FieldType::Blob)]),
        may_read: &[
            ("text", FieldType::Text),
            ("sentence", FieldType::Text),
            ("step", FieldType::Number),
        ],
        reads_id: true,
        doc: "Recordings, of `fish.synthesize` for example. A recording without `sentence` is \
              named by its id; one without `step` is at step 0.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[("events", FieldType::Blob)],
        doc: "The event file.",
        gives: &[artifact::EVENTS],
        ..OutputPort::ARTIFACT
    }],
    ..Kind::BASE
};
