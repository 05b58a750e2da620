//! Fish Speech from clips to sentences: what stands between the stages and the text model.

pub mod clip;
pub mod measure;
pub mod prompt;
#[cfg(test)]
pub(crate) mod testing;
pub mod vocabulary;
