//! `new-stage`: writes a crate with a custom stage, and a program with that stage.
//!
//! Its files are those of `tests/outside`, under another name.

use std::io::Write;

use cache::fs::{Fs, RealFs};
use camino::{Utf8Path, Utf8PathBuf};

use super::init::{new_folder, there_already, write};
use crate::arguments::NewStage;
use crate::error::{CliError, Exit};
use crate::named;

/// The name of the example.
const EXAMPLE: &str = "whisper";
const EXAMPLE_TYPE: &str = "Whisper";
/// The folder of the example's path dependencies.
const EXAMPLE_PATH: &str = "path = \"../../";

const FILES: [(&str, &str); 4] = [
    (
        ".gitignore",
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/outside/.gitignore")),
    ),
    (
        "src/whisper.rs",
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/outside/src/whisper.rs")),
    ),
    (
        "src/main.rs",
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/outside/src/main.rs")),
    ),
    // The last one: a folder with it is complete.
    (
        "Cargo.toml",
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/outside/Cargo.toml")),
    ),
];

/// Names of crates and words of the language, which no module may have.
const TAKEN: [&str; 58] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "cache",
    "cli",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "hound",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "main",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "pub",
    "ref",
    "return",
    "self",
    "stage_core",
    "stage_speech",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "torch",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "use",
    "where",
];

/// Existing files are never overwritten.
pub fn new_stage(arguments: &NewStage, output: &mut dyn Write) -> Result<Exit, CliError> {
    let name = &arguments.name;
    let folder = arguments.to.clone().unwrap_or_else(|| Utf8PathBuf::from(name));
    named::refuse_caches(&folder)?;
    let source = match &arguments.throstle {
        Some(path) => Source::Path(checkout(path)?),
        None => Source::Repository,
    };
    let files = files(name, &source);
    for (path, text) in &files {
        let file = folder.join(path);
        if RealFs.exists(&file)? && RealFs.read(&file)? != *text.as_bytes() {
            return Err(there_already(&file));
        }
    }
    let inside = new_folder(&folder)?;
    for (path, text) in &files {
        write(&inside, &folder.join(path), text.as_bytes())?;
    }
    let manifest = folder.join("Cargo.toml");
    writeln!(output, "wrote `{folder}` with the stage `my.{name}`:")?;
    writeln!(output, "  cargo test --manifest-path {manifest}")?;
    writeln!(output, "  cargo run --manifest-path {manifest} -- stages my.{name}")?;
    Ok(Exit::Done)
}

/// The place of the packages that the crate depends on.
enum Source {
    Repository,
    /// A checkout.
    Path(Utf8PathBuf),
}

/// The absolute path of a checkout.
fn checkout(path: &Utf8Path) -> Result<Utf8PathBuf, CliError> {
    if !RealFs.exists(&path.join("stages/core/Cargo.toml"))? {
        return Err(CliError::usage(
            format!("`{path}` is not a checkout of throstle"),
            "name the folder of a checkout, or leave out `--throstle` to use its repository",
        ));
    }
    Ok(RealFs.resolve(path)?)
}

fn files(name: &str, source: &Source) -> Vec<(String, String)> {
    let module = name.replace('-', "_");
    let words = module.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_uppercase())
    });
    let type_name: String = words.collect();
    let renamed = |text: &str| text.replace(EXAMPLE_TYPE, &type_name);
    let file = |(path, text): (&str, &str)| match path {
        "Cargo.toml" => (path.to_owned(), dependencies(&text.replace(EXAMPLE, name), source)),
        _ => {
            // The kind has the name as it was written, and code the name of the module.
            let kind = format!("my.{EXAMPLE}");
            let parts: Vec<String> =
                text.split(&kind).map(|part| renamed(&part.replace(EXAMPLE, &module))).collect();
            (path.replace(EXAMPLE, &module), parts.join(&format!("my.{name}")))
        }
    };
    FILES.into_iter().map(file).collect()
}

fn dependencies(manifest: &str, source: &Source) -> String {
    let line = |line: &str| match (line.split_once(EXAMPLE_PATH), source) {
        (None, _) => line.to_owned(),
        (Some((before, path)), Source::Path(checkout)) => {
            format!("{before}path = \"{checkout}/{path}")
        }
        (Some((before, path)), Source::Repository) => {
            let after = path.split_once('"').map_or("", |(_, after)| after);
            format!("{before}git = \"{}\"{after}", env!("CARGO_PKG_REPOSITORY"))
        }
    };
    manifest.lines().map(|own| line(own) + "\n").collect()
}

