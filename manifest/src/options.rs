//! The surroundings of a manifest: overrides, files and environment, as functions.

use camino::Utf8Path;

/// The context of a manifest beside its text.
pub struct LoadOptions<'a> {
    /// Overrides such as `stage.voice.rate=22050`, in order.
    pub set: Vec<String>,
    /// The value of an environment variable.
    pub secrets: &'a dyn Fn(&str) -> Option<String>,
    /// Tests if a path is in the folder of the cache, wherever it is.
    pub is_in_cache: &'a dyn Fn(&Utf8Path) -> bool,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions { set: Vec::new(), secrets: &|_| None, is_in_cache: &|_| false }
    }
}

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Folder,
    /// A pipe, a socket or a device.
    Special,
    Missing,
}
