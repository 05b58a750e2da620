//! Words of a line for `sh`: quotes, substitutions and arithmetic.

use super::command::{SimpleCommand, Word};
use super::shell::{Reader, Symbol};
use super::{Misplaced, Writing};

impl Reader<'_> {
    /// Reads a word up to a blank or an operator.
    pub fn read_word(&mut self) -> Word {
        let from = self.at;
        let mut word = Word { text: Some(String::new()), is_plain: true, ..Word::default() };
        while let Some(symbol) = self.peek() {
            let letter = match symbol {
                Symbol::Place(number) => {
                    self.at += 1;
                    self.place(number, Writing::Word, None);
                    word.add_place(number);
                    continue;
                }
                Symbol::Letter(
                    ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>',
                ) => break,
                Symbol::Letter(letter) => letter,
            };
            self.at += 1;
            match letter {
                '\'' | '"' | '`' | '$' | '\\' => {
                    word.is_plain = false;
                    let inner = self.special(letter, &mut word, false);
                    word.add(inner.as_deref());
                }
                _ => {
                    word.end_variable(letter);
                    word.add(Some(letter.encode_utf8(&mut [0; 4])));
                }
            }
        }
        // `2>` is a redirection.
        let is_number =
            |text: &String| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
        let is_redirected = matches!(self.peek(), Some(Symbol::Letter('<' | '>')));
        if word.is_plain && is_redirected && word.text.as_ref().is_some_and(is_number) {
            word.is_descriptor = true;
        }
        let letters = self.symbols[from..self.at.min(self.symbols.len())].iter();
        word.source = letters.filter_map(Symbol::letter).collect();
        word
    }

    /// A construct that begins with a character that keeps its meaning inside a word. Returns its
    /// text, unless only the shell knows it.
    fn special(&mut self, letter: char, word: &mut Word, is_in_double: bool) -> Option<String> {
        match letter {
            '\'' => self.single(word),
            '"' => {
                let (region, mut text) = (self.region, None);
                self.nested(region, |reader| text = reader.double(word));
                text
            }
            '`' => self.back_quotes(),
            '$' => self.dollar(word, is_in_double),
            // The next character stands for itself.
            _ => {
                let symbol = self.peek()?;
                self.at += 1;
                match symbol {
                    Symbol::Letter('\n') => Some(String::new()),
                    Symbol::Letter(letter) => Some(letter.into()),
                    Symbol::Place(number) => {
                        self.place(number, Writing::Literal, Some(Misplaced::Escape));
                        None
                    }
                }
            }
        }
    }

    fn single(&mut self, word: &mut Word) -> Option<String> {
        let mut text = Some(String::new());
        while let Some(symbol) = self.peek() {
            self.at += 1;
            match symbol {
                Symbol::Letter('\'') => return text,
                Symbol::Letter(letter) => text.iter_mut().for_each(|text| text.push(letter)),
                Symbol::Place(number) => {
                    text = None;
                    word.places.push(number);
                    self.place(number, Writing::Literal, Some(Misplaced::Quotes));
                }
            }
        }
        self.is_unclear = true;
        None
    }

    fn double(&mut self, word: &mut Word) -> Option<String> {
        let mut text = Some(String::new());
        while let Some(symbol) = self.peek() {
            self.at += 1;
            match symbol {
                Symbol::Letter('"') => return text,
                Symbol::Letter(letter @ ('`' | '$' | '\\')) => {
                    let inner = self.special(letter, word, true);
                    text = text.zip(inner).map(|(text, inner)| text + &inner);
                }
                Symbol::Letter(letter) => text.iter_mut().for_each(|text| text.push(letter)),
                Symbol::Place(number) => {
                    text = None;
                    word.places.push(number);
                    self.place(number, Writing::DoubleQuotes, Some(Misplaced::Quotes));
                }
            }
        }
        self.is_unclear = true;
        None
    }

    /// The first one without a backslash before it ends them.
    fn back_quotes(&mut self) -> Option<String> {
        while let Some(symbol) = self.peek() {
            self.at += 1;
            match symbol {
                Symbol::Letter('`') => return None,
                Symbol::Letter('\\') => self.at += usize::from(self.is_at("`")),
                Symbol::Letter(_) => {}
                Symbol::Place(number) => {
                    self.place(number, Writing::Literal, Some(Misplaced::BackQuotes));
                }
            }
        }
        self.is_unclear = true;
        None
    }

    fn dollar(&mut self, word: &mut Word, is_in_double: bool) -> Option<String> {
        if self.is_at("((") {
            self.at += 2;
            self.nested(Some(Misplaced::Arithmetic), |reader| reader.arithmetic(')'));
        } else if self.takes('(') {
            self.substitution(word);
        } else if self.takes('[') {
            // Arithmetic for some shells, and text for others.
            self.nested(Some(Misplaced::Arithmetic), |reader| reader.arithmetic(']'));
        } else if self.takes('{') {
            self.nested(Some(Misplaced::Expansion), |reader| reader.expansion(is_in_double));
        } else if !is_in_double && self.takes('\'') {
            // Some shells know escapes in it, others do not.
            let from = self.at;
            self.single(word);
            self.is_unclear |= self.symbols[from..self.at].contains(&Symbol::Letter('\\'));
        }
        None
    }

    /// `$(` up to `)`. A value that its commands print is a value in the word.
    fn substitution(&mut self, word: &mut Word) {
        let is_computed = self.region == Some(Misplaced::Arithmetic);
        let before = self.script.commands.len();
        self.nested(None, |reader| reader.commands(Some(')')));
        let printed = self.script.commands[before..].iter().flat_map(SimpleCommand::printed);
        let printed: Vec<usize> = printed.collect();
        for number in printed {
            word.printed.push(number);
            if is_computed {
                self.script.places[number].refuse(Misplaced::Arithmetic);
            }
        }
    }

    /// Up to the character that ends it: `))` behind `((`, `]` behind `$[`.
    pub fn arithmetic(&mut self, end: char) {
        let (begin, mut open) = if end == ')' { ('(', 2) } else { ('[', 1) };
        let mut inner = Word::default();
        while let Some(symbol) = self.peek() {
            self.at += 1;
            match symbol {
                Symbol::Place(number) => self.place(number, Writing::Literal, None),
                Symbol::Letter(letter) => {
                    self.script.arithmetic.push(letter);
                    open += usize::from(letter == begin);
                    open -= usize::from(letter == end);
                    if "'\"`$\\".contains(letter) {
                        self.special(letter, &mut inner, false);
                    }
                }
            }
            if open == 0 {
                self.script.arithmetic.push(' ');
                return;
            }
        }
        self.is_unclear |= end == ')';
    }

    /// `${` up to `}`.
    fn expansion(&mut self, is_in_double: bool) {
        let (mut inner, mut is_computed) = (Word::default(), false);
        while let Some(symbol) = self.peek() {
            self.at += 1;
            match symbol {
                Symbol::Letter('}') => return,
                Symbol::Letter('\'') if is_in_double => self.is_unclear = true,
                Symbol::Letter(letter @ ('\'' | '"' | '`' | '$' | '\\')) => {
                    self.special(letter, &mut inner, is_in_double);
                }
                Symbol::Letter(letter) => {
                    // A subscript, or an offset as in `${x:n}`.
                    let is_next = |letters: &str| {
                        letters.chars().any(|next| self.is_at(next.encode_utf8(&mut [0; 4])))
                    };
                    is_computed |= letter == '[' || (letter == ':' && !is_next("-=?+"));
                    if is_computed {
                        self.script.arithmetic.push(letter);
                    }
                }
                Symbol::Place(number) => self.place(number, Writing::Literal, None),
            }
        }
        self.is_unclear = true;
    }
}
