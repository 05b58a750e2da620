//! Fish Speech from clips to sentences: what stands between the stages and the text model.

pub mod measure;
