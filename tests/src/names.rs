//! The names and texts in the code of a package, without its tests.

use std::path::{Path, PathBuf};

use crate::modules::tokens::{texts, tokens};

/// What the files of a package define and say, each with its file.
#[derive(Default)]
pub struct Names {
    pub types: Vec<(PathBuf, String)>,
    pub functions: Vec<(PathBuf, String)>,
    /// With their quotes.
    pub texts: Vec<(PathBuf, String)>,
}

impl Names {
    /// Reads all code in a folder and the folders in it.
    pub fn read(folder: &Path) -> Names {
        let mut names = Names::default();
        names.read_folder(folder);
        names
    }

    fn read_folder(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if stem.ends_with("tests") || stem == "testing" => {}
                None if path.is_dir() => self.read_folder(&path),
                Some("rs") => {
                    let code = std::fs::read_to_string(&path).unwrap();
                    self.add(&path, without_tests(&code));
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, file: &Path, code: &str) {
        let tokens = tokens(code);
        for pair in tokens.windows(2) {
            let named = || (file.to_owned(), pair[1].clone());
            match pair[0].as_str() {
                "struct" | "enum" | "trait" | "union" if starts_with_capital(&pair[1]) => {
                    self.types.push(named());
                }
                "fn" if pair[1] != "(" => self.functions.push(named()),
                _ => {}
            }
        }
        self.texts.extend(texts(code).into_iter().map(|text| (file.to_owned(), text.to_owned())));
    }
}

/// The code before the tests at the end of a file.
fn without_tests(code: &str) -> &str {
    code.split("#[cfg(test)]\nmod tests {").next().unwrap()
}

fn starts_with_capital(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_uppercase())
}

/// The words of a name or a text, in small letters: `SetAside`, `set_aside` and "set aside" have two.
pub fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_in_a_small_word = false;
    for letter in text.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && is_in_a_small_word) {
            words.push(String::new());
        }
        words.last_mut().unwrap().extend(letter.to_lowercase().filter(|one| one.is_alphanumeric()));
        is_in_a_small_word = letter.is_lowercase() || letter.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_functions_and_texts_of_code_are_found_and_those_of_tests_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let code = "/// A `struct Comment`.\npub struct Table { cell: fn(u8) }\ntrait Row {\n    \
                    fn read(&self) -> &str { \"a text\" }\n}\n#[cfg(test)]\nmod tests {\n    struct Fake;\n}";
        std::fs::create_dir(folder.path().join("room")).unwrap();
        std::fs::write(folder.path().join("room/a.rs"), code).unwrap();
        std::fs::write(folder.path().join("tests.rs"), "enum Case {}").unwrap();
        let names = Names::read(folder.path());
        let of = |found: &[(PathBuf, String)]| -> Vec<String> {
            found.iter().map(|(_, name)| name.clone()).collect()
        };
        assert_eq!(of(&names.types), ["Table", "Row"]);
        assert_eq!(of(&names.functions), ["read"]);
        assert_eq!(of(&names.texts), ["\"a text\""]);
    }

    #[test]
    fn a_name_and_a_text_have_the_same_words() {
        for text in ["SetAside", "set_aside", "`set` aside.", "SET_ASIDE", "set-aside"] {
            assert_eq!(words(text), ["set", "aside"], "{text}");
        }
        assert_eq!(words("Wav2Vec2Config"), ["wav2", "vec2", "config"]);
    }
}
