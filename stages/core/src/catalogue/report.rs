//! The kinds of the family `report`.

use crate::kind::{FieldType, Fields, InputPort, Kind, OutputPort, Work};

pub const KINDS: &[&Kind] = &[&SUMMARY];

pub static SUMMARY: Kind = Kind {
    name: "report.summary",
    summary: "Says in one JSON file what data sets and artifacts hold.",
    doc: "For each data set the number of items, what each field adds up to, and the items set \
          aside by reason. Artifacts that are JSON are taken in whole. Keys are sorted.",
    work: Work::Gather,
    inputs: &[
        InputPort {
            reads: Fields::All,
            reads_rejects: true,
            many: true,
            doc: "The data sets.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "artifacts",
            many: true,
            optional: true,
            doc: "Artifacts to take in.",
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[("summary", FieldType::Blob)],
        doc: "The report.",
        ..OutputPort::ARTIFACT
    }],
    ..Kind::BASE
};
