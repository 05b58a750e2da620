//! Sampling of tokens and codes by the text model.

use serde::Deserialize;

use super::Parity;
use crate::autoregressive::{self, PenaltyScope, SamplingOrder};

/// The window of the repetition penalty in frames.
const WINDOW: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DualArSampling {
    /// 0 selects the most likely.
    pub temperature: f64,
    pub top_p: f64,
    /// 1 is no penalty. Applies to the last frames.
    pub repetition_penalty: f64,
    /// Draw only frames and the end, not text in between.
    pub semantic_only: bool,
}

impl Default for DualArSampling {
    fn default() -> DualArSampling {
        DualArSampling {
            temperature: 0.8,
            top_p: 0.8,
            repetition_penalty: 1.1,
            semantic_only: true,
        }
    }
}

impl DualArSampling {
    /// The steps of the original. `Parity::Upstream` has its window of repeated frames. The settings
    /// are not rounded to half precision, which the original stopped before commit d3df505.
    pub fn of(&self, parity: Parity) -> autoregressive::Sampling {
        autoregressive::Sampling {
            order: SamplingOrder::FishSpeech,
            temperature: self.temperature,
            top_k: 0,
            top_p: self.top_p,
            repetition_penalty: self.repetition_penalty,
            scope: match parity {
                Parity::Correct => PenaltyScope::Last(WINDOW),
                Parity::Upstream => PenaltyScope::FishSpeech(WINDOW),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_the_original_are_those_that_were_written() {
        let settings = DualArSampling::default();
        for parity in [Parity::Upstream, Parity::Correct] {
            let own = settings.of(parity);
            assert_eq!((own.temperature, own.top_p, own.repetition_penalty), (0.8, 0.8, 1.1));
        }
    }
}
