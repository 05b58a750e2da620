//! The contents of a disk: files, folders, and single changes to them. The memory file system keeps
//! two, one as programs see it and one as it would be after a power cut.

use std::collections::{BTreeMap, HashMap, HashSet};

pub type Inode = u64;

pub const ROOT: Inode = 1;

#[derive(Debug, Clone)]
pub enum Node {
    File(Vec<u8>),
    Dir(BTreeMap<String, Inode>),
}

/// One change to a disk.
#[derive(Debug, Clone)]
pub enum DiskChange {
    Data { inode: Inode, offset: usize, bytes: Vec<u8> },
    Length { inode: Inode, length: usize },
    Link { dir: Inode, name: String, inode: Inode, is_dir: bool },
    Unlink { dir: Inode, name: String },
    Rename { from: (Inode, String), to: (Inode, String), inode: Inode },
}

impl DiskChange {
    /// Tests if syncing the data of this file makes the change durable.
    pub fn is_data_of(&self, wanted: Inode) -> bool {
        match self {
            DiskChange::Data { inode, .. } | DiskChange::Length { inode, .. } => *inode == wanted,
            _ => false,
        }
    }

    /// Tests if syncing this folder makes the change durable.
    pub fn is_name_in(&self, wanted: Inode) -> bool {
        match self {
            DiskChange::Link { dir, .. } | DiskChange::Unlink { dir, .. } => *dir == wanted,
            DiskChange::Rename { from, to, .. } => from.0 == wanted || to.0 == wanted,
            _ => false,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Disk {
    pub nodes: HashMap<Inode, Node>,
    pub readonly: HashSet<Inode>,
    pub modified: HashMap<Inode, i64>,
    /// Skips changes to the wrong kind of node: numbers are never reused for another kind.
    nowhere: (Vec<u8>, BTreeMap<String, Inode>),
}

impl Disk {
    pub fn new() -> Disk {
        Disk {
            nodes: HashMap::from([(ROOT, Node::Dir(BTreeMap::new()))]),
            readonly: HashSet::new(),
            modified: HashMap::new(),
            nowhere: Default::default(),
        }
    }

    pub fn dir(&self, inode: Inode) -> Option<&BTreeMap<String, Inode>> {
        match self.nodes.get(&inode) {
            Some(Node::Dir(names)) => Some(names),
            _ => None,
        }
    }

    pub fn file(&self, inode: Inode) -> Option<&Vec<u8>> {
        match self.nodes.get(&inode) {
            Some(Node::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub fn apply(&mut self, change: &DiskChange) {
        match change {
            DiskChange::Data { inode, offset, bytes } => {
                let file = self.file_mut(*inode);
                let end = offset + bytes.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[*offset..end].copy_from_slice(bytes);
            }
            DiskChange::Length { inode, length } => self.file_mut(*inode).resize(*length, 0),
            DiskChange::Link { dir, name, inode, is_dir } => {
                let empty =
                    if *is_dir { Node::Dir(BTreeMap::new()) } else { Node::File(Vec::new()) };
                self.nodes.entry(*inode).or_insert(empty);
                self.names_mut(*dir).insert(name.clone(), *inode);
            }
            DiskChange::Unlink { dir, name } => _ = self.names_mut(*dir).remove(name),
            DiskChange::Rename { from, to, inode } => {
                let names = self.names_mut(from.0);
                if names.get(&from.1) == Some(inode) {
                    names.remove(&from.1);
                }
                // The creation of this file never reached the disk: it appears with its new name.
                self.nodes.entry(*inode).or_insert(Node::File(Vec::new()));
                self.names_mut(to.0).insert(to.1.clone(), *inode);
            }
        }
    }

    fn file_mut(&mut self, inode: Inode) -> &mut Vec<u8> {
        match self.nodes.entry(inode).or_insert(Node::File(Vec::new())) {
            Node::File(bytes) => bytes,
            Node::Dir(_) => &mut self.nowhere.0,
        }
    }

    fn names_mut(&mut self, inode: Inode) -> &mut BTreeMap<String, Inode> {
        match self.nodes.entry(inode).or_insert(Node::Dir(BTreeMap::new())) {
            Node::Dir(names) => names,
            Node::File(_) => &mut self.nowhere.1,
        }
    }
}
