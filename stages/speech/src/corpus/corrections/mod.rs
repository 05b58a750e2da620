//! Corrections of segments that a person has heard: texts, drops, and other cuts.
//!
//! A line of the table belongs to the sound of a segment and not to its place, so that it stays valid
//! when the recording is edited elsewhere, and lines of several people can be merged. The parts of a
//! split and a joined segment have names by their sound as well, and corrections of their own.

mod apply;
mod sound;
mod stage;
mod table;

pub use crate::audio::long::name;
pub use apply::{
    AudioEditor, CorrectableSegment, CorrectedRecordings, CorrectedSegment, CorrectionError,
    UnusedLine, apply,
};
pub use sound::{Piece, join, split};
pub use stage::open;
pub use table::{Correction, CorrectionLine, CorrectionTable, name_of};

/// The field with the text of a person, which `text.align` and `quality.align` honour.
pub const CORRECTED: &str = "corrected";
/// The field of a segment that `text.align` quarantines after the alignment.
pub const DROPPED: &str = "dropped";
