//! What `model.import` makes of the files of a speech recogniser.

use bytes::Bytes;
use stage_core::{Context, NewValue, StageError};
use stage_families::artifact::{CONFIG, CONFIG_KIND, PREPROCESSOR, TOKENIZER_KIND, VOCABULARY};
use stage_families::wav2vec2::{Config, Preprocessor, Vocabulary};

use super::files::{Files, Opened};
use super::import::Part;
use super::layout::Layout;

/// The files beside the weights, once they have been found to fit each other.
pub fn described(
    config: &Bytes,
    files: &Files,
    context: &mut dyn Context,
) -> Result<Vec<(String, NewValue)>, StageError> {
    let vocabulary = files.needed(VOCABULARY, "how what is heard is spelt", context)?;
    let preprocessor = files.needed(PREPROCESSOR, "how sound is handed to the model", context)?;
    Vocabulary::read(&vocabulary, &Config::parse(config)?)?;
    Preprocessor::parse(&preprocessor)?;
    let value = |name: &str, kind, bytes| (name.to_owned(), NewValue::bytes(kind, bytes));
    Ok(vec![
        value(VOCABULARY, TOKENIZER_KIND, vocabulary),
        value(PREPROCESSOR, CONFIG_KIND, preprocessor),
        value(CONFIG, CONFIG_KIND, config.clone()),
    ])
}

/// The tensors, which have to be those that the configuration asks for.
pub fn part(config: &[u8], weights: Opened) -> Result<Part, StageError> {
    let layout = Layout::of_wav2vec2(&weights.file)?;
    layout.check(&Config::parse(config)?.tensors())?;
    Ok(Part { weights, layout })
}
