//! The failures that a Python program reports: which of them are of the machine.

use std::io;

use cache::fs::MachineFault;
use stage_core::StageError;

use crate::command::room::Room;
use crate::command::run::{CommandError, End};
use crate::command::stage::fatal;

/// The error for a failure that says nothing about the input; none if the program is to blame.
/// `numbers` are those of the system's errors behind it.
pub fn of_machine(room: &Room, said: &str, numbers: &[i32]) -> Option<StageError> {
    let failed = CommandError::Failed { status: 1, end: End(said.to_owned()) };
    let judged = room.judge::<()>(Err(failed)).err().filter(|error| error.reject_code().is_none());
    match judged {
        // This names the folder and the free bytes.
        Some(error @ CommandError::NoRoom { .. }) => Some(fatal(error)),
        // The numbers tell a full disk; a text alone may quote one.
        judged => of_numbers(said, numbers).or_else(|| judged.map(fatal)),
    }
}

fn of_numbers(said: &str, numbers: &[i32]) -> Option<StageError> {
    let mut errors = numbers.iter().map(|number| io::Error::from_raw_os_error(*number));
    let error = errors.find(|error| MachineFault::of(error).is_some())?;
    let message = format!("the machine could not do what the program asked for; it said: {said}");
    Some(StageError::of_io(message, &error))
}
