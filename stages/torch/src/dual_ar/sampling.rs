//! Sampling of tokens and codes by the text model.

use serde::Deserialize;
use tch::{Kind, Tensor};

use super::model::Parity;
use crate::autoregressive::{self, Order, Scope};

/// The window of the repetition penalty in frames.
const WINDOW: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 selects the most likely.
    pub temperature: f64,
    pub top_p: f64,
    /// 1 is no penalty. Applies to the last frames.
    pub repetition_penalty: f64,
    /// Draw only frames and the end, not text in between.
    pub semantic_only: bool,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { temperature: 0.8, top_p: 0.8, repetition_penalty: 1.1, semantic_only: true }
    }
}

impl Sampling {
    /// The steps of the original. `Parity::Upstream` has its half-precision numbers, and its window
    /// of repeated frames.
    pub fn of(&self, parity: Parity) -> autoregressive::Sampling {
        let rounded = |value: f64| match parity {
            Parity::Correct => value,
            Parity::Upstream => Tensor::from(value).to_kind(Kind::BFloat16).double_value(&[]),
        };
        autoregressive::Sampling {
            order: Order::FishSpeech,
            temperature: rounded(self.temperature),
            top_k: 0,
            top_p: rounded(self.top_p),
            repetition_penalty: rounded(self.repetition_penalty),
            scope: match parity {
                Parity::Correct => Scope::Last(WINDOW),
                Parity::Upstream => Scope::FishSpeech(WINDOW),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_rounds_its_settings() {
        let settings = Sampling::default();
        assert_eq!(settings.of(Parity::Upstream).temperature, 0.80078125);
        assert_eq!(settings.of(Parity::Correct).temperature, 0.8);
        let plain = Sampling { temperature: 1.0, top_p: 1.0, repetition_penalty: 1.0, ..settings };
        assert_eq!(plain.of(Parity::Upstream).top_p, 1.0);
    }
}
