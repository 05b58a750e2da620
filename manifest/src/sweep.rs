//! Sweeps: the trials of a search over parameters, and which of them go on.
//!
//! Both are functions of what is written and of finished scores, so that a sweep needs no
//! bookkeeping of its own: whatever was killed, and in whatever order trials finish, the same
//! trials go on.

pub mod halving;
pub mod space;
