//! `init`: a manifest to begin with.

use std::io::Write;

use cache::fs::{Fs, RealFs};

use super::arguments::{Init, Template};
use super::error::{CliError, Exit};

const CORPUS: &str = include_str!("templates/corpus.toml");
const TOKENS: &str = include_str!("templates/tokens.toml");

pub fn init(arguments: &Init, output: &mut dyn Write) -> Result<Exit, CliError> {
    let file = arguments.dir.join("pipeline.toml");
    if RealFs.exists(&file)? {
        return Err(CliError::usage(
            format!("`{file}` is there already"),
            "choose another folder, or remove it first",
        ));
    }
    RealFs.create_dir_all(&arguments.dir)?;
    let text = match arguments.template {
        Template::Corpus => CORPUS,
        Template::Tokens => TOKENS,
    };
    RealFs.write_durably(&file, text.as_bytes())?;
    writeln!(
        output,
        "`{file}` is written: put your clips where it says, then `throstle run {}`",
        arguments.dir
    )?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{FileKind, LoadOptions, load};
    use stage_core::Catalogue;

    #[test]
    fn every_template_is_a_right_manifest() {
        for text in [CORPUS, TOKENS] {
            let options = LoadOptions { set: vec![], secrets: &|_| None };
            let files = |path: &camino::Utf8Path| match path.extension() {
                Some(_) => FileKind::File,
                None => FileKind::Folder,
            };
            let loaded =
                load(text, "pipeline.toml".into(), &Catalogue::built_in(), &options, &files);
            assert!(loaded.as_ref().is_ok_and(|loaded| loaded.warnings.is_empty()), "{loaded:?}");
        }
    }
}
