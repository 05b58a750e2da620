//! Finds files that two exports write: each run would replace them twice.

use crate::event::Event;
use cache::stat::{Section, StatIndex};
use cache::{CacheError, Digest};
use camino::Utf8PathBuf;

use super::old::{kept_key, section_key};
use super::paths::{fixed_folder, plain};
use crate::pipeline::{Export, Pipeline, StageId, TemplatePart};
use crate::store::Store;

struct ExportRoot<'p> {
    stage: &'p str,
    section: Digest,
    /// All files of the export are in this folder, or it is the only one.
    root: Utf8PathBuf,
}

/// The first file of two exports of these stages.
pub fn find(
    store: &Store,
    pipeline: &Pipeline,
    stages: &[StageId],
) -> Result<Option<Event>, CacheError> {
    let specs = stages.iter().map(|id| pipeline.stage(*id));
    let roots: Vec<ExportRoot<'_>> = specs
        .flat_map(|spec| spec.exports.iter().map(move |export| (spec, export)))
        .map(|(spec, export)| ExportRoot {
            stage: &spec.name,
            section: section_key(pipeline, spec, export),
            root: root(export),
        })
        .collect();
    let pairs: Vec<(&ExportRoot<'_>, &ExportRoot<'_>)> = roots
        .iter()
        .enumerate()
        .flat_map(|(at, one)| roots[at + 1..].iter().map(move |other| (one, other)))
        .filter(|(one, other)| {
            one.root.starts_with(&other.root) || other.root.starts_with(&one.root)
        })
        .collect();
    if pairs.is_empty() {
        return Ok(None);
    }
    let index = StatIndex::load(store.cache())?;
    let clash = pairs.into_iter().find_map(|(one, other)| {
        let others: Vec<&Section> = sections(&index, other).collect();
        let is_shared = |path: &str| others.iter().any(|other| other.find(path).is_some());
        let mut files = sections(&index, one).flat_map(Section::iter);
        let shared = files.find(|file| is_shared(&file.path))?;
        Some(Event::StageFailed {
            stage: other.stage.to_owned(),
            message: format!("`{}` is also exported by `{}`", shared.path, one.stage),
            help: Some("give each `export` a path of its own".to_owned()),
        })
    });
    Ok(clash)
}

/// Its files, and those that were kept.
fn sections<'i>(index: &'i StatIndex, root: &ExportRoot<'_>) -> impl Iterator<Item = &'i Section> {
    let keys = [root.section, kept_key(&root.section)];
    keys.into_iter().filter_map(|key| index.section(&key))
}

fn root(export: &Export) -> Utf8PathBuf {
    let has_fields = export.template.0.iter().any(|part| matches!(part, TemplatePart::Field(_)));
    if has_fields { fixed_folder(&export.template).into() } else { plain(&export.template).into() }
}
