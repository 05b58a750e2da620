//! Here-documents of a line for `sh`.

use super::shell::{Reader, Symbol};
use super::{Misplaced, Writing};

/// A document behind `<<`, until a line with its word.
pub struct Document {
    word: String,
    strips_tabs: bool,
}

impl Reader<'_> {
    /// The word of a document, behind `<<`.
    pub fn document(&mut self) {
        let strips_tabs = self.takes('-');
        while self.takes(' ') || self.takes('\t') {}
        let (mut word, mut quote) = (String::new(), None);
        while let Some(Symbol::Letter(letter)) = self.peek() {
            let ends = letter == '\n' || " \t;&|()<>".contains(letter) && quote.is_none();
            if ends {
                break;
            }
            self.at += 1;
            match (quote, letter) {
                (Some(open), letter) if letter == open => quote = None,
                (None, '\'' | '"') => quote = Some(letter),
                (None, '\\') => {}
                _ => word.push(letter),
            }
        }
        if let Some(Symbol::Place(number)) = self.peek() {
            self.at += 1;
            self.is_unclear = true;
            self.place(number, Writing::Literal, Some(Misplaced::Document));
        }
        self.documents.push(Document { word, strips_tabs });
    }

    /// Reads the documents that the line before has announced.
    pub fn documents(&mut self) {
        for document in std::mem::take(&mut self.documents) {
            let mut text = String::new();
            while self.at < self.symbols.len() {
                let rest = &self.symbols[self.at..];
                let end = rest.iter().position(|symbol| *symbol == Symbol::Letter('\n'));
                let line = rest[..end.unwrap_or(rest.len())].to_vec();
                self.at += line.len() + usize::from(end.is_some());
                if document.ends_at(&line) {
                    break;
                }
                for symbol in line {
                    match symbol {
                        Symbol::Place(number) => {
                            self.place(number, Writing::Literal, Some(Misplaced::Document));
                        }
                        // The shell may compute in it.
                        Symbol::Letter(letter) => text.push(letter),
                    }
                }
                text.push('\n');
            }
            if text.contains("$((") || text.contains("$[") {
                self.script.arithmetic.push_str(&text);
            }
        }
    }
}

impl Document {
    fn ends_at(&self, line: &[Symbol]) -> bool {
        let letters = line.iter().map(Symbol::letter);
        let is_tab = |letter: &Option<char>| self.strips_tabs && *letter == Some('\t');
        letters.skip_while(is_tab).eq(self.word.chars().map(Some))
    }
}
