//! The preprocessing of sound for a recogniser.

use serde::{Deserialize, Serialize};

use crate::sizes::in_range;
use stage_formats::FormatError;

/// `preprocessor_config.json`, as far as it concerns a single recording; absent fields have the
/// defaults of transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Preprocessor {
    /// Normalise each recording to mean 0 and variance 1.
    pub do_normalize: bool,
    /// Samples per second.
    pub sampling_rate: i64,
    /// Numbers per sample; 1 for raw sound.
    pub feature_size: i64,
}

impl Default for Preprocessor {
    fn default() -> Preprocessor {
        Preprocessor { do_normalize: true, sampling_rate: 16_000, feature_size: 1 }
    }
}

impl Preprocessor {
    pub fn parse(json: &[u8]) -> Result<Preprocessor, FormatError> {
        let damaged = |why: String| FormatError::damaged("preprocessor_config.json", why);
        let read: Preprocessor =
            serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
        in_range("sampling_rate", read.sampling_rate, 1_000, 384_000)?;
        match read.feature_size {
            1 => Ok(read),
            size => Err(damaged(format!(
                "`feature_size` is {size}, expected 1: the model reads features instead of audio; \
                 run it in a `command` stage"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_not_said_is_as_published_and_spectra_are_refused() {
        let read = |text: &str| Preprocessor::parse(text.as_bytes());
        let own = Preprocessor { do_normalize: false, ..Preprocessor::default() };
        assert_eq!(read(r#"{"do_normalize": false, "padding_side": "right"}"#).unwrap(), own);
        let error = read(r#"{"feature_size": 80}"#).unwrap_err().to_string();
        assert!(error.contains("`feature_size` is 80, expected 1"), "{error}");
        assert!(read(r#"{"sampling_rate": 0}"#).is_err());
    }
}
