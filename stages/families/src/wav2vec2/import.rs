//! The published files of a speech recogniser.

use stage_core::{Context, NewValue, StageError};

use super::config::FIELDS;
use super::{CtcVocabulary, Preprocessor, Wav2Vec2, Wav2Vec2Config, plain_name};
use crate::artifact::{CONFIG, CONFIG_KIND, PREPROCESSOR, TOKENIZER_KIND, VOCABULARY};
use crate::import::{
    ImportedModel, Importer, Part, Request, TRANSFORMERS_FIELDS, TensorLayout, WeightSource,
    unknown_fields,
};

impl Importer for Wav2Vec2 {
    fn marks(&self) -> &'static [&'static [&'static str]] {
        &[
            &["wav2vec2.feature_extractor.", "lm_head."],
            &["feature_extractor.conv_layers.", "encoder.transformer.", "aux."],
        ]
    }

    fn import(
        &self,
        weights: WeightSource,
        request: &Request<'_>,
        context: &mut dyn Context,
    ) -> Result<ImportedModel, StageError> {
        let (config, files) = (request.config(context)?, &request.files);
        let vocabulary = files.needed(VOCABULARY, "how recognised speech is spelt", context)?;
        let preprocessor =
            files.needed(PREPROCESSOR, "how audio is passed to the model", context)?;
        let parsed = Wav2Vec2Config::parse(&config)?;
        CtcVocabulary::read(&vocabulary, &parsed)?;
        Preprocessor::parse(&preprocessor)?;
        let mut layout = TensorLayout::renamed(&weights.file, self.prefixes(), plain_name)?;
        layout.fit(&parsed.tensors())?;
        let notes = unknown_fields(&config, "", &[FIELDS, TRANSFORMERS_FIELDS]);
        let value = |name: &str, kind, bytes| (name.to_owned(), NewValue::bytes(kind, bytes));
        let values = vec![
            value(VOCABULARY, TOKENIZER_KIND, vocabulary),
            value(PREPROCESSOR, CONFIG_KIND, preprocessor),
            value(CONFIG, CONFIG_KIND, config),
        ];
        Ok(ImportedModel { parts: vec![Part { weights, layout }], values, notes })
    }
}
