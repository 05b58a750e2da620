//! The stat index: the digest and metadata of each file when it was last read. It is a memo and
//! never the truth: losing it only costs hashing.

mod again;
mod check;
mod entry;
mod file;
mod folder;
mod index;
mod row;
mod section;

pub use again::{Differing, hash_again};
pub use check::{check, check_through, differing};
pub use entry::{NewContent, StatEntry, What, hash_file};
pub(crate) use file::StatFile;
pub use index::StatIndex;
pub use section::Section;
