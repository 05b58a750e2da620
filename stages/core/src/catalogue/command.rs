//! The kinds of the family `command`.

use crate::kind::Kind;

pub const KINDS: &[&Kind] = &[];
