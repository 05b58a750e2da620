//! The names and numbers of speakers.

use serde_json::{Map, Value};

use super::config::VitsConfig;
use stage_formats::FormatError;

/// The file with the names, a JSON array in the order of their numbers. It is this project's own;
/// transformers ignores it.
pub const SPEAKERS_FILE: &str = "speakers.json";

/// The names of all speakers of a model.
///
/// # Errors
///
/// If the list is damaged, or belongs to a model with another number of speakers.
pub fn read_speakers(list: &[u8], config: &VitsConfig) -> Result<Vec<String>, FormatError> {
    let names: Vec<String> = serde_json::from_slice(list)
        .map_err(|error| FormatError::damaged(SPEAKERS_FILE, error.to_string()))?;
    match names.len() as i64 == config.num_speakers {
        true => Ok(names),
        false => {
            let (names, known) = (names.len(), config.num_speakers);
            let message = format!("the list has {names} speakers, but the model has {known}");
            Err(FormatError::Unsupported { message })
        }
    }
}

/// The list in the format of [`read_speakers`].
pub fn write_speakers(names: &[String]) -> String {
    Value::from(names).to_string()
}

/// The `config.json` of a model for this number of speakers; all other fields stay.
pub fn config_for_speakers(config: &[u8], count: i64) -> Result<Vec<u8>, FormatError> {
    let damaged = |error: serde_json::Error| crate::sizes::refused(error.to_string());
    let mut fields: Map<String, Value> = serde_json::from_slice(config).map_err(damaged)?;
    fields.insert("num_speakers".to_owned(), count.into());
    serde_json::to_vec_pretty(&fields).map_err(damaged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written_and_has_to_be_whole() {
        let names = ["aino".to_owned(), "\"eero\"".to_owned()];
        let config = VitsConfig { num_speakers: 2, ..VitsConfig::default() };
        let list = write_speakers(&names);
        assert_eq!(read_speakers(list.as_bytes(), &config).unwrap(), names);
        let other = VitsConfig { num_speakers: 3, ..config };
        let error = read_speakers(list.as_bytes(), &other).unwrap_err().to_string();
        assert_eq!(error, "the list has 2 speakers, but the model has 3");
        assert!(read_speakers(b"{}", &other).is_err());
    }

    #[test]
    fn a_configuration_for_more_speakers_keeps_what_else_it_says() {
        let given = br#"{"zeta": [1], "num_speakers": 2, "sampling_rate": 16000}"#;
        let made: Value = serde_json::from_slice(&config_for_speakers(given, 5).unwrap()).unwrap();
        let expected = r#"{"zeta":[1],"num_speakers":5,"sampling_rate":16000}"#;
        assert_eq!(made, serde_json::from_str::<Value>(expected).unwrap());
    }
}
