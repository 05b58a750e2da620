//! The stored log of a run: its events as JSON lines in the cache folder.
//!
//! It is for people and nothing is computed from it: a log that cannot be written is given up
//! silently, and it is not synced.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::event::{Event, Status};
use cache::Cache;
use cache::fs::{Fs, FsError, FsFile, Open};
use camino::{Utf8Path, Utf8PathBuf};

/// The time that written events may wait in memory, so that small ones share a write.
const DELAY: Duration = Duration::from_millis(500);
const FULL: usize = 64 << 10;

/// The folder of the logs of a cache.
pub fn folder(cache: &Utf8Path) -> Utf8PathBuf {
    cache.join("runs")
}

/// The file of the log of a run.
pub fn path(cache: &Utf8Path, run: u64) -> Utf8PathBuf {
    folder(cache).join(format!("{run:06}.jsonl"))
}

/// The run number in the name of a log file.
pub fn number(name: &str) -> Option<u64> {
    name.strip_suffix(".jsonl")?.parse().ok()
}

/// The logged events of a run, and the number of unreadable lines; `None` without a log.
pub fn read(cache: &Cache, run: u64) -> Result<Option<(Vec<Event>, usize)>, FsError> {
    let bytes = match cache.home().read(&path(cache.dir(), run)) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events: Vec<Option<Event>> = lines.map(|line| serde_json::from_slice(line).ok()).collect();
    let unreadable = events.iter().filter(|event| event.is_none()).count();
    Ok(Some((events.into_iter().flatten().collect(), unreadable)))
}

/// When, as which process and on which machine a run has started.
#[derive(Debug, Default)]
pub struct Beginning {
    pub time: Option<i64>,
    pub process: Option<u32>,
    pub machine: Option<String>,
}

/// From the beginning of the log of a run.
pub fn beginning(cache: &Cache, run: u64) -> Beginning {
    let bytes = cache.home().read(&path(cache.dir(), run)).unwrap_or_default();
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice(first) {
        Ok(Event::Started { time, process, machine, .. }) => Beginning { time, process, machine },
        _ => Beginning::default(),
    }
}

/// Creates the file when a run has work; until then events are held back, and a no-op run has no
/// log.
pub struct RunLog {
    fs: Arc<dyn Fs>,
    dir: Utf8PathBuf,
    waiting: Vec<u8>,
    run: Option<u64>,
    waiting_for: Option<Event>,
    file: Option<Box<dyn FsFile>>,
    written: u64,
    last_write: Instant,
    given_up: bool,
}

impl RunLog {
    pub fn new(cache: &Cache) -> RunLog {
        RunLog {
            fs: cache.home().clone(),
            dir: cache.dir().to_owned(),
            waiting: Vec::new(),
            run: None,
            waiting_for: None,
            file: None,
            written: 0,
            last_write: Instant::now(),
            given_up: false,
        }
    }

    fn open(&mut self, run: u64) -> Option<()> {
        let path = path(&self.dir, run);
        self.fs.create_dir_in_place(path.parent()?).ok()?;
        let file = self.fs.open(&path, Open::Create).ok()?;
        file.set_len(0).ok()?;
        self.file = Some(file);
        Some(())
    }

    fn write(&mut self) -> Option<()> {
        let Some(file) = &self.file else { return Some(()) };
        file.write_all_at(&self.waiting, self.written).ok()?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        self.last_write = Instant::now();
        Some(())
    }

    fn add(&mut self, event: &Event) -> Option<()> {
        serde_json::to_writer(&mut self.waiting, event).ok()?;
        self.waiting.push(b'\n');
        if let Event::Started { run, .. } = event {
            self.run = Some(*run);
        }
        if let (None, Some(run), true) = (&self.file, self.run, tells_of_work(event)) {
            self.open(run)?;
            self.write()?;
        }
        let is_end = matches!(event, Event::Finished { .. });
        if is_end || self.waiting.len() >= FULL || self.last_write.elapsed() >= DELAY {
            self.write()
        } else {
            Some(())
        }
    }

    /// Progress is left out, since the events at the end of a stage include it. So are repeated
    /// `waiting` events.
    pub fn event(&mut self, event: &Event) {
        let is_news = match event {
            Event::Progress { .. } => false,
            Event::Waiting { .. } => self.waiting_for.as_ref() != Some(event),
            _ => true,
        };
        if matches!(event, Event::Waiting { .. }) {
            self.waiting_for = Some(event.clone());
        }
        if is_news && !self.given_up {
            self.given_up = self.add(event).is_none();
        }
    }
}

fn tells_of_work(event: &Event) -> bool {
    match event {
        Event::StageStarted { .. }
        | Event::StageFailed { .. }
        | Event::RunFailed { .. }
        | Event::Exported { .. } => true,
        Event::Finished { status, .. } => *status != Status::Done,
        _ => false,
    }
}

impl Drop for RunLog {
    fn drop(&mut self) {
        let _ = self.write();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cache::Access;
    use cache::fs::MemoryFs;

    fn log(cache: &Cache, events: &[Event]) {
        let mut log = RunLog::new(cache);
        events.iter().for_each(|event| log.event(event));
    }

    fn cache() -> Cache {
        let fs: Arc<dyn Fs> = Arc::new(MemoryFs::new());
        Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap()
    }

    #[test]
    fn the_log_holds_the_events_of_the_run_in_order() {
        let cache = cache();
        let events = [
            Event::Waiting { what: "a lock".into() },
            Event::Started {
                run: 7,
                pipeline: "p".into(),
                stages: vec![],
                time: None,
                process: None,
                machine: None,
            },
            Event::StageStarted { stage: "s".into(), total: 1, reasons: vec![], trial: None },
            Event::Finished { status: Status::Done, stages: [].into(), seconds: 0.0 },
        ];
        let told: Vec<Event> = [&events[..1], &events[..]].concat();
        log(&cache, &told);
        assert_eq!(read(&cache, 7).unwrap(), Some((events.to_vec(), 0)));
        assert_eq!(read(&cache, 8).unwrap(), None);
    }

    #[test]
    fn a_run_with_nothing_to_do_leaves_no_file() {
        let cache = cache();
        let events = [
            Event::Started {
                run: 7,
                pipeline: "p".into(),
                stages: vec![],
                time: None,
                process: None,
                machine: None,
            },
            Event::Finished { status: Status::Done, stages: [].into(), seconds: 0.0 },
        ];
        log(&cache, &events);
        assert!(!cache.fs().exists(&folder("/cache".into())).unwrap());
    }
}
