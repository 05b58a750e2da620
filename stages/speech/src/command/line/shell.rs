//! The structure of a line for `sh`: the simple commands in it, and the place of each value.
//!
//! This reads as much of the language as these two need: quotes, substitutions, here-documents,
//! `case` and comments. Where shells differ, or where constructs are nested too deeply, values have
//! no place.

use super::command::SimpleCommand;
use super::document::Document;
use super::{Misplaced, Piece, Place, Unclosed, Writing, pieces};

/// The nesting depth from which a line is not read.
const MAX_DEPTH: usize = 64;

/// Words that are followed by a command.
const BEFORE_A_COMMAND: &[&str] =
    &["if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "coproc"];
/// Words that end a command.
const ENDS: &[&str] = &["done", "fi", "}", "esac"];
/// Words that are followed by a name.
const BEFORE_A_NAME: &[&str] = &["for", "select", "function"];

/// The commands of a line.
#[derive(Debug, Default)]
pub struct Script<'a> {
    pub commands: Vec<SimpleCommand>,
    /// The values in the line, in their order.
    pub places: Vec<Place<'a>>,
    pub functions: Vec<String>,
    /// All text that the shell computes with.
    pub arithmetic: String,
    /// The line is nested too deeply.
    pub is_odd: bool,
}

impl<'a> Script<'a> {
    /// # Errors
    ///
    /// A brace that is not closed.
    pub fn read(line: &'a str) -> Result<Script<'a>, Unclosed> {
        let mut reader = Reader::default();
        for piece in pieces(line)? {
            match piece {
                Piece::Text(text) => reader.symbols.extend(text.chars().map(Symbol::Letter)),
                Piece::Place(name) => {
                    reader.symbols.push(Symbol::Place(reader.script.places.len()));
                    reader.script.places.push(Place { name, writing: Writing::Word, fault: None });
                }
            }
        }
        reader.commands(None);
        let Reader { mut script, is_unclear, .. } = reader;
        if is_unclear || script.is_odd {
            script.places.iter_mut().for_each(|place| place.refuse(Misplaced::Unclear));
        }
        Ok(script)
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Symbol {
    Letter(char),
    /// The number of the value.
    Place(usize),
}

impl Symbol {
    pub fn letter(&self) -> Option<char> {
        match self {
            Symbol::Letter(letter) => Some(*letter),
            Symbol::Place(_) => None,
        }
    }
}

/// The position within a `case`.
#[derive(PartialEq)]
enum Case {
    BeforeIn,
    Pattern,
    Body,
}

/// The role of the next word of a list.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Command,
    Argument,
    /// The file of a redirection, in the command or behind it.
    File {
        is_in_command: bool,
    },
    /// The name behind `for`.
    Name,
}

/// The state of one list of commands.
struct List {
    cases: Vec<Case>,
    expected: Expected,
    command: SimpleCommand,
    /// Between `[[` and `]]`.
    is_test: bool,
}

#[derive(Default)]
pub struct Reader<'a> {
    pub symbols: Vec<Symbol>,
    pub at: usize,
    depth: usize,
    pub documents: Vec<Document>,
    pub script: Script<'a>,
    /// The construct around, if no value can be in it.
    pub region: Option<Misplaced>,
    /// A word has come that ends the first command.
    is_behind_first: bool,
    /// The first command, and those that `&&` and `||` connect with it, are over.
    is_behind_first_list: bool,
    /// A command may have run before this place.
    is_behind_command: bool,
    pub is_unclear: bool,
}

impl Reader<'_> {
    pub fn peek(&self) -> Option<Symbol> {
        self.symbols.get(self.at).copied()
    }

    pub fn takes(&mut self, letter: char) -> bool {
        let is_next = self.peek() == Some(Symbol::Letter(letter));
        self.at += usize::from(is_next);
        is_next
    }

    pub fn is_at(&self, text: &str) -> bool {
        let mut symbols = self.symbols[self.at.min(self.symbols.len())..].iter();
        text.chars().all(|letter| symbols.next() == Some(&Symbol::Letter(letter)))
    }

    pub fn place(&mut self, number: usize, writing: Writing, fault: Option<Misplaced>) {
        let place = &mut self.script.places[number];
        place.writing = writing;
        if let Some(fault) = self.region.or(fault) {
            place.refuse(fault);
        }
    }

