//! Clips that are parts of their files. Each recording is read once, several at a time, and each part
//! is remembered by the content of the recording.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;

use bytes::Bytes;
use cache::Digest;
use stage_core::key::{HashSink, Sink};
use stage_core::{Blob, Fields, FileParts, Reject, StageError, Value as FieldValue, World};

use super::{FileRow, RowFile};
use crate::audio::fault::ReadError;
use crate::corpus::RowProblem;
use crate::corpus::cut::{PartClip, cut};
use crate::corpus::items::RowAudio;
use crate::corpus::part::Part;

/// The version of a cut: another one forgets those that are remembered.
const VERSION: i64 = 1;
/// The number of cuts that wait to be stored.
const WAITING_CUTS: usize = 4;

/// A recording with its parts that are not remembered, by the number of their row.
struct RecordingParts {
    file: Arc<dyn FileParts>,
    rows: Vec<usize>,
    parts: Vec<Part>,
}

/// The result of a thread.
enum Message {
    Cut { row: usize, cut: Result<PartClip, RowProblem> },
    Ended { recording: usize, result: Result<(), ReadError> },
}

type Clips = HashMap<usize, Result<RowAudio, Reject>>;

impl RowFile {
    /// The clips of the rows that are parts of their files, by the number of the row.
    pub(super) fn cut_parts(
        &self,
        rows: &[FileRow],
        world: &mut dyn World,
    ) -> Result<Clips, StageError> {
        let mut by_path: BTreeMap<&str, Vec<(usize, Part)>> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            if let Some(part) = row.record.part {
                by_path.entry(&row.path).or_default().push((at, part));
            }
        }
        let (mut clips, mut recordings) = (Clips::new(), Vec::new());
        for (path, parts) in by_path {
            // Opening it also records that its content was read.
            let file = match world.open_one(&self.audio.join(path))? {
                Ok(file) => file,
                Err(reject) => {
                    clips.extend(parts.into_iter().map(|(at, _)| (at, Err(reject.clone()))));
                    continue;
                }
            };
            let mut recording = RecordingParts { file, rows: Vec::new(), parts: Vec::new() };
            for (at, part) in parts {
                match recall(&key(&rows[at].fact.digest, &part), world)? {
                    Some(clip) => drop(clips.insert(at, Ok(clip))),
                    None => {
                        recording.rows.push(at);
                        recording.parts.push(part);
                    }
                }
            }
            if !recording.rows.is_empty() {
                recordings.push(recording);
            }
        }
        if !recordings.is_empty() {
            let count = recordings.len();
            let noun = if count == 1 { "recording" } else { "recordings" };
            world.waiting(format!("the parts of {count} {noun}"));
            self.cut_all(&recordings, rows, world, &mut clips)?;
        }
        Ok(clips)
    }

    fn cut_all(
        &self,
        recordings: &[RecordingParts],
        rows: &[FileRow],
        world: &mut dyn World,
        clips: &mut Clips,
    ) -> Result<(), StageError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        let (sender, messages) = sync_channel(WAITING_CUTS);
        std::thread::scope(|scope| {
            for started in 0..threads.min(recordings.len()) {
                let (sender, next) = (sender.clone(), &next);
                let read = move || read_some(recordings, next, &sender);
                match Builder::new().spawn_scoped(scope, read) {
                    Ok(_) => {}
                    Err(error) if started == 0 => {
                        let message = format!("failed to start a thread: {error}");
                        return Err(StageError::of_io(message, &error));
                    }
                    // The others read all recordings.
                    Err(_) => break,
                }
            }
            drop(sender);
            // If this returns early, the threads cannot send any more and end.
            for message in messages {
                match message {
                    Message::Cut { row, cut } => {
                        let clip = match cut {
                            Ok(cut) => Ok(keep(&rows[row], cut, world)?),
                            Err(problem) => Err(self.refused(&rows[row], &problem)),
                        };
                        clips.insert(row, clip);
                    }
                    Message::Ended { recording, result } => {
                        let reject = match result {
                            Ok(()) => continue,
                            Err(trouble) => trouble.judge()?,
                        };
                        for row in &recordings[recording].rows {
                            let path = &rows[*row].path;
                            let reason = format!("`{}`: {}", self.audio.join(path), reject.reason);
                            clips
                                .entry(*row)
                                .or_insert_with(|| Err(Reject::new(&*reject.code, reason)));
                        }
                    }
                }
            }
            Ok(())
        })
    }

    fn refused(&self, row: &FileRow, problem: &RowProblem) -> Reject {
        let (number, id) = (row.record.row, &row.record.id);
        let file = self.audio.join(&row.path);
        Reject::new(problem.code(), format!("row {number} `{id}` (`{file}`): {problem}"))
    }
}

/// Reads recordings until none is left.
fn read_some(recordings: &[RecordingParts], next: &AtomicUsize, sender: &SyncSender<Message>) {
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(recording) = recordings.get(at) else { return };
        let mut each = |part: usize, cut: Result<PartClip, RowProblem>| {
            let row = recording.rows[part];
            let _ = sender.send(Message::Cut { row, cut });
        };
        let work = || cut(recording.file.clone(), &recording.parts, &mut each);
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            let error = std::io::Error::other("the decoder failed");
            Err(ReadError::Io(error))
        });
        if sender.send(Message::Ended { recording: at, result }).is_err() {
            return;
        }
    }
}

fn key(recording: &Digest, part: &Part) -> Digest {
    let mut sink = HashSink::default();
    sink.group("part of a recording", 5);
    sink.integer("version", VERSION);
    sink.digest("recording", recording);
    sink.number("start", part.start);
    sink.number("seconds", part.seconds.unwrap_or(-1.0));
    sink.integer("channel", part.channel.map_or(-1, i64::from));
    sink.finish()
}

fn recall(key: &Digest, world: &mut dyn World) -> Result<Option<RowAudio>, StageError> {
    let known = world.recall(key)?;
    Ok(known.and_then(|fields| {
        let audio = Blob::clone(fields.blob("audio")?);
        Some(RowAudio { audio, seconds: fields.number("seconds") })
    }))
}

fn keep(row: &FileRow, cut: PartClip, world: &mut dyn World) -> Result<RowAudio, StageError> {
    let audio = match cut.bytes {
        Some(bytes) => world.keep(Blob::RECORDING, Bytes::from(bytes))?,
        None => {
            let kind = Blob::RECORDING.into();
            Blob { digest: row.fact.digest, size: row.fact.size, kind }
        }
    };
    if let Some(part) = row.record.part {
        let mut fields = Fields::new();
        fields.set("audio", FieldValue::Blob(Arc::new(audio.clone())));
        fields.set("seconds", FieldValue::Number(cut.seconds));
        world.remember(&key(&row.fact.digest, &part), &fields)?;
    }
    Ok(RowAudio { audio, seconds: Some(cut.seconds) })
}
