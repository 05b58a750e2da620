//! What can go wrong with files of other projects.

use cache::fs::FsError;

#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The bytes are not what the format says.
    #[error("the {format} file cannot be read: {message}")]
    Damaged { format: &'static str, message: String },
    /// The bytes may be right, but ask for more than a real file would.
    #[error("the {format} file is refused: {message}")]
    TooMuch { format: &'static str, message: String },
    /// A form that this reader does not know.
    #[error("{message}")]
    Unsupported { message: String },
    #[error("the tensor `{name}` cannot be used: {message}")]
    Tensor { name: String, message: String },
    #[error("there is no tensor `{name}`{hint}")]
    Missing { name: String, hint: String },
    /// What was asked to be written does not fit together.
    #[error("the {format} file cannot be written: {message}")]
    Unwritable { format: &'static str, message: String },
    #[error("the {format} file cannot be written: {source}")]
    Write { format: &'static str, source: std::io::Error },
    #[error("{error}: {}", .error.source)]
    File { error: FsError },
}

impl FormatError {
    pub(crate) fn damaged(format: &'static str, message: impl Into<String>) -> FormatError {
        FormatError::Damaged { format, message: message.into() }
    }

    pub(crate) fn too_much(format: &'static str, message: impl Into<String>) -> FormatError {
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

impl From<FormatError> for stage_core::StageError {
    fn from(error: FormatError) -> stage_core::StageError {
        let message = error.to_string();
        match &error {
            FormatError::File { error } => stage_core::StageError::of_io(message, &error.source),
            FormatError::Write { source, .. } => stage_core::StageError::of_io(message, source),
            _ => stage_core::StageError::failed(message),
        }
    }
}
