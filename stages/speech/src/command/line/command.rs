//! A simple command of a line: its words.

use super::prefix::{Prefix, Role};

/// Commands that look for programs, or change the place where they are found.
const LOOKING: &[&str] =
    &["command", "which", "type", "hash", "alias", "eval", ".", "source", "export"];
/// Commands that print their arguments.
const PRINTING: &[&str] = &["echo", "printf"];

#[derive(Debug, Default)]
pub struct SimpleCommand {
    pub words: Vec<Word>,
    /// The files of its redirections.
    pub files: Vec<Word>,
    /// It begins the line.
    pub is_first: bool,
    /// It is on the left of a pipe.
    pub is_piped: bool,
    /// A command may have run before it.
    pub is_behind_command: bool,
    /// It is the head of `for`, `select` or `function`.
    pub is_of_keyword: bool,
}

/// A word of a line.
#[derive(Debug, Default)]
pub struct Word {
    /// Its text without quotes, unless only the shell knows it.
    pub text: Option<String>,
    /// The known text at its start.
    pub start: String,
    /// Its letters as they are written.
    pub source: String,
    /// True if nothing of it is in quotes.
    pub is_plain: bool,
    /// The variable that it sets.
    pub variable: Option<String>,
    /// The numbers of the values in it.
    pub places: Vec<usize>,
    /// The numbers of the values that commands in it print.
    pub printed: Vec<usize>,
    /// The number before a redirection, as in `2>`.
    pub is_descriptor: bool,
}

impl Word {
    pub fn add(&mut self, text: Option<&str>) {
        if let (Some(known), Some(text)) = (&mut self.text, text) {
            known.push_str(text);
            self.start.push_str(text);
        } else {
            self.text = None;
        }
    }

    pub fn add_place(&mut self, number: usize) {
        self.places.push(number);
        (self.text, self.is_plain) = (None, false);
    }

    /// Takes `NAME=` or `NAME+=` at the start of the word for a variable, if this is its end.
    pub fn end_variable(&mut self, letter: char) {
        if letter != '=' || !self.is_plain || self.variable.is_some() {
            return;
        }
        let name = self.start.strip_suffix('+').unwrap_or(&self.start);
        if is_variable(name) {
            self.variable = Some(name.to_owned());
        }
    }

    /// True if a value may be anywhere in it.
    pub fn has_values(&self) -> bool {
        !self.places.is_empty() || !self.printed.is_empty()
    }

    /// True if the word is not there for an empty variable.
    pub fn may_vanish(&self) -> bool {
        self.source.starts_with(['$', '`'])
            && !self.source.contains(['"', '\''])
            && self.places.is_empty()
    }

    pub fn values(&self) -> impl Iterator<Item = usize> {
        self.places.iter().chain(&self.printed).copied()
    }
}

impl SimpleCommand {
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.files.is_empty()
    }

    /// The words from the program on.
    pub fn program(&self) -> &[Word] {
        if self.is_of_keyword {
            return &[];
        }
        let is_set = |word: &Word| word.variable.is_some();
        let from = self.words.iter().position(|word| !is_set(word)).unwrap_or(self.words.len());
        &self.words[from..]
    }

    /// The variables that are set before the program.
    pub fn assignments(&self) -> impl Iterator<Item = &Word> {
        self.words.iter().take_while(|word| word.variable.is_some())
    }

    /// The name of the function, if parentheses follow.
    pub fn function(&self) -> Option<String> {
        match &self.words[..] {
            [name] if name.variable.is_none() => name.text.clone(),
            [_, name] if self.is_of_keyword => name.text.clone(),
            _ => None,
        }
    }

    /// The values that it prints.
    pub fn printed(&self) -> Vec<usize> {
        let Some((program, arguments)) = self.program().split_first() else { return Vec::new() };
        let prints = program.text.as_deref().is_some_and(|name| PRINTING.contains(&name));
        let printed = arguments.iter().filter(|_| prints).flat_map(Word::values);
        printed.collect()
    }

    /// True if other programs than those of the search path may be meant.
    pub fn looks_for_programs(&self) -> bool {
        let sets_path = |word: &Word| word.variable.as_deref() == Some("PATH");
        let name = self.program().first().and_then(|word| word.text.as_deref());
        self.words.iter().any(sets_path) || name.is_some_and(|name| LOOKING.contains(&name))
    }

    /// Its programs as far as they are known: several for `nice foo`.
    pub fn programs(&self) -> Vec<String> {
        let mut programs: Vec<String> = Vec::new();
        let mut prefix: Option<Prefix> = None;
        for word in self.program() {
            match &mut prefix {
                None if programs.is_empty() => {}
                None => break,
                Some(prefix) => match prefix.role(word.text.as_deref(), word.variable.is_some()) {
                    Role::Argument | Role::Variable => continue,
                    Role::Program => {}
                    Role::Unknown => break,
                },
            }
            let is_known =
                |name: &&String| is_name(name) && (is_anywhere(name) || !self.is_behind_command);
            let Some(name) = word.text.as_ref().filter(is_known) else { break };
            prefix = Prefix::of(name);
            programs.push(name.clone());
        }
        programs
    }
}

/// A name that is looked up on the search path, or a path. Only quotes bring spaces into a word.
fn is_name(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./+ ".contains(letter);
    !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain)
}

/// True if the program is the same in every folder.
fn is_anywhere(name: &str) -> bool {
    name.starts_with('/') || !name.contains('/')
}

pub fn is_variable(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !text.is_empty() && text.chars().all(is_letter)
}
