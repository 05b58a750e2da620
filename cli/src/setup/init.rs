//! `init`: writes a manifest to start with and its files, and pages for coding agents.

use std::io::Write;

use cache::fs::{Confined, Fs, RealFs};
use camino::Utf8Path;
use clap::CommandFactory;
use engine::manifest::FILE_NAME as MANIFEST;
use stage_core::Catalogue;

use super::agents;
use super::templates::{self, Template};
use crate::arguments::{Arguments, Init};
use crate::error::{CliError, Exit};
use crate::named;

const IGNORE_FILE: &str = ".gitignore";
const IGNORED: &str = "\
# Made by throstle from the manifest and the data.
/.throstle/
/out/
/report.html
";

/// Existing files are never overwritten. The manifest is written last: a folder with a manifest is
/// complete, and an interrupted `init` can be repeated.
pub fn init(
    catalogue: &Catalogue,
    arguments: &Init,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    named::refuse_caches(&arguments.dir)?;
    let manifest = arguments.dir.join(MANIFEST);
    let has_manifest = RealFs.exists(&manifest)?;
    let pages = if arguments.agent {
        Vec::from(agents::pages(catalogue, Arguments::command()))
    } else {
        Vec::new()
    };
    // Pages go beside a manifest that exists, unless another one is asked for.
    let template = match arguments.template {
        None if has_manifest && arguments.agent => None,
        _ if has_manifest => return Err(there_already(&manifest)),
        template => Some(template.unwrap_or_else(templates::first)),
    };
    let manifests = template.map(|template| template.manifests_in(arguments.dir.as_str()));
    let texts = pages
        .iter()
        .map(|(name, text)| (*name, text))
        .chain(manifests.iter().flatten().map(|(name, text)| (*name, text)));
    let texts = texts.map(|(name, text)| (name.to_owned(), text.as_bytes()));
    let data = template.map(Template::files).unwrap_or_default();
    let files: Vec<(String, &[u8])> = data.into_iter().chain(texts).collect();
    for (path, bytes) in &files {
        let file = arguments.dir.join(path);
        if RealFs.exists(&file)? && RealFs.read(&file)? != *bytes {
            return Err(there_already(&file));
        }
    }
    let folder = new_folder(&arguments.dir)?;
    let ignore = arguments.dir.join(IGNORE_FILE);
    if template.is_some() && !RealFs.exists(&ignore)? {
        write(&folder, &ignore, IGNORED.as_bytes())?;
    }
    for (path, bytes) in &files {
        write(&folder, &arguments.dir.join(path), bytes)?;
    }
    for (name, _) in &pages {
        writeln!(output, "wrote `{}` for coding agents", arguments.dir.join(name))?;
    }
    if let Some(template) = template {
        let bring = template.bring.map(|bring| format!("{bring}, then ")).unwrap_or_default();
        writeln!(output, "wrote `{manifest}`: {bring}`throstle run {}`", arguments.dir)?;
    }
    Ok(Exit::Done)
}

pub fn there_already(file: &Utf8Path) -> CliError {
    let help = match file.file_name() {
        Some(agents::INSTRUCTIONS) => {
            "rename it, run this again, and copy your lines into the new file"
        }
        Some(agents::REFERENCE) => "remove it, and run this again",
        _ => "choose another folder, or remove it first",
    };
    CliError::usage(format!("`{file}` already exists"), help)
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
    use camino::{Utf8Path, Utf8PathBuf};

    use super::{CliError, Init};
    use crate::setup::templates::templates;
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
                let loaded = load(&text, name.into(), &stage_speech::catalogue(), &options, &files);
                let is_right = loaded.as_ref().is_ok_and(|loaded| loaded.warnings.is_empty());
                assert!(is_right, "{template:?} {name}: {loaded:?}");
            }
        }
    }

    fn init_with(dir: &Utf8Path, template: Option<&str>, agent: bool) -> Result<String, CliError> {
        let template = template.map(|name| templates().find(|own| own.name == name).unwrap());
        let mut told = Vec::new();
        let arguments = Init { dir: dir.to_owned(), template, agent };
        super::init(&stage_speech::catalogue(), &arguments, &mut told)?;
        Ok(String::from_utf8(told).unwrap())
    }

    fn init(dir: &Utf8Path, template: &str) -> Result<String, CliError> {
        init_with(dir, Some(template), false)
    }

    fn new_folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        (folder, path)
    }

    fn names(folder: &Utf8Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_pages_for_agents_are_written_beside_a_new_manifest_or_an_old_one() {
        let all = [".gitignore", "AGENTS.md", "llms.txt", "pipeline.toml"];
        for template in [None, Some("tokens")] {
            let (_own, folder) = new_folder();
            let told = init_with(&folder, template, true).unwrap();
            assert!(told.contains("AGENTS.md` for coding agents\n"), "{told}");
            assert_eq!(names(&folder), all);
            let manifest = std::fs::read_to_string(folder.join("pipeline.toml")).unwrap();
            assert_eq!(manifest.contains("vq.encode"), template.is_some());
            // Again, beside the manifest that is there now.
            init_with(&folder, None, true).unwrap();
            let error = init_with(&folder, Some("tokens"), true).unwrap_err();
            assert!(error.to_string().ends_with("pipeline.toml` already exists"), "{error}");
        }
        let (_own, folder) = new_folder();
        std::fs::write(folder.join("pipeline.toml"), "mine").unwrap();
        init_with(&folder, None, true).unwrap();
        assert_eq!(names(&folder), all[1..]);
        assert_eq!(std::fs::read_to_string(folder.join("pipeline.toml")).unwrap(), "mine");
    }

    #[test]
    fn a_page_of_the_user_is_kept_and_nothing_is_written() {
        for name in ["AGENTS.md", "llms.txt"] {
            let (_own, folder) = new_folder();
            std::fs::write(folder.join(name), "mine").unwrap();
            let error = init_with(&folder, None, true).unwrap_err();
            assert_eq!(error.to_string(), format!("`{}` already exists", folder.join(name)));
            assert_eq!(names(&folder), [name]);
            assert_eq!(std::fs::read_to_string(folder.join(name)).unwrap(), "mine");
            init_with(&folder, None, false).unwrap();
            assert_eq!(std::fs::read_to_string(folder.join(name)).unwrap(), "mine");
        }
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
