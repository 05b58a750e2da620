//! Reads the source file of a module: what it imports, defines and names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::tokens;

/// Names from the root of a crate, or from where they stand.
pub type Names = Vec<String>;

#[derive(Default)]
pub struct Module {
    pub file: PathBuf,
    /// Imported names and the paths behind them.
    pub imports: BTreeMap<String, Names>,
    /// Modules with all their names imported.
    pub globs: Vec<Names>,
    /// Functions, types and constants.
    pub items: BTreeSet<String>,
    /// The paths in its code, of two names or more.
    pub paths: BTreeSet<Names>,
    /// The names that are re-exported.
    exports: BTreeSet<String>,
    /// The words in its code.
    words: BTreeSet<String>,
}

impl Module {
    /// The paths that it uses. A re-export is no use.
    pub fn uses(&self) -> impl Iterator<Item = &Names> {
        let is_own = |name: &String| !self.exports.contains(name) || self.words.contains(name);
        let imports = self.imports.iter().filter(move |(name, _)| is_own(name));
        imports.map(|(_, path)| path).chain(&self.paths)
    }
}

/// Reads a file into modules, without tests. Returns its modules in other files.
pub fn read(file: &Path, name: &Names, modules: &mut BTreeMap<Names, Module>) -> Vec<Names> {
    let tokens = tokens(&std::fs::read_to_string(file).unwrap());
    Reader { tokens: &tokens, at: 0, file, modules }.module(name)
}

/// A position in the tokens of a file.
struct Reader<'a> {
    tokens: &'a [String],
    at: usize,
    file: &'a Path,
    modules: &'a mut BTreeMap<Names, Module>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    /// Reads a module to its end, and gives the modules that are in files of their own.
    fn module(&mut self, name: &Names) -> Vec<Names> {
        let mut own = Module { file: self.file.to_owned(), ..Module::default() };
        let (mut elsewhere, mut depth) = (Vec::new(), 0);
        while self.at < self.tokens.len() {
            let is_start =
                self.at == 0 || !["::", "."].contains(&self.tokens[self.at - 1].as_str());
            match self.peek(0) {
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "#" if self.tokens[self.at..].iter().take(7).eq(&TEST) => {
                    self.skip_item();
                    continue;
                }
                "mod" if is_start && [";", "{"].contains(&self.peek(2)) => {
                    let child = [&name[..], &[self.peek(1).to_owned()]].concat();
                    self.at += 2;
                    if self.peek(0) == ";" {
                        elsewhere.push(child);
                    } else {
                        self.at += 1;
                        elsewhere.extend(self.module(&child));
                    }
                }
                "use" if is_start => self.import(&mut own),
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" => {
                    own.items.insert(self.peek(1).to_owned());
                }
                word if is_word(word) => {
                    own.words.insert(word.to_owned());
                    if is_start && self.peek(1) == "::" {
                        own.paths.insert(self.path());
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        self.modules.insert(name.clone(), own);
        elsewhere
    }

    /// Reads an import.
    fn import(&mut self, own: &mut Module) {
        let is_export = self.at > 0 && ["pub", ")"].contains(&&*self.tokens[self.at - 1]);
        let mut new = Module::default();
        self.at += 1;
        self.tree(Names::new(), &mut new);
        if is_export {
            own.exports.extend(new.imports.keys().cloned());
        }
        own.imports.extend(new.imports);
        own.globs.extend(new.globs);
    }

    /// Reads a path, and stops at its last token.
    fn path(&mut self) -> Names {
        let mut path = vec![self.peek(0).to_owned()];
        while self.peek(1) == "::" && is_word(self.peek(2)) {
            self.at += 2;
            path.push(self.peek(0).to_owned());
        }
        path
    }

    /// Reads what an import brings in, and stops behind it.
    fn tree(&mut self, before: Names, own: &mut Module) {
        let mut path = before.clone();
        loop {
            match self.peek(0).to_owned().as_str() {
                "::" => self.at += 1,
                "*" => {
                    self.at += 1;
                    return own.globs.push(path);
                }
                "{" => {
                    while self.peek(0) != "}" && self.at < self.tokens.len() {
                        self.at += 1;
                        if self.peek(0) != "}" {
                            self.tree(path.clone(), own);
                        }
                    }
                    self.at += 1;
                    return;
                }
                "self" if path.len() > before.len() || !before.is_empty() => self.at += 1,
                word if is_word(word) && word != "as" => {
                    path.push(word.to_owned());
                    self.at += 1;
                }
                sign => {
                    let alias = match sign {
                        "as" => {
                            self.at += 2;
                            self.tokens[self.at - 1].clone()
                        }
                        _ => path.last().cloned().unwrap_or_default(),
                    };
                    own.imports.insert(alias, path);
                    return;
                }
            }
        }
    }

    /// Skips an item with its attributes.
    fn skip_item(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            let token = self.peek(0);
            depth += i32::from(["{", "(", "["].contains(&token));
            depth -= i32::from(["}", ")", "]"].contains(&token));
            let is_end = depth == 0 && [";", "}"].contains(&token);
            self.at += 1;
            if is_end {
                return;
            }
        }
    }
}

/// The mark of an item for tests.
const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

fn is_word(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}
