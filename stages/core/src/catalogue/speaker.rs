//! The kinds of the family `speaker`.

use crate::kind::Kind;

pub const KINDS: &[&Kind] = &[];
