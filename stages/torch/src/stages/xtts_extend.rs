//! `xtts.extend`: extends the vocabulary for another language. Nothing is computed on a device.

use stage_core::{
    Context, Fields, GatherInput, GatherOutput, Item, NewValue, Parameters, PortOutput, StageError,
};
use stage_families::artifact::{self, CONFIG, CONFIG_KIND, LINEAGE, TOKENIZER_KIND, VOCABULARY};
use stage_families::xtts::{
    ExtendedVocabulary, LanguageCode, Pieces, TEXT_TABLES, XttsConfig, XttsVocabulary, grown, kinds,
};

use super::fresh::Init;
use crate::lineage::{ModelLineage, to_text};
use crate::nn::random::Random;

pub const STAGE: Init = Init { kind: &kinds::EXTEND, draw: extend };

fn extend(
    parameters: &Parameters,
    input: &GatherInput,
    context: &mut dyn Context,
) -> Result<GatherOutput, StageError> {
    let model = input.artifact("model");
    let model = model.ok_or_else(|| StageError::failed("no model arrived on port `model`"))?;
    let mut config = XttsConfig::parse(&read(model, CONFIG, context)?)?;
    let longer = vocabulary(parameters, model, input.items("input")?, context)?;
    let language = LanguageCode::of(parameters.text("language")?);
    let rows = longer.vocabulary.text_tokens()?.rows;
    config.gpt.text_tokens = rows;
    if !config.languages.iter().any(|known| LanguageCode::of(known) == language) {
        config.languages.push(language.code().to_owned());
    }
    let lineage = to_text(&ModelLineage::from(model, kinds::EXTEND.name));
    let mut values = vec![
        (CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, config.to_json()?)),
        (VOCABULARY.to_owned(), NewValue::bytes(TOKENIZER_KIND, longer.vocabulary.to_json()?)),
        (LINEAGE.to_owned(), NewValue::Text(lineage)),
    ];
    values.extend(tables(parameters, model, rows as usize, context)?);
    let made: Vec<String> = values.iter().map(|(name, _)| name.clone()).collect();
    let kept = model.iter().filter(|(name, _)| !made.iter().any(|own| own == &***name));
    values.extend(kept.map(|(name, value)| (name.to_string(), NewValue::Kept(value.clone()))));
    let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
    let notes = vec![
        ("tokens added".to_owned(), longer.tokens.len() as u64),
        ("merges added".to_owned(), longer.merges as u64),
    ];
    Ok(GatherOutput { notes, ..output })
}

fn vocabulary(
    parameters: &Parameters,
    model: &Fields,
    items: &[Item],
    context: &mut dyn Context,
) -> Result<ExtendedVocabulary, StageError> {
    let vocabulary = XttsVocabulary::read(&read(model, VOCABULARY, context)?)?;
    let texts = items.iter().filter_map(|item| item.fields.text("text"));
    let pieces = Pieces {
        most: parameters.integer("pieces")?.max(0) as usize,
        least_count: parameters.integer("min_count")?.max(1) as u64,
    };
    let language = LanguageCode::of(parameters.text("language")?);
    Ok(vocabulary.extended(texts, &language, pieces)?)
}

/// The tables with a row per token, extended.
fn tables(
    parameters: &Parameters,
    model: &Fields,
    rows: usize,
    context: &mut dyn Context,
) -> Result<Vec<(String, NewValue)>, StageError> {
    let mut random = Random::new(parameters.integer("seed")? as u64);
    let mut values = Vec::new();
    for name in TEXT_TABLES {
        let field = artifact::tensor_field(name);
        let table = artifact::decode(read(model, &field, context)?)?;
        let long = grown(&table, rows, || random.gauss()).map_err(|e| e.of(name))?;
        values.push((field, artifact::tensor_value(&long)?));
    }
    Ok(values)
}

fn read(model: &Fields, name: &str, context: &mut dyn Context) -> Result<bytes::Bytes, StageError> {
    let blob = model.blob(name);
    let blob = blob.ok_or_else(|| StageError::failed(format!("the model has no `{name}`")))?;
    context.read(blob)
}
