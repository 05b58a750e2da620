//! Files of other projects: tokenizers, PyTorch files, and weights that are read in parts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod bpe;
mod in_parts;
mod pth;
