//! The messages between the engine and a worker, and their encoding.
//!
//! A frame is the length of the body as 4 bytes little-endian, then the body in postcard. The
//! engine sends a [`Request`] and answers every [`Question`] before the worker's final reply; so
//! only one side speaks at a time. A frame longer than [`MAX_FRAME`] is refused before anything is
//! allocated for it.

use std::io::{self, Read, Write};

use bytes::Bytes;
use cache::Digest;
use camino::Utf8PathBuf;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use stage_core::course::Course;
use stage_core::device::{DeviceId, Devices};
use stage_core::{
    Blob, Fields, GatherInput, GatherOutput, Item, Output, Reject, Setup, StageError,
};

/// Raised when the messages change; both sides must have the same.
pub const PROTOCOL: u32 = 8;
pub const MAX_FRAME: u32 = 1 << 30;

/// From the engine to the worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    Hello {
        protocol: u32,
        device: DeviceId,
        threads: u32,
    },
    /// Opens a job under a number that the engine chooses.
    Open {
        job: u32,
        kind: String,
        version: u32,
        setup: Setup,
    },
    /// The blobs in the items' declared fields are sent along.
    Process {
        job: u32,
        items: Vec<Item>,
        blobs: Vec<(Digest, Bytes)>,
    },
    Gather {
        job: u32,
        input: GatherInput,
    },
    /// Drops a job and everything that it holds.
    Close {
        job: u32,
    },
    Answer(Answer),
    /// Ends the worker after its reply.
    Shutdown,
    /// Asks for the GPUs; before the greeting, which binds the worker to one device.
    Devices,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    Bytes(Result<Bytes, StageError>),
    Recalled(Result<Option<Fields>, StageError>),
    Remembered(Result<Fields, StageError>),
    /// `None`: ask for the bytes, or send them.
    Path(Option<Utf8PathBuf>),
    Kept(Result<Blob, StageError>),
    /// The reply to a saved checkpoint.
    Saved(Result<Fields, StageError>),
    /// The reply to the questions for the last checkpoint and for the parent.
    Found(Result<Option<Fields>, StageError>),
    Stopping(bool),
    SetAside(Result<(), StageError>),
    May(bool),
}

/// From the worker to the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    Ready {
        protocol: u32,
        program: String,
        kinds: Vec<(String, u32)>,
    },
    Opened(Result<(), StageError>),
    Processed(Result<Vec<Result<Output, Reject>>, StageError>),
    Gathered(Result<GatherOutput, StageError>),
    /// The number of jobs that are still open.
    Closed {
        open: u32,
    },
    Goodbye,
    Question(Question),
    Progress {
        done: u64,
        total: u64,
    },
    Metrics {
        step: u64,
        values: Vec<(String, f64)>,
    },
    Begins(Course),
    Devices(Devices),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    Read(Blob),
    /// The file of a large object, if it has one.
    Find(Blob),
    Recall(Digest),
    Remember(Digest, Output),
    Keep {
        kind: String,
        bytes: Bytes,
    },
    /// A folder for temporary files.
    Staging,
    /// Takes over a file of that folder.
    KeepFile {
        kind: String,
        path: Utf8PathBuf,
    },
    Checkpoint(Output),
    LastCheckpoint,
    Parent,
    Stopping,
    /// Items of a port, by their position in the input.
    SetAside(String, Vec<(u64, Reject)>),
    /// Asks if there is time for a step of training, and for a validation after it.
    MayBegin {
        validates: bool,
    },
}

/// Writes one message as a frame and flushes it.
pub fn send<M: Serialize>(output: &mut impl Write, message: &M) -> io::Result<()> {
    let body = postcard::to_stdvec(message).map_err(invalid)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= MAX_FRAME);
    let length = length.ok_or_else(|| invalid(format!("a message of {} bytes", body.len())))?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(&body)?;
    output.flush()
}

/// Reads one message; `None` if the other side has closed the pipe between two frames.
pub fn receive<M: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<M>> {
    let mut length = [0; 4];
    if !read_head(input, &mut length)? {
        return Ok(None);
    }
    let length = u32::from_le_bytes(length);
    if length > MAX_FRAME {
        let head = length.to_le_bytes();
        let begin = String::from_utf8_lossy(&head);
        return Err(invalid(format!("{begin:?} instead of the start of a message")));
    }
    let mut body = Vec::new();
    // Grows as bytes arrive, so that a false length costs nothing.
    input.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() < length as usize {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a frame was truncated"));
    }
    postcard::from_bytes(&body).map(Some).map_err(invalid)
}

/// Fills the head of a frame; false at the end of the input.
fn read_head(input: &mut impl Read, head: &mut [u8; 4]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < head.len() {
        match input.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a truncated frame")),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn invalid(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_a_round_trip_and_the_end_is_told() {
        let mut pipe = Vec::new();
        send(&mut pipe, &Request::Close { job: 7 }).unwrap();
        send(&mut pipe, &Request::Shutdown).unwrap();
        let mut input = pipe.as_slice();
        assert!(matches!(receive(&mut input).unwrap(), Some(Request::Close { job: 7 })));
        assert!(matches!(receive(&mut input).unwrap(), Some(Request::Shutdown)));
        assert!(receive::<Request>(&mut input).unwrap().is_none());
    }

    #[test]
    fn every_cut_is_an_error() {
        let mut pipe = Vec::new();
        send(&mut pipe, &Request::Close { job: 7 }).unwrap();
        for length in 1..pipe.len() {
            assert!(receive::<Request>(&mut &pipe[..length]).is_err());
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_unread() {
        let mut input: &[u8] = b"loading the model";
        let error = receive::<Request>(&mut input).unwrap_err();
        assert_eq!(error.to_string(), "\"load\" instead of the start of a message");
        assert_eq!(input, b"ing the model");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = receive::<Request>(&mut bytes.as_slice());
            let _ = receive::<Reply>(&mut bytes.as_slice());
        }
    }
}
