//! The cost of an XTTS model, from its configuration.

use serde_json::Value;
use stage_core::{Kind, Parameters};

use super::published::{Shapes, TextTokens};
use super::{Config, Fresh, fresh_config, kinds, parameters};
use crate::model::{Assumed, Model};
use crate::training::Trainable;

/// Published weights are in f32.
const WEIGHT_BYTES: f64 = 4.0;

impl Model for Config {
    fn parameters(&self) -> i64 {
        parameters(&self.tensors())
    }

    fn bytes(&self, stage: &Parameters) -> f64 {
        let each = match stage.text("dtype") {
            Ok("bf16" | "fp16") => WEIGHT_BYTES / 2.0,
            _ => WEIGHT_BYTES,
        };
        self.parameters() as f64 * each
    }

    fn share(&self) -> f64 {
        let speaking = |config: &Config| parameters(&config.model_tensors()) as f64;
        speaking(self) / speaking(&Config::published())
    }

    fn trainable(&self) -> Option<&dyn Trainable> {
        Some(self)
    }
}

/// From our own stored format, or from a published file without its tensors.
pub fn read(config: &[u8]) -> Option<Box<dyn Model>> {
    if let Ok(config) = Config::parse(config) {
        return Some(Box::new(config));
    }
    let file: Value = serde_json::from_slice(config).ok()?;
    let args = file.get("model_args")?;
    let published = Config::published().gpt;
    let given = args.get("gpt_number_text_tokens").and_then(Value::as_i64);
    let tokens = TextTokens {
        rows: given.unwrap_or(published.text_tokens),
        start: published.start_text_token,
        stop: published.stop_text_token,
    };
    let is_xtts = args.get("gpt_n_model_channels").is_some() || file.get("model")? == "xtts";
    let config = is_xtts.then(|| Config::read_published(config, &Shapes::new(), tokens).ok());
    Some(Box::new(config.flatten()?))
}

/// The model that `xtts.init` makes.
pub fn fresh(kind: &Kind, parameters: &Parameters) -> Option<Box<dyn Model>> {
    if kind.name != kinds::INIT.name {
        return None;
    }
    let Fresh { config, .. } = fresh_config(parameters).ok()?;
    Some(Box::new(config))
}

pub fn assumed() -> Assumed {
    let told = "an XTTS model that is not there is taken for XTTS v2: 518 million parameters with \
                its DVAE, kept in f32";
    Assumed { model: Box::new(Config::published()), told }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_forms_of_a_configuration_tell_the_size() {
        let config = Config::published();
        let stored = read(&config.to_json().unwrap()).unwrap();
        let published = read(&config.published_file(None).unwrap()).unwrap();
        assert_eq!((stored.parameters(), published.parameters()), (518_442_047, 518_442_047));
        assert_eq!(stored.bytes(&Parameters::default()), 518_442_047.0 * 4.0);
        assert!((stored.share() - 1.0).abs() < 1e-9);
        for other in [&b"{}"[..], b"[]", br#"{"model_type": "vits"}"#] {
            assert!(read(other).is_none());
        }
    }
}
