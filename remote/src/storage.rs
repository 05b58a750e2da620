//! A place for named bytes: the few operations that a remote needs, without any meaning.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use camino::Utf8Path;

/// Why an operation failed, for people. It contains no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// A name in a listing. It comes from the remote: it is parsed, and never used as a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Relative to the remote.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Seconds since 1970.
    pub modified: i64,
}

/// Names are relative paths that the layout makes. Only a repair overwrites a file with other
/// bytes.
pub trait Storage: Debug + Send + Sync {
    /// All bytes; none if there is no such file. A file of more than `most` bytes is not read: it
    /// counts as an empty one, which every reader takes for damaged, as no valid file is empty.
    ///
    /// # Errors
    ///
    /// If the place cannot be reached, or refuses the request.
    fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, Refusal>;

    /// The bytes in this range: fewer if the file ends before, never more.
    ///
    /// # Errors
    ///
    /// Those of [`Storage::get`].
    fn part(&self, name: &str, offset: u64, length: u64) -> Result<Option<Bytes>, Refusal>;

    /// Writes the bytes unless the name is taken; false if it was. Readers see all bytes or none,
    /// if the place can promise that.
    ///
    /// # Errors
    ///
    /// Those of [`Storage::get`], and those of a full place.
    fn put(&self, name: &str, bytes: Bytes) -> Result<bool, Refusal>;

    /// Writes the bytes in place of what is under this name, if possible in one step.
    ///
    /// # Errors
    ///
    /// Those of [`Storage::put`].
    fn replace(&self, name: &str, bytes: Bytes) -> Result<(), Refusal> {
        self.remove(name)?;
        self.put(name, bytes).map(drop)
    }

    /// The same as [`Storage::put`] for a file, for a name that determines the bytes.
    ///
    /// # Errors
    ///
    /// Those of [`Storage::put`], and those of reading the file.
    fn put_file(&self, name: &str, file: &Utf8Path) -> Result<(), Refusal>;

    /// The size of a file; none if there is no such file.
    ///
    /// # Errors
    ///
    /// Those of [`Storage::get`].
    fn size(&self, name: &str) -> Result<Option<u64>, Refusal>;

    /// Everything in this folder and those below it.
    ///
    /// # Errors
    ///
    /// Those of [`Storage::get`].
    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, Refusal>;

    /// The names of entries in the place of files that are none, such as folders and pipes, which read
    /// as empty files and are not listed, and of files in the place of folders.
    ///
    /// # Errors
    ///
    /// Those of [`Storage::get`].
    fn odd(&self) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }

    /// The files and folders that could not be read so far, each with the reason, where others could. An
    /// unreadable file reads as an empty one, and an unreadable folder is listed as an empty one.
    fn unreadable(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Removes a file, or an odd entry without contents.
    ///
    /// # Errors
    ///
    /// If the place cannot be reached, or refuses the request. A missing file is no error.
    fn remove(&self, name: &str) -> Result<(), Refusal>;

    /// The number of requests that may be under way. Latency limits them, not the number of processors.
    fn at_once(&self) -> usize {
        16
    }

    /// False for a place that nobody can write to through it.
    fn is_writable(&self) -> bool {
        true
    }

    /// False for a place that cannot tell what it has.
    fn can_list(&self) -> bool {
        true
    }
}
