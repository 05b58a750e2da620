//! The templates of `init`: short manifests, and the recipes in `pipelines/templates.rs`.

use std::fmt;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use engine::manifest::FILE_NAME as MANIFEST;
use include_dir::{Dir, include_dir};

/// A manifest to start with, and its files.
pub struct Template {
    pub name: &'static str,
    /// The line in the help.
    pub summary: &'static str,
    pub manifest: &'static str,
    /// Further manifests beside this one, by file name.
    pub variants: &'static [(&'static str, &'static str)],
    /// Other files beside the manifest, by path.
    pub beside: &'static [(&'static str, &'static [u8])],
    /// The contents of the folder `data`.
    pub data: Option<&'static Dir<'static>>,
    /// The steps that are needed before a run, if any.
    pub bring: Option<&'static str>,
}

static DEMO_DATA: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../pipelines/demo/data");

/// A folder of `pipelines/`: its name, its line in the help, and the files that the user has to
/// add.
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

const CLIPS: Option<&str> = Some("put your clips where the manifest expects them");
const CLIPS_AND_SAMPLE: Option<&str> = Some(
    "put your clips, and the table of the clips to fit the codec on, where the manifest expects \
     them",
);

static SHORT: &[Template] = &[
    Template {
        name: "corpus",
        summary: "A table of clips, resampled to one rate",
        manifest: include_str!("templates/corpus.toml"),
        variants: &[],
        beside: &[],
        data: None,
        bring: CLIPS,
    },
    Template {
        name: "folder",
        summary: "A folder of recordings, each with its text as `.lab` or `.txt` beside it",
        manifest: include_str!("templates/folder.toml"),
        variants: &[],
        beside: &[],
        data: None,
        bring: CLIPS,
    },
    Template {
        name: "tokens",
        summary: "A table of clips, encoded to packed VQ tokens",
        manifest: include_str!("templates/tokens.toml"),
        variants: &[],
        beside: &[],
        data: None,
        bring: CLIPS_AND_SAMPLE,
    },
];

static RECIPES: &[Template] = include!("../../../pipelines/templates.rs");

/// All templates, in the order of the help.
pub fn templates() -> impl Iterator<Item = &'static Template> {
    SHORT.iter().chain(RECIPES)
}

/// The template of `init` without `--template`.
pub fn first() -> &'static Template {
    &SHORT[0]
}

impl Template {
    /// All files to write except manifests, by their path in the folder.
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

    /// The manifests by file name, `pipeline.toml` last. Their comments name the folder that they
    /// are written to.
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

/// Parses the name of a template from the command line.
pub fn parser() -> impl TypedValueParser<Value = &'static Template> {
    let value = |template: &Template| PossibleValue::new(template.name).help(template.summary);
    PossibleValuesParser::new(templates().map(value)).try_map(|name| find(&name))
}

fn find(name: &str) -> Result<&'static Template, String> {
    let found = templates().find(|template| template.name == name);
    found.ok_or_else(|| format!("there is no template `{name}`"))
}
