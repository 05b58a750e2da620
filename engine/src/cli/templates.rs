//! What `init` can begin with: two short manifests, and the recipes of `pipelines/`.

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
            manifest: include_str!(concat!("../../../pipelines/", $name, "/pipeline.toml")),
            variants: &[],
            beside: &[],
            data: None,
            bring: $bring,
        }
    };
}

const CLIPS: Option<&str> = Some("put your clips where it says");

pub static TEMPLATES: &[Template] = &[
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
    Template {
        variants: &[("vits.toml", include_str!("../../../pipelines/demo/vits.toml"))],
        data: Some(&DEMO_DATA),
        ..recipe!("demo", "From recordings to a small voice in a minute, recordings included", None)
    },
    recipe!(
        "finnish-fish",
        "A Finnish voice from the weights of openaudio-s1-mini, in four phases",
        Some(
            "put the weights into its `models/openaudio-s1-mini` and the recordings into its `data`"
        )
    ),
    recipe!(
        "gujarati-mms",
        "A Gujarati voice from the weights of MMS, on one T4",
        Some("put the weights into its `models/mms-tts-guj` and the recordings into its `data`")
    ),
    Template {
        beside: &[("run.ipynb", include_bytes!("../../../pipelines/kaggle-vits/run.ipynb"))],
        ..recipe!(
            "kaggle-vits",
            "A Finnish voice from the weights of MMS, in sessions on Kaggle's two T4",
            Some(
                "put the weights into its `models/mms-tts-fin` and the recordings into its `data`"
            )
        )
    },
];

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
    PossibleValuesParser::new(TEMPLATES.iter().map(value)).try_map(|name| find(&name))
}

fn find(name: &str) -> Result<&'static Template, String> {
    let found = TEMPLATES.iter().find(|template| template.name == name);
    found.ok_or_else(|| format!("there is no template `{name}`"))
}
