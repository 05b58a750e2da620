//! `init`: writes a manifest to start with and its files.

use std::io::Write;

use cache::fs::{Confined, Fs, RealFs};
use camino::Utf8Path;
use engine::manifest::FILE_NAME as MANIFEST;

use super::arguments::Init;
use super::error::{CliError, Exit};
use super::named;

const IGNORE_FILE: &str = ".gitignore";
const IGNORED: &str = "\
# Made by throstle from the manifest and the data.
/.throstle/
/out/
/report.html
";

/// Existing files are never overwritten. The manifest is written last: a folder with a manifest is
/// complete, and an interrupted `init` can be repeated.
pub fn init(arguments: &Init, output: &mut dyn Write) -> Result<Exit, CliError> {
    named::refuse_caches(&arguments.dir)?;
    let manifest = arguments.dir.join(MANIFEST);
    if RealFs.exists(&manifest)? {
        return Err(there_already(&manifest));
    }
    let template = arguments.template;
    let manifests = template.manifests_in(arguments.dir.as_str());
    let texts = manifests.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes()));
    let files: Vec<(String, &[u8])> = template.files().into_iter().chain(texts).collect();
    for (path, bytes) in &files {
        let file = arguments.dir.join(path);
        if RealFs.exists(&file)? && RealFs.read(&file)? != *bytes {
            return Err(there_already(&file));
        }
    }
    let folder = new_folder(&arguments.dir)?;
    let ignore = arguments.dir.join(IGNORE_FILE);
    if !RealFs.exists(&ignore)? {
        write(&folder, &ignore, IGNORED.as_bytes())?;
    }
    for (path, bytes) in &files {
        write(&folder, &arguments.dir.join(path), bytes)?;
    }
    let bring = template.bring.map(|bring| format!("{bring}, then ")).unwrap_or_default();
    writeln!(output, "wrote `{manifest}`: {bring}`throstle run {}`", arguments.dir)?;
    Ok(Exit::Done)
}

pub fn there_already(file: &Utf8Path) -> CliError {
    CliError::usage(format!("`{file}` already exists"), "choose another folder, or remove it first")
}

/// A folder for new files, opened once: no link in it leads them out of it.
pub fn new_folder(path: &Utf8Path) -> Result<Confined, CliError> {
    if !path.as_str().is_empty() {
        RealFs.create_dir_all(path)?;
    }
    Ok(Confined::to(path)?)
}

pub fn write(folder: &Confined, file: &Utf8Path, bytes: &[u8]) -> Result<(), CliError> {
    if let Some(folder_of_file) = file.parent() {
        folder.create_dir_all(folder_of_file)?;
    }
    Ok(folder.write_durably(file, bytes)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use camino::Utf8Path;

    use super::{CliError, Init};
    use crate::templates::templates;
    use engine::manifest::{FileKind, LoadOptions, load};

    #[test]
    fn every_template_is_a_right_manifest() {
        for template in templates() {
            for (name, text) in template.manifests_in("voice") {
                let options = LoadOptions::default();
                let files = |path: &camino::Utf8Path| match path.extension() {
                    Some(_) => FileKind::File,
                    None => FileKind::Folder,
                };
                let loaded =
                    load(&text, name.into(), &stage_families::catalogue(), &options, &files);
                let is_right = loaded.as_ref().is_ok_and(|loaded| loaded.warnings.is_empty());
                assert!(is_right, "{template:?} {name}: {loaded:?}");
            }
        }
    }

    fn init(dir: &Utf8Path, template: &str) -> Result<String, CliError> {
        let template = templates().find(|own| own.name == template).unwrap();
        let mut told = Vec::new();
        super::init(&Init { dir: dir.to_owned(), template }, &mut told)?;
        Ok(String::from_utf8(told).unwrap())
    }

    #[test]
    fn git_is_told_to_leave_out_what_is_made_again_unless_it_has_been_told_something() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        for template in templates() {
            init(&folder.join(template.name), template.name).unwrap();
            let ignored = std::fs::read_to_string(folder.join(template.name).join(".gitignore"));
            let ignored = ignored.unwrap();
            assert!(["/.throstle/", "/out/"].iter().all(|own| ignored.contains(own)), "{ignored}");
            for (_, text) in template.manifests_in("voice") {
                let exports = text.lines().filter(|line| line.starts_with("export = \""));
                let outside: Vec<&str> =
                    exports.filter(|line| !line.starts_with("export = \"out/")).collect();
                assert_eq!(outside, [""; 0], "{template:?} writes what git sees");
            }
        }
        let own = folder.join("own");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join(".gitignore"), "*.bak\n").unwrap();
        init(&own, "corpus").unwrap();
        assert_eq!(std::fs::read_to_string(own.join(".gitignore")).unwrap(), "*.bak\n");
    }

    #[test]
    fn the_commands_in_the_comments_name_the_folder_that_was_asked_for() {
        for template in templates() {
            let own = format!("pipelines/{}", template.name);
            for (name, text) in template.manifests_in("voice") {
                assert!(!text.contains(&own), "{template:?} {name} still speaks of {own}");
            }
        }
    }
}
