//! The watcher: a process beside the engine that ends the programs of a killed engine.
//!
//! There is one per engine, started just before its first program. Its standard input is a pipe
//! that the engine holds and nobody writes to, so that it closes when the engine ends for any
//! reason. Its standard output is a table in memory with the groups of running programs: a program
//! costs the engine three writes into it, and the watcher nothing.

use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::tree;

/// This program itself, even if its file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";

/// The argument that starts the program as the watcher.
static ARGUMENT: OnceLock<&'static str> = OnceLock::new();

/// The size of an entry of the table in bytes; 0 means empty.
const ENTRY: usize = size_of::<u32>();
/// The entry of a program that is starting: its group is not known yet.
const STARTING: u32 = u32::MAX;
/// The time within which the children of a killed engine get another parent.
const ORPHANED: Duration = Duration::from_millis(500);

/// From now on, the first program that is started has a watcher: this binary with that one
/// argument, which must call [`watch`].
pub fn enable(argument: &'static str) {
    // The first call wins.
    let _ = ARGUMENT.set(argument);
}

/// The engine's side of the watcher.
pub(super) struct Watched {
    table: File,
    /// Free entries.
    free: Vec<u64>,
    entries: u64,
    _pipe: PipeWriter,
    _watcher: Child,
}

/// An entry of the table.
pub(super) struct Slot(u64);

/// Enters a program that is about to start, and first starts the watcher if it is enabled and not
/// running: the engine may be killed at any moment. Programs also run without a watcher.
pub(super) fn enter(watched: &mut Option<Watched>) -> Option<Slot> {
    if watched.is_none() {
        *watched = ARGUMENT.get().and_then(|argument| spawn(argument).ok());
    }
    let watched = watched.as_mut()?;
    let slot = watched.free.pop().unwrap_or(watched.entries);
    watched.entries = watched.entries.max(slot + 1);
    watched.write(slot, STARTING);
    Some(Slot(slot))
}

/// Enters the group of a program that has started.
pub(super) fn set_group(watched: &Option<Watched>, slot: Option<&Slot>, group: u32) {
    if let (Some(watched), Some(Slot(slot))) = (watched, slot) {
        watched.write(*slot, group);
    }
}

pub(super) fn leave(watched: &mut Option<Watched>, slot: Option<Slot>) {
    if let (Some(watched), Some(Slot(slot))) = (watched, slot) {
        watched.write(slot, 0);
        watched.free.push(slot);
    }
}

impl Watched {
    fn write(&self, slot: u64, group: u32) {
        // The table is in memory: if there is none left, the program is not watched.
        let _ = self.table.write_all_at(&group.to_le_bytes(), slot * ENTRY as u64);
    }
}

fn table() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(File::from(memfd_create("programs", MemfdFlags::CLOEXEC)?))
}

fn spawn(argument: &str) -> io::Result<Watched> {
    let table = table()?;
    let (ours, pipe) = io::pipe()?;
    let watcher = Command::new(SELF)
        .arg(argument)
        .env_clear()
        .current_dir("/")
        .stdin(ours)
        .stdout(table.try_clone()?)
        .stderr(Stdio::null())
        // In its own group it survives a signal to the group of the engine.
        .process_group(0)
        .spawn()?;
    Ok(Watched { table, free: Vec::new(), entries: 0, _pipe: pipe, _watcher: watcher })
}

/// The watcher: waits for the end of the engine, and ends the remaining programs.
///
/// # Errors
///
/// If standard input or the table cannot be read.
pub fn watch() -> io::Result<()> {
    let engine = parent();
    let engine_group = rustix::process::getpgid(engine).ok();
    // Nothing is ever written to it. A program that is being started holds the pipe until it is in
    // its group.
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    let now = tree::now();
    let table = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (starting, started): (Vec<u32>, Vec<u32>) =
        entries(&table)?.into_iter().partition(|entry| *entry == STARTING);
    let mut groups: Vec<i32> = started.into_iter().map(|group| group as i32).collect();
    if !starting.is_empty() {
        let begun = Instant::now();
        while parent() == engine && begun.elapsed() < ORPHANED {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The group of the engine may be that of a script with other programs.
        let own = engine_group.map(|group| group.as_raw_nonzero().get());
        let known: Vec<i32> = groups.iter().copied().chain(own).collect();
        groups.extend(tree::orphans(&known, starting.len()));
    }
    tree::kill(&groups, now);
    Ok(())
}

fn parent() -> Option<Pid> {
    rustix::process::getppid()
}

/// The entries that are not empty.
fn entries(table: &File) -> io::Result<Vec<u32>> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match table.read_at(&mut chunk, bytes.len() as u64)? {
            0 => break,
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
    let entries = bytes.chunks_exact(ENTRY).filter_map(|entry| entry.try_into().ok());
    Ok(entries.map(u32::from_le_bytes).filter(|entry| *entry != 0).collect())
}
