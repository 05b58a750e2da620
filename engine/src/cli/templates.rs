//! What `init` can begin with: two short manifests, and the recipes that `pipelines/templates.rs`
//! lists.

use std::fmt;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use include_dir::{Dir, include_dir};

use super::project::MANIFEST;

/// A manifest to begin with, and the files that belong to it.
pub struct Template {
    pub name: &'static str,
    /// One line for the help.
    pub summary: &'static str,
    pub manifest: &'static str,
    /// Manifests beside that one, by their file names.
    pub variants: &'static [(&'static str, &'static str)],
    /// Other files beside the manifest, by their path.
    pub beside: &'static [(&'static str, &'static [u8])],
    /// What lies in the folder `data`.
    pub data: Option<&'static Dir<'static>>,
    /// What has to be done before a run, if anything.
    pub bring: Option<&'static str>,
}

static DEMO_DATA: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../pipelines/demo/data");

/// A folder of `pipelines/`: its name, its line in the help, and what one has to bring along.
macro_rules! recipe {
    ($name:literal, $summary:literal, $bring:expr) => {
        Template {
            name: $name,
            summary: $summary,
            manifest: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../pipelines/",
                $name,
                "/pipeline.toml"
            )),
            variants: &[],
            beside: &[],
            data: None,
            bring: $bring,
        }
    };
}

const CLIPS: Option<&str> = Some("put your clips where it says");

static SHORT: &[Template] = &[
    Template {
        name: "corpus",
        summary: "A table of clips, brought to one rate",
        manifest: include_str!("templates/corpus.toml"),
        variants: &[],
        beside: &[],
        data: None,
        bring: CLIPS,
    },
    Template {
        name: "tokens",
        summary: "The same, and encoded to packed VQ tokens",
        manifest: include_str!("templates/tokens.toml"),
        variants: &[],
        beside: &[],
        data: None,
        bring: CLIPS,
    },
];

static RECIPES: &[Template] = include!("../../../pipelines/templates.rs");

/// All templates, in the order of the help.
pub fn templates() -> impl Iterator<Item = &'static Template> {
    SHORT.iter().chain(RECIPES)
}

impl Template {
    /// The files to write but for manifests, by their path in the folder.
    pub fn files(&self) -> Vec<(String, &'static [u8])> {
        let mut files: Vec<(String, &'static [u8])> = Vec::new();
        let mut folders: Vec<&'static Dir<'static>> = self.data.into_iter().collect();
        while let Some(folder) = folders.pop() {
            folders.extend(folder.dirs());
            let inside = |path: &std::path::Path| format!("data/{}", path.display());
            files.extend(folder.files().map(|file| (inside(file.path()), file.contents())));
        }
        files.extend(self.beside.iter().map(|(path, bytes)| ((*path).to_owned(), *bytes)));
        files
    }

    /// The manifests by their file names, `pipeline.toml` last; their comments name the folder
    /// that they are written to.
    pub fn manifests_in(&self, folder: &str) -> Vec<(&'static str, String)> {
        let own = format!("pipelines/{}", self.name);
        let all = self.variants.iter().copied().chain([(MANIFEST, self.manifest)]);
        all.map(|(name, text)| (name, text.replace(&own, folder))).collect()
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Reads the name of a template from the command line.
pub fn parser() -> impl TypedValueParser<Value = &'static Template> {
    let value = |template: &Template| PossibleValue::new(template.name).help(template.summary);
    PossibleValuesParser::new(templates().map(value)).try_map(|name| find(&name))
}

fn find(name: &str) -> Result<&'static Template, String> {
    let found = templates().find(|template| template.name == name);
    found.ok_or_else(|| format!("there is no template `{name}`"))
}
