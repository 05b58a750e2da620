//! The words with which a manifest declares the types of outputs, besides kinds of files.

/// A number.
pub const NUMBER: &str = "number";
/// A text.
pub const TEXT: &str = "text";

/// Tests if an output is a folder: its name ends so.
pub fn is_folder(output: &str) -> bool {
    output.ends_with('/')
}
