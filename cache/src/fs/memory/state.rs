//! The mutable state of the memory file system: visible and durable data, locks, and the effects of
//! each operation.

use std::collections::{HashMap, HashSet};
use std::io;

use camino::{Utf8Component, Utf8Path};

use super::Random;
use super::disk::{Disk, DiskChange, Inode, Node, ROOT};
use crate::fs::fault::EROFS;
use crate::fs::{FileKind, Metadata, Open};

#[derive(Debug)]
pub struct DiskState {
    pub seen: Disk,
    pub durable: Disk,
    /// The changes in `seen` that `durable` lacks, in order.
    pub journal: Vec<DiskChange>,
    pub next_inode: Inode,
    pub next_handle: u64,
    pub locks: HashMap<Inode, Locks>,
    pub clock: i64,
    pub syncs: u64,
    pub stop_after: Option<u64>,
    pub readonly: bool,
    /// Random numbers of a seed, if they are to be repeatable.
    pub random: Option<Random>,
}

#[derive(Debug, Default)]
pub struct Locks {
    pub exclusive: Option<u64>,
    pub shared: HashSet<u64>,
    pub bytes: HashMap<u64, u64>,
}

pub const START: i64 = 1_700_000_000_000_000_000;
pub const TICK: i64 = 1_000;

pub fn error(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

impl DiskState {
    pub fn find(&self, path: &Utf8Path) -> io::Result<Inode> {
        let mut inode = ROOT;
        for component in path.components() {
            if let Utf8Component::Normal(name) = component {
                let names = self.seen.dir(inode);
                let names = names.ok_or_else(|| error(io::ErrorKind::NotADirectory))?;
                inode = *names.get(name).ok_or_else(|| error(io::ErrorKind::NotFound))?;
            }
        }
        Ok(inode)
    }

    /// The folder of a path, and its last name.
    pub fn place(&self, path: &Utf8Path) -> io::Result<(Inode, String)> {
        let name = path.file_name().ok_or_else(|| error(io::ErrorKind::InvalidInput))?;
        let dir = self.find(path.parent().unwrap_or(Utf8Path::new("/")))?;
        self.seen.dir(dir).ok_or_else(|| error(io::ErrorKind::NotADirectory))?;
        Ok((dir, name.to_owned()))
    }

    pub fn change(&mut self, change: DiskChange) {
        self.clock += TICK;
        match &change {
            DiskChange::Data { inode, .. } | DiskChange::Length { inode, .. } => {
                self.seen.modified.insert(*inode, self.clock);
            }
            DiskChange::Link { dir, .. } | DiskChange::Unlink { dir, .. } => {
                self.seen.modified.insert(*dir, self.clock);
            }
            DiskChange::Rename { from, to, .. } => {
                self.seen.modified.insert(from.0, self.clock);
                self.seen.modified.insert(to.0, self.clock);
            }
        }
        self.seen.apply(&change);
        self.journal.push(change);
    }

    pub fn persist(&mut self, wanted: impl Fn(&DiskChange) -> bool) {
        self.syncs += 1;
        let journal = std::mem::take(&mut self.journal);
        for change in journal {
            if wanted(&change) {
                self.durable.apply(&change);
            } else {
                self.journal.push(change);
            }
        }
    }

    pub fn metadata(&self, inode: Inode) -> io::Result<Metadata> {
        let node = self.seen.nodes.get(&inode).ok_or_else(|| error(io::ErrorKind::NotFound))?;
        let (kind, size) = match node {
            Node::File(bytes) => (FileKind::File, bytes.len() as u64),
            Node::Dir(names) => (FileKind::Dir, names.len() as u64),
        };
        let time = self.seen.modified.get(&inode).copied().unwrap_or(START);
        let readonly = self.seen.readonly.contains(&inode);
        Ok(Metadata { kind, size, mtime_ns: time, ctime_ns: time, inode, readonly })
    }

    pub fn create(&mut self, path: &Utf8Path, is_dir: bool) -> io::Result<Inode> {
        let (dir, name) = self.place(path)?;
        if self.seen.dir(dir).is_some_and(|names| names.contains_key(&name)) {
            return Err(error(io::ErrorKind::AlreadyExists));
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.change(DiskChange::Link { dir, name, inode, is_dir });
        self.seen.modified.insert(inode, self.clock);
        Ok(inode)
    }

    pub fn open(&mut self, path: &Utf8Path, how: Open) -> io::Result<(Inode, bool)> {
        let inode = match (self.find(path), how) {
            (Err(missing), Open::Create | Open::CreateNew)
                if missing.kind() == io::ErrorKind::NotFound =>
            {
                if self.readonly {
                    return Err(io::Error::from_raw_os_error(EROFS));
                }
                self.create(path, false)?
            }
            (Ok(_), Open::CreateNew) => return Err(error(io::ErrorKind::AlreadyExists)),
            (found, _) => found?,
        };
        if self.seen.file(inode).is_none() {
            return Err(error(io::ErrorKind::IsADirectory));
        }
        let writes = how != Open::Read;
        if writes && self.readonly {
            return Err(io::Error::from_raw_os_error(EROFS));
        }
        if writes && self.seen.readonly.contains(&inode) {
            return Err(error(io::ErrorKind::PermissionDenied));
        }
        Ok((inode, writes))
    }

    pub fn remove(&mut self, path: &Utf8Path, is_dir: bool) -> io::Result<()> {
        let inode = self.find(path)?;
        match (self.seen.dir(inode), is_dir) {
            (Some(_), false) => return Err(error(io::ErrorKind::IsADirectory)),
            (None, true) => return Err(error(io::ErrorKind::NotADirectory)),
            (Some(names), true) if !names.is_empty() => {
                return Err(error(io::ErrorKind::DirectoryNotEmpty));
            }
            _ => {}
        }
        let (dir, name) = self.place(path)?;
        self.change(DiskChange::Unlink { dir, name });
        Ok(())
    }

    pub fn rename(&mut self, from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
        let inode = self.find(from)?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        let replaced = self.seen.dir(to.0).and_then(|names| names.get(&to.1)).copied();
        if let Some(replaced) = replaced.filter(|replaced| *replaced != inode) {
            match (self.seen.dir(inode), self.seen.dir(replaced)) {
                (None, Some(_)) => return Err(error(io::ErrorKind::IsADirectory)),
                (Some(_), None) => return Err(error(io::ErrorKind::NotADirectory)),
                (Some(_), Some(names)) if !names.is_empty() => {
                    return Err(error(io::ErrorKind::DirectoryNotEmpty));
                }
                _ => {}
            }
        }
        self.change(DiskChange::Rename { from, to, inode });
        Ok(())
    }
}

impl Locks {
    pub fn release(&mut self, handle: u64) {
        self.exclusive = self.exclusive.filter(|holder| *holder != handle);
        self.shared.remove(&handle);
    }
}