/// Parses a name that can be one of a module and of a kind.
pub fn stage_name(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_word = |word: &str| !word.is_empty() && word.chars().all(is_plain);
    let starts = text.starts_with(|first: char| first.is_ascii_lowercase());
    if !starts || !text.split(['-', '_']).all(is_word) || text.len() > 64 {
        return Err("expected lower-case letters and digits, with `-` or `_` between words".into());
    }
    if TAKEN.contains(&text.replace('-', "_").as_str()) {
        Err(format!("`{text}` is a keyword of Rust or the name of a package"))
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;

    fn written(name: &str, source: &Source) -> Vec<(String, String)> {
        let mut files = files(name, source);
        files.sort();
        files
    }

    #[test]
    fn the_example_of_the_tests_is_what_is_written_under_its_name() {
        for (path, text) in files(EXAMPLE, &Source::Path("../..".into())) {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/outside");
            assert_eq!(
                text,
                std::fs::read_to_string(format!("{folder}/{path}")).unwrap(),
                "{path}"
            );
        }
    }

    #[test]
    fn every_name_is_that_of_the_new_stage() {
        let files = written("room-tone", &Source::Repository);
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, [".gitignore", "Cargo.toml", "src/main.rs", "src/room_tone.rs"]);
        for (path, text) in &files {
            assert!(!text.to_lowercase().contains(EXAMPLE), "{path}: {text}");
        }
        let [_, (_, manifest), (_, main), (_, stage)] = &files[..] else { panic!("four files") };
        assert!(manifest.contains("name = \"throstle-room-tone\""), "{manifest}");
        assert_eq!(manifest.matches("git = \"https://").count(), 3, "{manifest}");
        assert!(!manifest.contains("path ="), "{manifest}");
        assert!(main.contains("mod room_tone;") && main.contains("room_tone::RoomToneStage"));
        assert!(stage.contains("name: \"my.room-tone\"") && stage.contains("struct RoomToneWork"));
    }

    #[test]
    fn the_packages_of_a_checkout_are_named_by_their_path() {
        let files = files("quiet", &Source::Path("/src/throstle".into()));
        let (_, manifest) = files.iter().find(|(path, _)| path == "Cargo.toml").unwrap();
        let core = "stage-core = { package = \"throstle-stage-core\", path = \"/src/throstle/stages/core\" }";
        assert!(manifest.contains(core), "{manifest}");
        let manifest: toml::Table = manifest.parse().unwrap();
        assert_eq!(manifest["dependencies"].as_table().unwrap().len(), 4);
    }

    #[test]
    fn a_name_is_one_of_a_module_and_of_a_package() {
        for name in ["whisper", "room-tone", "f0_track", "a1"] {
            assert_eq!(stage_name(name).as_deref(), Ok(name));
        }
        for name in ["", "1a", "-a", "a-", "a--b", "Whisper", "my.stage", "a b", "../a", "ä"] {
            assert!(stage_name(name).unwrap_err().contains("expected"), "{name}");
        }
        for name in ["fn", "cli", "stage-core", "cache", "main"] {
            assert!(stage_name(name).unwrap_err().contains("word of Rust"), "{name}");
        }
    }

    #[test]
    fn files_that_are_there_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let to = Utf8Path::from_path(folder.path()).unwrap().join("new");
        let arguments = |name: &str, throstle: Option<&str>| NewStage {
            name: name.to_owned(),
            to: Some(to.clone()),
            throstle: throstle.map(Utf8PathBuf::from),
        };
        let mut told = Vec::new();
        new_stage(&arguments("quiet", None), &mut told).unwrap();
        assert!(String::from_utf8(told).unwrap().contains("-- stages my.quiet"));
        // Again is no error.
        new_stage(&arguments("quiet", None), &mut Vec::new()).unwrap();
        std::fs::write(to.join("src/main.rs"), "fn main() {}").unwrap();
        let error = new_stage(&arguments("quiet", None), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("main.rs` already exists"), "{error}");
        assert_eq!(std::fs::read_to_string(to.join("src/main.rs")).unwrap(), "fn main() {}");
        let error = new_stage(&arguments("other", Some("/")), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("is not a checkout of throstle"), "{error}");
    }
}
