//! One file of a recording. A recording usually is one file; several can stand one behind the other.

use super::block::Block;
use super::fault::{Fault, ReadError};
use super::input::Input;
use super::note::Note;

/// A file that is decoded from its start to its end.
pub trait AudioFile {
    /// The next samples; None at the end of the file. Blocks can be empty.
    fn read(&mut self, input: &mut Input<'_>) -> Result<Option<Block>, ReadError>;

    /// At the end, the offset of the first byte behind the file.
    fn end(&self) -> u64;

    /// At the end, the notes on the file.
    fn notes(&mut self) -> Vec<Note>;

    /// Rate and channels, if they are known before the first samples.
    fn shape(&self) -> Option<(u32, u16)> {
        None
    }

    /// The bytes of a frame, if samples are stored one by one.
    fn frame_bytes(&self) -> Option<u64> {
        None
    }
}

/// The verdict on a file that has fewer units than it states, or than it began with.
pub fn short(
    allow_truncated: bool,
    unit: &'static str,
    stated: Option<u64>,
    present: u64,
) -> Result<Note, Fault> {
    if allow_truncated {
        let missing = stated.map(|stated| stated.saturating_sub(present));
        Ok(Note::TruncatedKept { unit, missing })
    } else {
        Err(Fault::Truncated { unit, declared: stated, present })
    }
}
