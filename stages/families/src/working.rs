//! The memory of inference beside the weights: keys and values of the sentences of a batch.

use stage_core::{Kind, Parameters};

use crate::training::F32;

/// A stage that works with a model.
#[derive(Clone, Copy, Debug)]
pub struct Working<'a> {
    pub kind: &'a Kind,
    pub parameters: &'a Parameters,
    pub items: f64,
    /// The mean length of an item, in seconds of speech.
    pub seconds: f64,
    /// The threads of the worker.
    pub threads: f64,
    pub is_gpu: bool,
}

impl Working<'_> {
    /// The number of pieces that are processed at the same time.
    pub(crate) fn at_once(&self, pieces: f64) -> f64 {
        let batch = self.parameters.integer("batch").unwrap_or(1);
        (batch.max(1) as f64).min(pieces.max(1.0))
    }

    /// Bytes of a number in what is computed in; `kept` are those of the model as it is kept.
    pub(crate) fn width(&self, kept: f64) -> f64 {
        match self.parameters.text("precision") {
            Ok("bf16" | "fp16") => 2.0,
            Ok("auto") if self.is_gpu => kept,
            _ => F32,
        }
    }
}

/// Keys and values of a column, in all layers.
pub(crate) fn keys_and_values(layers: i64, heads: i64, head_width: i64) -> f64 {
    2.0 * (layers * heads * head_width) as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use stage_core::ParameterValue;

    use super::*;

    /// The usual parameters of a stage that speaks, overridden by those of the manifest.
    pub fn written_over_usual(written: &[(&str, ParameterValue)]) -> Parameters {
        let usual = [
            ("batch", ParameterValue::Integer(8)),
            ("precision", ParameterValue::Text("auto".to_owned())),
            ("limit", ParameterValue::Number(3.0)),
            ("max_frames", ParameterValue::Integer(0)),
        ];
        let all = usual.iter().chain(written);
        Parameters(all.map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }
}
