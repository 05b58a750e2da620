//! The published files of a text model of Fish Speech.

use std::collections::BTreeMap;

use stage_core::{Context, NewValue, StageError};
use stage_formats::WeightFile;
use stage_formats::bpe::Bpe;

use super::config::FIELDS;
use super::{DualAr, DualArConfig};
use crate::artifact::{CONFIG, CONFIG_KIND, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_KIND};
use crate::fish;
use crate::import::{
    AssetFiles, ImportedModel, Importer, Part, Request, TensorLayout, WeightSource, description,
    unknown_fields,
};

/// Tensors of another modality in the published file, which the original drops too.
const OTHER_MODALITY: &str = "audio_";
/// Separate tensors in older files, in the order of their concatenation.
const APART: [&str; 3] = [".wq.", ".wk.", ".wv."];
const JOINED: &str = ".wqkv.";

impl Importer for DualAr {
    fn prefixes(&self) -> &'static [&'static str] {
        &["model."]
    }

    fn marks(&self) -> &'static [&'static [&'static str]] {
        &[&["embeddings.weight", "codebook_embeddings.weight"]]
    }

    fn import(
        &self,
        weights: WeightSource,
        request: &Request<'_>,
        context: &mut dyn Context,
    ) -> Result<ImportedModel, StageError> {
        let config = request.config(context)?;
        let mut layout = layout(&weights.file, self.prefixes())?;
        let published = DualArConfig::parse(&config)?;
        layout.fit(&published.tensors())?;
        let notes = unknown_fields(&config, "", &[FIELDS]);
        let mut values = tokenizer(&request.files, published.vocab_size as usize, context)?;
        values.push((CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, config)));
        Ok(ImportedModel { parts: vec![Part { weights, layout }], values, notes })
    }
}

fn layout(file: &WeightFile, prefixes: &[&str]) -> Result<TensorLayout, StageError> {
    let names = file.plain_names(prefixes).names;
    let mut stored: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_kept = |name: &str| fish::kept(name).is_some() && !name.contains(OTHER_MODALITY);
    for (name, own) in names.iter().filter(|(name, _)| is_kept(name)) {
        match joined(name, &names) {
            Some((whole, parts)) => drop(stored.insert(whole, parts)),
            None => drop(stored.insert(name.clone(), vec![own.clone()])),
        }
    }
    TensorLayout::of(file, stored)
}

/// If a name is one of three that belong together: the name of the whole, and the stored names of
/// the three.
fn joined(name: &str, names: &BTreeMap<String, String>) -> Option<(String, Vec<String>)> {
    let own = APART.iter().find(|own| name.contains(*own))?;
    let part = |part: &&str| names.get(&name.replacen(own, part, 1)).cloned();
    let parts: Vec<String> = APART.iter().filter_map(part).collect();
    (parts.len() == APART.len()).then(|| (name.replacen(own, JOINED, 1), parts))
}

/// The files of the tokenizer, if there are any, after checking that they fit the model.
fn tokenizer(
    files: &AssetFiles,
    rows: usize,
    context: &mut dyn Context,
) -> Result<Vec<(String, NewValue)>, StageError> {
    let (ranks, specials) = match (files.beside(TOKENIZER)?, files.beside(SPECIAL_TOKENS)?) {
        (Some(ranks), Some(specials)) => (
            description(TOKENIZER, &ranks, context)?,
            description(SPECIAL_TOKENS, &specials, context)?,
        ),
        (None, None) => return Ok(Vec::new()),
        (Some(_), None) => return Err(incomplete(SPECIAL_TOKENS)),
        (None, Some(_)) => return Err(incomplete(TOKENIZER)),
    };
    let size = Bpe::read(&ranks, &specials)?.size();
    if size > rows {
        return Err(StageError::failed(format!(
            "the tokenizer has {size} tokens, but the model has {rows} rows: it belongs to \
             another model"
        )));
    }
    Ok(vec![
        (TOKENIZER.to_owned(), NewValue::bytes(TOKENIZER_KIND, ranks)),
        (SPECIAL_TOKENS.to_owned(), NewValue::bytes(TOKENIZER_KIND, specials)),
    ])
}

fn incomplete(missing: &str) -> StageError {
    StageError::failed(format!(
        "the asset has only one of the two files of the tokenizer: `{missing}` is missing"
    ))
}
