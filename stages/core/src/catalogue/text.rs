//! The kinds of the family `text`.

use crate::kind::Kind;

pub const KINDS: &[&Kind] = &[];
