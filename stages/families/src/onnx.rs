//! Models as ONNX graphs, for the programs that run them.

use stage_core::NewValue;

/// The program that a graph is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Sherpa,
    Piper,
    /// Tokens in, samples out.
    Plain,
}

/// A graph with the files beside it.
pub struct GraphFiles {
    pub name: &'static str,
    pub graph: Vec<u8>,
    pub beside: Vec<(String, NewValue)>,
    pub sample: Sample,
}

/// Inputs with which a graph can be tried.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Integers by name; true for a row of a batch of one.
    pub integers: Vec<(&'static str, Vec<i64>, bool)>,
    pub numbers: Vec<(&'static str, Vec<f64>)>,
}
