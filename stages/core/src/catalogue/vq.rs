//! The kinds of the family `vq`.

use crate::kind::Kind;

pub const KINDS: &[&Kind] = &[];
