//! Errors of reading and writing files of other projects.

use cache::fs::FsError;
use stage_core::StageError;
use stage_core::escape::clean;

use crate::stranger::Stranger;

/// Messages contain names and texts of external files, so each is escaped: it cannot control a
/// terminal or start another line.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The bytes violate the format.
    #[error("the {format} file cannot be read: {}", clean(.message))]
    Damaged { format: &'static str, message: String },
    /// The bytes may be valid, but ask for more than a real file would.
    #[error("the {format} file is refused: {}", clean(.message))]
    TooMuch { format: &'static str, message: String },
    /// Data of another type, such as a page of a failed download.
    #[error("it is {}, not {format}", .stranger.what)]
    Stranger { format: &'static str, stranger: Stranger },
    /// A variant that this reader does not support.
    #[error("{}", clean(.message))]
    Unsupported { message: String },
    #[error("the tensor `{}` cannot be used: {}", clean(.name), clean(.message))]
    Tensor { name: String, message: String },
    #[error("there is no tensor `{}`{hint}", clean(.name))]
    Missing { name: String, hint: String },
    /// Files that an index of weights names.
    #[error("the index names files that are missing: {}", clean(.names))]
    MissingShards { names: String },
    /// The values to write do not fit together.
    #[error("the {format} file cannot be written: {}", clean(.message))]
    Unwritable { format: &'static str, message: String },
    #[error("the {format} file cannot be written: {source}")]
    Write { format: &'static str, source: std::io::Error },
    /// The bytes could not be read.
    #[error("the {format} file cannot be read: {}", clean(&.source.to_string()))]
    Read { format: &'static str, source: std::io::Error },
    #[error("{error}: {}", .error.source)]
    File { error: FsError },
}

impl FormatError {
    /// As the error of a stage, for the file or tensor of this name.
    pub fn of(self, name: &str) -> StageError {
        self.told(format!("`{name}`: {self}"))
    }

    /// A machine fault is no fault of the file.
    fn told(&self, message: String) -> StageError {
        match self {
            FormatError::File { error } => StageError::of_io(message, &error.source),
            FormatError::Write { source, .. } | FormatError::Read { source, .. } => {
                StageError::of_io(message, source)
            }
            FormatError::Stranger { stranger, .. } if !stranger.help.is_empty() => {
                StageError::with_help(message, stranger.help)
            }
            FormatError::MissingShards { .. } => {
                StageError::with_help(message, "put all shards beside their index")
            }
            _ => StageError::failed(message),
        }
    }

    pub fn damaged(format: &'static str, message: impl Into<String>) -> FormatError {
        FormatError::Damaged { format, message: message.into() }
    }

    pub fn too_much(format: &'static str, message: impl Into<String>) -> FormatError {
        FormatError::TooMuch { format, message: message.into() }
    }

    pub(crate) fn tensor(name: &str, message: impl Into<String>) -> FormatError {
        FormatError::Tensor { name: name.to_owned(), message: message.into() }
    }

    pub(crate) fn unwritable(format: &'static str, message: impl Into<String>) -> FormatError {
        FormatError::Unwritable { format, message: message.into() }
    }
}

impl From<FsError> for FormatError {
    fn from(error: FsError) -> FormatError {
        FormatError::File { error }
    }
}

impl From<FormatError> for StageError {
    fn from(error: FormatError) -> StageError {
        error.told(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_foreign_files_are_escaped_in_every_message() {
        let harm = || "a\n\u{1b}[2J".to_owned();
        let (format, shown) = ("pth", "a\\n\\u{1b}[2J");
        for error in [
            FormatError::Damaged { format, message: harm() },
            FormatError::TooMuch { format, message: harm() },
            FormatError::Unsupported { message: harm() },
            FormatError::Tensor { name: harm(), message: String::new() },
            FormatError::Tensor { name: String::new(), message: harm() },
            FormatError::Missing { name: harm(), hint: String::new() },
            FormatError::Unwritable { format, message: harm() },
            FormatError::Read { format, source: std::io::Error::other(harm()) },
        ] {
            let text = error.to_string();
            assert!(text.contains(shown) && !text.contains('\n'), "{text:?}");
        }
    }
}
