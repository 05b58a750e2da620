//! `card`: writes the card of a model, and prints the commands that publish it.

use std::io::Write;
use std::sync::Arc;

use cache::stat::StatIndex;
use engine::pipeline::{Reference, StageSpec, Template, TemplatePart};
use engine::store::Store;
use stage_families::find;
use view::card::{CardDetails, card};
use view::escape::clean;

use crate::arguments;
use crate::error::{CliError, Exit};
use crate::output::is_standard;
use crate::project::{Program, Project};

pub fn write(
    program: &Program,
    arguments: &arguments::Card,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let spec = project.stage(&arguments.stage)?;
    if !has_model(&project, spec) {
        return Err(CliError::usage(
            format!("`{}` is not a model and is not made from one", spec.name),
            "name a stage that trains, chooses, merges or exports a model",
        ));
    }
    let cache = program.open_to_read(&project)?;
    let index = Arc::new(StatIndex::load(&cache)?);
    let store = Store::new(cache, &project.pipeline.base, index);
    let title = arguments.title.clone();
    let said = CardDetails {
        title: title.unwrap_or_else(|| project.pipeline.name.clone()),
        base: arguments.base.clone(),
        language: arguments.language.clone(),
        data: arguments.data.clone(),
        library: library(&project, spec),
    };
    let text = card(&project.pipeline, &store, spec, &said)?;
    if spec.licenses.is_empty() {
        program.warn("no licence is known: add `license` to the assets in the manifest");
    }
    let file = arguments.output.as_deref().filter(|file| !is_standard(file));
    match file {
        Some(file) => project.write(file, text.as_bytes())?,
        None => output.write_all(text.as_bytes())?,
    }
    let repo = arguments.repo.as_deref().unwrap_or("USER/NAME");
    let folder = spec.exports.first().map(|export| written(&export.template));
    let folder = folder.map(|folder| project.pipeline.base.join(folder).into_string());
    let folder = folder.unwrap_or_else(|| "FOLDER".to_owned());
    program.tell(&format!("publish: hf upload {} {}", clean(repo), clean(&folder)));
    let card = file.map_or("CARD", |file| file.as_str());
    program.tell(&format!("         hf upload {} {} README.md", clean(repo), clean(card)));
    Ok(Exit::Done)
}

/// True if the stage makes a model, or depends on one.
fn has_model(project: &Project, spec: &StageSpec) -> bool {
    let stages = project.pipeline.with_upstream(&[spec.id]).into_iter();
    let mut ports = stages.flat_map(|id| project.pipeline.stage(id).kind.outputs);
    ports.any(|port| port.gives.iter().any(|gives| find(gives).is_some()))
}

fn written(template: &Template) -> String {
    let parts = template.0.iter().map(|part| match part {
        TemplatePart::Text(text) => text.clone(),
        TemplatePart::Field(field) => format!("{{{field}}}"),
    });
    parts.collect()
}

/// The library that loads files of the family, as its stage or that of its model tells.
fn library(project: &Project, spec: &StageSpec) -> Option<String> {
    let model = match spec.inputs.get("model").and_then(|input| input.references.first()) {
        Some(Reference::Stage { stage, .. }) => project.pipeline.stage(*stage),
        _ => spec,
    };
    let gives = model.kind.outputs.first()?.gives.first()?;
    find(gives)?.library().map(str::to_owned)
}
