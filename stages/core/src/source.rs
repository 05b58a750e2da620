//! Reading of external data: the job, and the user's files as it sees them.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use cache::Digest;
use camino::{Utf8Path, Utf8PathBuf};

use crate::error::{Reject, StageError};
use crate::item::{Blob, Fields, Item};

/// Reads external data.
pub trait SourceJob: Send {
    /// Lists all items: for the first plan, and for each plan after something that it looked at has
    /// changed. It must look at the user's files through `world` only.
    ///
    /// # Errors
    ///
    /// Any [`StageError`]: the whole plan fails. A row or file that cannot become an item is no
    /// error, but one of [`SourceOutput::rejects`].
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError>;

    /// True if the answers of [`World::files`] for a file only become blobs, and each such digest
    /// belongs to that one file. Then new contents of files replace the old ones in the items, and
    /// nothing is scanned.
    fn passes_files_on(&self) -> bool {
        false
    }
}

/// The findings of a source.
#[derive(Clone, Debug, Default)]
pub struct SourceOutput {
    /// The items, in any order. Their ids must differ.
    pub items: Vec<Item>,
    /// Rows and files that cannot become items, with their names.
    pub rejects: Vec<(String, Reject)>,
    /// Notes about all files, with their counts; shown in reports.
    pub notes: Vec<(String, u64)>,
}

/// The identity of the content of one of the user's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFact {
    /// The BLAKE3 digest of its bytes.
    pub digest: Digest,
    /// Its number of bytes.
    pub size: u64,
}

/// A file that is read in parts.
pub trait FileParts: Send + Sync {
    /// The number of bytes of the whole file.
    fn size(&self) -> u64;

    /// May read less than asked; 0 only at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has changed since it was opened. Past the end is no error, but
    /// reads 0 bytes.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads the whole file, and returns an error if its digest is wrong. Does nothing if the
    /// digest is known to be right.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or if its bytes are not those that were expected.
    fn verify(&self) -> io::Result<()> {
        Ok(())
    }
}

impl FileParts for Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        rest.unwrap_or_default().read(buffer)
    }
}

/// The entries below a folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Everything except folders, sorted, relative to the folder. An entry that is not a regular
    /// file is reported when it is read.
    pub files: Vec<Utf8PathBuf>,
    /// The folders, sorted, relative to the folder; also links to folders, which are not followed.
    pub folders: Vec<Utf8PathBuf>,
    /// Names without a path, and folders that cannot be listed.
    pub rejects: Vec<(String, Reject)>,
}

/// The user's files as a source sees them. All questions are recorded, so that the next plan knows
/// from the files' stat alone if the answers would be the same.
pub trait World {
    /// The bytes of one file of many; if it cannot be read, only it is quarantined. Paths are
    /// relative to the manifest, or absolute.
    ///
    /// # Errors
    ///
    /// If the machine is to blame and not the file, such as too many open files: the plan ends, and
    /// nothing is recorded.
    fn read_one(&mut self, path: &Utf8Path) -> Result<Result<Bytes, Reject>, StageError>;

    /// The bytes of a file that the stage cannot work without.
    ///
    /// # Errors
    ///
    /// If the file is missing or cannot be read.
    fn read(&mut self, path: &Utf8Path) -> Result<Bytes, StageError> {
        self.read_one(path)?.map_err(|reject| StageError::failed(reject.reason))
    }

    /// One file of many that is too large to be read whole. It must not change while it is open; a
    /// change ends the reading with an error.
    ///
    /// # Errors
    ///
    /// Those of [`World::read_one`].
    fn open_one(
        &mut self,
        path: &Utf8Path,
    ) -> Result<Result<Arc<dyn FileParts>, Reject>, StageError> {
        Ok(self.read_one(path)?.map(|bytes| Arc::new(bytes) as Arc<dyn FileParts>))
    }

    /// The entries below a folder.
    ///
    /// # Errors
    ///
    /// If there is no such folder, or if it cannot be listed. Folders below it that cannot be
    /// listed are among the rejects.
    fn list(&mut self, folder: &Utf8Path) -> Result<Listing, StageError>;

    /// The entries below a folder; None if there is no such folder.
    ///
    /// # Errors
    ///
    /// If there is something else than a folder, or if it cannot be listed.
    fn list_if_any(&mut self, folder: &Utf8Path) -> Result<Option<Listing>, StageError> {
        self.list(folder).map(Some)
    }

    /// The entries of one folder, without those of the folders in it; None if there is no such
    /// folder.
    ///
    /// # Errors
    ///
    /// If there is something else than a folder, or if it cannot be listed.
    fn list_folder(&mut self, folder: &Utf8Path) -> Result<Option<Listing>, StageError> {
        let is_direct = |path: &Utf8PathBuf| path.components().count() == 1;
        let listed = self.list_if_any(folder)?;
        Ok(listed.map(|mut listed| {
            listed.files.retain(is_direct);
            listed.folders.retain(is_direct);
            listed
        }))
    }

    /// Tests if there is such a file.
    fn exists(&mut self, path: &Utf8Path) -> bool;

    /// Digest and size of many files, hashed in parallel unless they are known.
    ///
    /// # Errors
    ///
    /// Those of [`World::read_one`]; a file that is missing or cannot be read has a verdict of its
    /// own in its place.
    fn files(&mut self, paths: &[Utf8PathBuf])
    -> Result<Vec<Result<FileFact, Reject>>, StageError>;

    /// Stores bytes that have no file of their own.
    ///
    /// # Errors
    ///
    /// If the cache cannot be written, such as when the disk is full.
    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError>;

    /// The fields that were remembered under a key, if all of their objects exist.
    ///
    /// # Errors
    ///
    /// If the cache cannot be read.
    fn recall(&mut self, _key: &Digest) -> Result<Option<Fields>, StageError> {
        Ok(None)
    }

    /// Remembers fields that follow from the key alone, which includes the contents of files.
    ///
    /// # Errors
    ///
    /// If the cache cannot be written. Without the record, the next plan works again.
    fn remember(&mut self, _key: &Digest, _fields: &Fields) -> Result<(), StageError> {
        Ok(())
    }

    /// Reports what the user waits for.
    fn waiting(&mut self, _what: String) {}
}
