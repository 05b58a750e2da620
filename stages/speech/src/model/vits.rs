//! What `model.import` makes of the files of a VITS model.

use stage_core::{Context, NewValue, StageError};
use stage_families::artifact::{
    CONFIG, CONFIG_KIND, SPEAKERS, TOKENIZER_CONFIG, TOKENIZER_KIND, VOCABULARY,
};
use stage_families::vits::{
    Config, DISCRIMINATOR_PREFIX, SPEAKERS_FILE, Tokenizer, is_original, read_original,
    read_speakers, tokenizer_config_file, vocabulary_file, write_speakers,
};
use stage_formats::FormatError;

use super::files::{Files, Opened, description};
use super::import::Part;
use super::layout::Layout;

/// Where the original keeps its symbols, one a line.
const SYMBOLS: &str = "vocab.txt";

/// Told of a model that is of no use for other texts, which all who read texts for it refuse.
const ROMANISED: &str = "reads romanised texts only: those in other letters have to go through uroman, \
                         in a `command` stage";

/// The descriptions of a model, in the form of transformers whoever wrote them.
pub struct Description {
    config: Config,
    pub values: Vec<(String, NewValue)>,
    pub notes: Vec<(String, u64)>,
}

impl Description {
    pub fn read(
        config: &[u8],
        files: &Files,
        context: &mut dyn Context,
    ) -> Result<Description, StageError> {
        let (config, text, vocabulary, reading) = match is_original(config) {
            false => {
                let mut needed = |name: &str| files.needed(name, "how texts are read", context);
                let parts = (needed(VOCABULARY)?.to_vec(), needed(TOKENIZER_CONFIG)?.to_vec());
                (Config::parse(config)?, config.to_vec(), parts.0, parts.1)
            }
            true => {
                let symbols =
                    symbols(&files.needed(SYMBOLS, "what the model can read", context)?)?;
                let (own, rules) = read_original(config, symbols.len())?;
                let text = crate::plain::to_json(&own)?;
                let reading = tokenizer_config_file(&symbols, rules);
                (own, text, vocabulary_file(&symbols)?, reading)
            }
        };
        let tokenizer = Tokenizer::read(&vocabulary, &reading)?;
        let size = tokenizer.size();
        if size > config.vocab_size {
            let rows = config.vocab_size;
            return Err(StageError::failed(format!(
                "the tokenizer has {size} tokens and the model rows for {rows}: it belongs to \
                 another model"
            )));
        }
        let mut values = vec![
            (VOCABULARY.to_owned(), NewValue::bytes(TOKENIZER_KIND, vocabulary)),
            (TOKENIZER_CONFIG.to_owned(), NewValue::bytes(TOKENIZER_KIND, reading)),
            (CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, text)),
        ];
        if let Some(list) = files.beside(SPEAKERS_FILE) {
            let names = read_speakers(&description(SPEAKERS_FILE, &list, context)?, &config)?;
            values.push((SPEAKERS.to_owned(), NewValue::Text(write_speakers(&names))));
        }
        let notes = tokenizer.is_romanised().then(|| (ROMANISED.to_owned(), 1));
        Ok(Description { config, values, notes: notes.into_iter().collect() })
    }

    /// The tensors of the model, with those of a discriminator in a file of its own.
    pub fn parts(&self, weights: Opened, judge: Option<Opened>) -> Result<Vec<Part>, StageError> {
        let stochastic = self.config.use_stochastic_duration_prediction;
        let layout = Layout::of_vits(&weights.file, stochastic)?;
        let has_judge = layout.names().any(|name| name.starts_with(DISCRIMINATOR_PREFIX));
        let mut expected = self.config.generator();
        if has_judge {
            expected.extend(self.config.discriminator());
        }
        layout.check_paired(expected)?;
        let mut parts = vec![Part { weights, layout }];
        if let Some(weights) = judge {
            if has_judge {
                let message = "the file of weights has a discriminator already";
                return Err(StageError::with_help(message, "leave out `discriminator`"));
            }
            let layout = Layout::of_vits(&weights.file, stochastic)?;
            layout.check_paired(self.config.discriminator())?;
            parts.push(Part { weights, layout });
        }
        Ok(parts)
    }
}

/// The lines of a file, of which one may be a space.
fn symbols(bytes: &[u8]) -> Result<Vec<String>, FormatError> {
    let text = std::str::from_utf8(bytes).map_err(|error| FormatError::Unsupported {
        message: format!("`{SYMBOLS}` is no UTF-8: {error}"),
    })?;
    Ok(text.lines().map(str::to_owned).collect())
}
