//! Tokens beside clips or in a separate folder: each is assigned to the clip of its name.

use std::collections::HashMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Blob, Parameters, SourceOutput, StageError, Value, World};
use stage_families::kinds::vq::FOUND_TOKENS;

use super::path;

/// The folder in the parameter `tokens`, if it is given.
pub fn folder(parameters: &Parameters) -> Result<Option<Utf8PathBuf>, StageError> {
    parameters.is_set("tokens").then(|| Ok(parameters.text("tokens")?.into())).transpose()
}

/// Assigns each clip the array with its name. Arrays without a clip are counted, and so are
/// unreadable ones, which count as missing: `vq.adopt` reports them.
pub fn add(
    folder: Option<&Utf8Path>,
    output: &mut SourceOutput,
    world: &mut dyn World,
) -> Result<(), StageError> {
    let Some(folder) = folder else { return Ok(()) };
    let mut arrays: HashMap<String, Utf8PathBuf> = HashMap::new();
    let listed = world.list(folder)?;
    let mut unusable = listed.rejects.len() as u64;
    for file in listed.files {
        if let Some(stem) = file.as_str().strip_suffix(".npy") {
            arrays.insert(path::id_of(stem), folder.join(&file));
        }
    }
    let clips = (0..).zip(&output.items);
    let (at, paths): (Vec<usize>, Vec<Utf8PathBuf>) =
        clips.filter_map(|(at, item)| Some((at, arrays.remove(&*item.id)?))).unzip();
    let kind: Arc<str> = "tokens/npy".into();
    for (at, fact) in at.into_iter().zip(world.files(&paths)?) {
        match (output.items.get_mut(at), fact) {
            (Some(item), Ok(fact)) => {
                let blob = Blob { digest: fact.digest, size: fact.size, kind: kind.clone() };
                item.fields.set(FOUND_TOKENS, Value::Blob(Arc::new(blob)));
            }
            _ => unusable += 1,
        }
    }
    if unusable > 0 {
        output.notes.push(("tokens that cannot be read".to_owned(), unusable));
    }
    if !arrays.is_empty() {
        output.notes.push(("tokens without a clip".to_owned(), arrays.len() as u64));
    }
    Ok(())
}
