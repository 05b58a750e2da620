//! The kinds of the family `report`.

use crate::kind::Kind;

pub const KINDS: &[&Kind] = &[];