    /// Reads one construct inside another.
    pub fn nested(&mut self, region: Option<Misplaced>, read: impl FnOnce(&mut Self)) {
        let around = std::mem::replace(&mut self.region, region);
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            (self.script.is_odd, self.at) = (true, self.symbols.len())
        } else {
            read(self)
        }
        self.depth -= 1;
        self.region = around;
    }

    /// Reads commands up to a character, or to the end of the line.
    pub fn commands(&mut self, end: Option<char>) {
        let mut list = List {
            cases: Vec::new(),
            expected: Expected::Command,
            command: SimpleCommand::default(),
            is_test: false,
        };
        while let Some(symbol) = self.peek() {
            let is_pattern = list.cases.last() == Some(&Case::Pattern);
            match symbol {
                Symbol::Letter(')') if end == Some(')') && !is_pattern && !list.is_test => {
                    self.at += 1;
                    break;
                }
                Symbol::Letter('\n') => {
                    self.at += 1;
                    self.documents();
                    if list.expected != Expected::Command {
                        self.end_list();
                    }
                    self.begin(&mut list, false);
                }
                Symbol::Letter(' ' | '\t' | '\r') => self.at += 1,
                Symbol::Letter('\\') if self.is_at("\\\n") => self.at += 2,
                Symbol::Letter('#') => self.comment(),
                Symbol::Letter('&' | '|' | '(' | ')' | '<' | '>') if list.is_test => self.at += 1,
                Symbol::Letter(';' | '&' | '|' | '(' | ')' | '<' | '>') => {
                    self.operator(&mut list, is_pattern);
                }
                _ => self.word(&mut list),
            }
        }
        self.begin(&mut list, false);
    }

    /// The line break behind a comment is left: documents begin there.
    fn comment(&mut self) {
        while self.peek().is_some_and(|symbol| symbol != Symbol::Letter('\n')) {
            self.at += 1;
        }
    }

    /// Ends the command, and expects another one.
    fn begin(&mut self, list: &mut List, is_piped: bool) {
        let command = std::mem::take(&mut list.command);
        if !command.is_empty() {
            self.script.commands.push(SimpleCommand { is_piped, ..command });
        }
        (list.expected, list.is_test) = (Expected::Command, false);
    }

    /// The commands that were connected are over; the next one runs behind them.
    fn end_list(&mut self) {
        self.is_behind_command = true;
        if self.depth == 0 {
            (self.is_behind_first, self.is_behind_first_list) = (true, true);
        }
    }

    fn operator(&mut self, list: &mut List, is_pattern: bool) {
        let Some(Symbol::Letter(letter)) = self.peek() else { return };
        self.at += 1;
        self.is_behind_first |= self.depth == 0 && !"<>".contains(letter);
        match letter {
            ';' => {
                if self.takes(';') || self.takes('&') {
                    self.takes('&');
                    if let Some(case) = list.cases.last_mut() {
                        *case = Case::Pattern;
                    }
                }
                self.end_list();
                self.begin(list, false);
            }
            '|' if is_pattern => {}
            '|' => {
                let is_piped = !self.takes('|');
                self.takes('&');
                self.begin(list, is_piped);
                if !is_piped {
                    self.is_behind_command = true;
                    if self.depth == 0 && !self.is_behind_first_list {
                        let commands = &mut self.script.commands;
                        commands.iter_mut().for_each(|command| command.is_first = false);
                    }
                }
            }
            '&' if self.takes('>') => self.file(list),
            '&' => {
                if self.takes('&') {
                    self.is_behind_command = true
                } else {
                    self.end_list()
                }
                self.begin(list, false);
            }
            '(' if is_pattern => {}
            '(' => self.parenthesis(list),
            ')' => {
                if let Some(case) = list.cases.last_mut().filter(|_| is_pattern) {
                    *case = Case::Body;
                    self.begin(list, false);
                }
            }
            '<' if self.takes('<') => {
                if self.takes('<') {
                    self.file(list)
                } else {
                    self.document()
                }
            }
            _ => {
                let _ = self.takes(letter) || self.takes('|') || self.takes('&') || self.takes('>');
                self.file(list);
            }
        }
    }

    fn file(&mut self, list: &mut List) {
        list.expected = Expected::File { is_in_command: list.expected != Expected::Command };
    }

    /// A function behind its name, or a shell of its own.
    fn parenthesis(&mut self, list: &mut List) {
        if self.is_at("(") {
            // Arithmetic, or a shell in a shell.
            self.at += 1;
            self.nested(Some(Misplaced::Arithmetic), |reader| reader.arithmetic(')'));
            list.expected = Expected::Argument;
            return;
        }
        if let Some(name) = list.command.function()
            && self.takes(')')
        {
            self.script.functions.push(name);
            self.is_behind_command = true;
            list.command = SimpleCommand::default();
            self.begin(list, false);
            return;
        }
        let region = self.region;
        self.nested(region, |reader| reader.commands(Some(')')));
        list.expected = Expected::Argument;
    }

    fn word(&mut self, list: &mut List) {
        let word = self.read_word();
        if word.is_descriptor {
            return;
        }
        let plain = word.text.as_deref().filter(|_| word.is_plain);
        match list.expected {
            Expected::File { is_in_command } => {
                list.expected = if is_in_command { Expected::Argument } else { Expected::Command };
                list.command.files.push(word);
                return;
            }
            Expected::Name => {
                for number in &word.places {
                    self.script.places[*number].refuse(Misplaced::Name);
                }
                list.command.words.push(word);
                list.expected = Expected::Argument;
                return;
            }
            _ => {}
        }
        match list.cases.last() {
            Some(Case::BeforeIn) if plain == Some("in") => {
                list.cases.pop();
                list.cases.push(Case::Pattern);
                return;
            }
            Some(Case::BeforeIn) => return,
            Some(Case::Pattern) => {
                if plain == Some("esac") {
                    list.cases.pop();
                    list.expected = Expected::Argument;
                }
                return;
            }
            Some(Case::Body) | None => {}
        }
        if list.expected == Expected::Argument {
            list.is_test &= plain != Some("]]");
            list.command.words.push(word);
            return;
        }
        match plain {
            _ if word.variable.is_some() => list.command.words.push(word),
            Some(keyword) if BEFORE_A_COMMAND.contains(&keyword) => {
                // The command after the keyword may fail; after `time` it may not.
                self.is_behind_first |= self.depth == 0 && keyword != "time";
            }
            Some("case") => list.cases.push(Case::BeforeIn),
            Some(end) if ENDS.contains(&end) => {
                if end == "esac" {
                    list.cases.pop();
                }
                list.expected = Expected::Argument;
            }
            Some(keyword) if BEFORE_A_NAME.contains(&keyword) => {
                list.command.is_of_keyword = true;
                list.command.words.push(word);
                list.expected = Expected::Name;
            }
            _ => {
                list.is_test = plain == Some("[[");
                list.command.is_first = self.depth == 0 && !self.is_behind_first;
                list.command.is_behind_command = self.is_behind_command;
                list.command.words.push(word);
                list.expected = Expected::Argument;
            }
        }
    }
}
