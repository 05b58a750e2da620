//! The kinds of the family `dataset`.

use crate::kind::Kind;

pub const KINDS: &[&Kind] = &[];
