//! The kinds of the family `corpus`.

use crate::kind::Kind;

pub const KINDS: &[&Kind] = &[];
