//! The structure of a line for `sh`: placeholders in quotes, and programs on the left of a pipe.
//!
//! This reads as much of the language as these two need: quotes, substitutions, here-documents,
//! `case` and comments. Where shells differ, or where constructs are nested too deeply, nothing is
//! reported.

use super::prefix::{Prefix, Role};
use super::{Piece, Unclosed, pieces};

/// Facts about a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shell<'a> {
    /// The placeholders inside quotes or here-documents of the line. A value is quoted already:
    /// there its quotes would end the outer ones, and the shell would run its text.
    pub quoted: Vec<&'a str>,
    /// The programs at the start of the line, unless the line says with `||` what happens if they
    /// fail: several for `nice foo`.
    pub first: Vec<String>,
    /// The programs on the left of a pipe, as far as they are known: a pipeline ends with the status
    /// of its last program, so the shell does not report that one of these is missing. A path that
    /// is relative to the folder of the command is known only where no command ran before.
    pub piped: Vec<String>,
}

/// The nesting depth from which a line is not read.
const MAX_DEPTH: usize = 64;

/// Words that are followed by a command.
const BEFORE_A_COMMAND: &[&str] =
    &["if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"];
/// Words that are followed by anything else.
const OTHER_KEYWORDS: &[&str] = &["for", "select", "function", "done", "fi", "}"];
/// Commands that look for programs, or change the place where they are found.
const LOOKING: &[&str] = &["command", "which", "type", "hash", "alias", "eval", ".", "source"];

impl<'a> Shell<'a> {
    /// # Errors
    ///
    /// A brace that is not closed.
    pub fn read(line: &'a str) -> Result<Shell<'a>, Unclosed> {
        let mut symbols = Vec::new();
        for piece in pieces(line)? {
            match piece {
                Piece::Text(text) => symbols.extend(text.chars().map(Symbol::Letter)),
                Piece::Place(name) => symbols.push(Symbol::Place(name)),
            }
        }
        let mut reader = Reader { symbols, ..Reader::default() };
        reader.commands(None);
        if reader.is_odd {
            return Ok(Shell::default());
        }
        if reader.looks {
            return Ok(Shell { quoted: reader.quoted, ..Shell::default() });
        }
        let [first, piped] = [reader.first, reader.piped].map(|names| {
            let mut known = Vec::new();
            for name in names.into_iter().filter(|name| !reader.functions.contains(name)) {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
            known
        });
        Ok(Shell { quoted: reader.quoted, first, piped })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Symbol<'a> {
    Letter(char),
    Place(&'a str),
}

/// A document behind `<<`, until a line with its word.
struct Document {
    word: String,
    strips_tabs: bool,
}

/// Where a `case` is.
#[derive(PartialEq)]
enum Case {
    BeforeIn,
    Pattern,
    Body,
}

/// The state of one list of commands.
struct List {
    /// The character that ends it.
    end: Option<char>,
    cases: Vec<Case>,
    /// True where the next word is a command.
    expects_command: bool,
    /// True where the next word is the file of a redirection.
    expects_file: bool,
    /// The last command as far as it is known, with the programs that run it.
    command: Vec<String>,
    /// The last program of these runs another one.
    prefix: Option<Prefix>,
}

impl List {
    fn begin(&mut self) {
        (self.expects_command, self.expects_file) = (true, false);
        (self.command, self.prefix) = (Vec::new(), None);
    }
}

/// A word.
struct Word {
    /// Its text without quotes, unless only the shell knows it.
    text: Option<String>,
    /// True if nothing of it is in quotes.
    is_plain: bool,
    /// The variable that it sets.
    variable: Option<String>,
}

#[derive(Default)]
struct Reader<'a> {
    symbols: Vec<Symbol<'a>>,
    at: usize,
    depth: usize,
    documents: Vec<Document>,
    quoted: Vec<&'a str>,
    first: Vec<String>,
    piped: Vec<String>,
    functions: Vec<String>,
    /// A word has come that ends the first command.
    is_behind_first: bool,
    /// The first command, and those that `&&` and `||` connect with it, are over.
    is_behind_first_list: bool,
    /// A command may have run before this place.
    is_behind_command: bool,
    looks: bool,
    is_odd: bool,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<Symbol<'a>> {
        self.symbols.get(self.at).copied()
    }

    fn takes(&mut self, letter: char) -> bool {
        let is_next = self.peek() == Some(Symbol::Letter(letter));
        self.at += usize::from(is_next);
        is_next
    }

    /// Reads one construct inside another.
    fn nested(&mut self, read: impl FnOnce(&mut Self)) {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => (self.is_odd, self.at) = (true, self.symbols.len()),
            false => read(self),
        }
        self.depth -= 1;
    }

    /// Reads commands up to a character, or to the end of the line.
    fn commands(&mut self, end: Option<char>) {
        let mut list = List {
            end,
            cases: Vec::new(),
            expects_command: true,
            expects_file: false,
            command: Vec::new(),
            prefix: None,
        };
        while let Some(symbol) = self.peek() {
            let Symbol::Letter(letter) = symbol else {
                self.word(&mut list);
                continue;
            };
            let is_pattern = list.cases.last() == Some(&Case::Pattern);
            match letter {
                '`' if list.end == Some('`') => {
                    self.at += 1;
                    return;
                }
                ')' if list.end == Some(')') && !is_pattern => {
                    self.at += 1;
                    return;
                }
                '\n' => {
                    self.at += 1;
                    self.documents();
                    if !list.expects_command {
                        self.end_list();
                    }
                    list.begin();
                }
                ' ' | '\t' | '\r' => self.at += 1,
                '#' => self.comment(),
                ';' | '&' | '|' | '(' | ')' | '<' | '>' => self.operator(&mut list, is_pattern),
                _ => self.word(&mut list),
            }
        }
    }

    /// The line break behind a comment is left: documents begin there.
    fn comment(&mut self) {
        while self.peek().is_some_and(|symbol| symbol != Symbol::Letter('\n')) {
            self.at += 1;
        }
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
                list.begin();
            }
            '|' if is_pattern => {}
            '|' => {
                match self.takes('|') {
                    true => {
                        self.is_behind_command = true;
                        if self.depth == 0 && !self.is_behind_first_list {
                            self.first.clear();
                        }
                    }
                    false => self.piped.append(&mut list.command),
                }
                self.takes('&');
                list.begin();
            }
            '&' => {
                match self.takes('&') {
                    true => self.is_behind_command = true,
                    false => self.end_list(),
                }
                list.begin();
            }
            '(' if is_pattern => {}
            '(' => self.parenthesis(list),
            ')' => {
                if let Some(case) = list.cases.last_mut().filter(|_| is_pattern) {
                    *case = Case::Body;
                    list.begin();
                }
            }
            '<' if self.takes('<') => match self.takes('<') {
                true => list.expects_file = true,
                false => self.document(),
            },
            _ => {
                let _ = self.takes(letter) || self.takes('|') || self.takes('&') || self.takes('>');
                list.expects_file = true;
            }
        }
    }

    /// A function behind its name, or a shell of its own.
    fn parenthesis(&mut self, list: &mut List) {
        if let Some(name) = list.command.pop()
            && self.takes(')')
        {
            self.functions.push(name);
            self.is_behind_command = true;
            list.begin();
            return;
        }
        self.nested(|reader| reader.commands(Some(')')));
        (list.expects_command, list.expects_file) = (false, false);
    }

    fn word(&mut self, list: &mut List) {
        let word = self.read_word(list.end);
        let plain = word.text.as_deref().filter(|_| word.is_plain);
        if std::mem::take(&mut list.expects_file) {
            return;
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
                    list.expects_command = false;
                }
                return;
            }
            Some(Case::Body) | None => {}
        }
        if !list.expects_command {
            return self.argument(list, word);
        }
        if let Some(variable) = word.variable {
            self.looks |= variable == "PATH";
            return;
        }
        list.expects_command = false;
        match plain {
            Some(keyword) if BEFORE_A_COMMAND.contains(&keyword) => {
                // The next command may fail, except after `time`.
                self.is_behind_first |= self.depth == 0 && keyword != "time";
                list.expects_command = true;
            }
            Some("case") => list.cases.push(Case::BeforeIn),
            Some("esac") => drop(list.cases.pop()),
            Some(keyword) if OTHER_KEYWORDS.contains(&keyword) => {}
            Some("export") => self.looks = true,
            Some(name) if LOOKING.contains(&name) => self.looks = true,
            _ => self.program(list, word.text),
        }
    }

    /// A word behind a command.
    fn argument(&mut self, list: &mut List, word: Word) {
        let Some(prefix) = &mut list.prefix else { return };
        match prefix.role(word.text.as_deref(), word.variable.is_some()) {
            Role::Argument => {}
            Role::Variable => self.looks |= word.variable.as_deref() == Some("PATH"),
            Role::Program => self.program(list, word.text),
            Role::Unknown => list.prefix = None,
        }
    }

    fn program(&mut self, list: &mut List, name: Option<String>) {
        let is_known =
            |name: &String| is_name(name) && (is_anywhere(name) || !self.is_behind_command);
        list.prefix = None;
        let Some(name) = name.filter(is_known) else { return };
        list.prefix = Prefix::of(&name);
        if self.depth == 0 && !self.is_behind_first {
            self.first.push(name.clone());
        }
        list.command.push(name);
    }

    /// Reads a word up to a blank or an operator.
    fn read_word(&mut self, end: Option<char>) -> Word {
        let mut text = String::new();
        let (mut is_plain, mut is_known, mut variable) = (true, true, None);
        while let Some(symbol) = self.peek() {
            match symbol {
                Symbol::Letter(
                    ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>',
                ) => {
                    break;
                }
                Symbol::Letter('`') if end == Some('`') => break,
                Symbol::Place(_) => {
                    self.at += 1;
                    (is_plain, is_known) = (false, false);
                }
                Symbol::Letter(letter @ ('\'' | '"' | '`' | '$' | '\\')) => {
                    self.at += 1;
                    is_plain = false;
                    match self.special(letter) {
                        Some(inner) => text.push_str(&inner),
                        None => is_known = false,
                    }
                }
                Symbol::Letter(letter) => {
                    self.at += 1;
                    if letter == '=' && is_plain && variable.is_none() && is_variable(&text) {
                        variable = Some(text.clone());
                    }
                    text.push(letter);
                }
            }
        }
        // `2>` is a redirection.
        let is_number = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
        let is_redirected = matches!(self.peek(), Some(Symbol::Letter('<' | '>')));
        let is_known = is_known && !(is_plain && is_number && is_redirected);
        Word { text: is_known.then_some(text), is_plain, variable }
    }

    /// A construct that begins with a character that keeps its meaning inside a word. Returns its
    /// text, unless only the shell knows it.
    fn special(&mut self, letter: char) -> Option<String> {
        match letter {
            '\'' => self.single(),
            '"' => {
                let mut text = None;
                self.nested(|reader| text = reader.double());
                text
            }
            '`' => {
                self.nested(|reader| reader.commands(Some('`')));
                None
            }
            '$' => {
                self.dollar();
                None
            }
            // The next character stands for itself.
            _ => {
                let symbol = self.peek();
                self.at += 1;
                match symbol {
                    Some(Symbol::Letter('\n')) => Some(String::new()),
                    Some(Symbol::Letter(letter)) => Some(letter.into()),
                    _ => None,
                }
            }
        }
    }

    fn single(&mut self) -> Option<String> {
        let mut text = Some(String::new());
        while let Some(symbol) = self.peek() {
            self.at += 1;
            match symbol {
                Symbol::Letter('\'') => return text,
                Symbol::Letter(letter) => text.iter_mut().for_each(|text| text.push(letter)),
                Symbol::Place(name) => {
                    text = None;
                    self.quoted.push(name);
                }
            }
        }
        None
    }

    fn double(&mut self) -> Option<String> {
        let mut text = Some(String::new());
        while let Some(symbol) = self.peek() {
            self.at += 1;
            match symbol {
                Symbol::Letter('"') => return text,
                Symbol::Letter(letter @ ('`' | '$' | '\\')) => {
                    let inner = self.special(letter);
                    text = text.zip(inner).map(|(text, inner)| text + &inner);
                }
                Symbol::Letter(letter) => text.iter_mut().for_each(|text| text.push(letter)),
                Symbol::Place(name) => {
                    text = None;
                    self.quoted.push(name);
                }
            }
        }
        None
    }

    fn dollar(&mut self) {
        if !self.takes('(') {
            return;
        }
        match self.takes('(') {
            true => self.nested(Self::arithmetic),
            false => self.nested(|reader| reader.commands(Some(')'))),
        }
    }

    /// `$((` up to `))`.
    fn arithmetic(&mut self) {
        let mut open = 2;
        while let Some(symbol) = self.peek() {
            self.at += 1;
            match symbol {
                Symbol::Letter('(') => open += 1,
                Symbol::Letter(')') => open -= 1,
                Symbol::Letter(letter @ ('`' | '$')) => drop(self.special(letter)),
                _ => {}
            }
            if open == 0 {
                return;
            }
        }
    }

    /// The word of a document, behind `<<`.
    fn document(&mut self) {
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
        self.documents.push(Document { word, strips_tabs });
    }

    /// Reads the documents that the line before has announced.
    fn documents(&mut self) {
        for document in std::mem::take(&mut self.documents) {
            // Substitutions in a document are commands again; they are not read.
            let mut has_commands = false;
            while self.at < self.symbols.len() {
                let rest = &self.symbols[self.at..];
                let end = rest.iter().position(|symbol| *symbol == Symbol::Letter('\n'));
                let line = &rest[..end.unwrap_or(rest.len())];
                self.at += line.len() + usize::from(end.is_some());
                if document.ends_at(line) {
                    break;
                }
                let is_command =
                    |pair: &[Symbol]| pair == [Symbol::Letter('$'), Symbol::Letter('(')];
                has_commands |= line.windows(2).any(is_command);
                has_commands |= line.contains(&Symbol::Letter('`'));
                let places = line.iter().filter_map(|symbol| match symbol {
                    Symbol::Place(name) if !has_commands => Some(*name),
                    _ => None,
                });
                self.quoted.extend(places);
            }
        }
    }
}

impl Document {
    fn ends_at(&self, line: &[Symbol<'_>]) -> bool {
        let letters = line.iter().map(|symbol| match symbol {
            Symbol::Letter(letter) => Some(*letter),
            Symbol::Place(_) => None,
        });
        let is_tab = |letter: &Option<char>| self.strips_tabs && *letter == Some('\t');
        letters.skip_while(is_tab).eq(self.word.chars().map(Some))
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

fn is_variable(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !text.is_empty() && text.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn quoted(line: &str) -> String {
        Shell::read(line).unwrap().quoted.join(" ")
    }

    fn piped(line: &str) -> String {
        Shell::read(line).unwrap().piped.join(" ")
    }

    #[test]
    fn a_place_in_quotes_of_the_line_is_found() {
        for line in [
            "say \"{text}\"",
            "say '{text}' {out}",
            "say \"it is {text}\"",
            "say \"$(cat '{text}')\" {out}",
            "say \"$(cat x) {text}\"",
            "say a#'{text}'",
            "say {out}#'{text}'",
            "say $(case x in a) echo '{text}';; esac)",
            "cat <<END\nit's {text}\nEND\nsay {out}",
            "cat <<'END' > x\n{text}\nEND",
            "cat <<-END\n\t{text}\n\tEND\nsay {out}",
        ] {
            assert_eq!(quoted(line), "text", "{line}");
        }
    }

    #[test]
    fn a_place_outside_of_quotes_is_not_taken_for_a_quoted_one() {
        for line in [
            "say {text} -o {out}",
            "say 'it is' {text}",
            "say \"$(cat {text})\" > {out}",
            "say \"`cat {text}`\" {out}",
            "awk '{{print}}' {text}",
            "say \\\"{text}\\\"",
            "say it\\'s {text}",
            "# don't\nsay {text}",
            "true;# don't\nsay {text}",
            "(say {text}) | sed \"s/a/b/\" > {out}",
            "sed \"s/'//\" {text}",
            "cat > x <<END\nit's\nEND\nsay {text}",
            "cat > x <<'E N'\"D\"; say {text}\nit's\nE ND\nsay {text}",
            "cat > x <<-END\n\tit's\n\tEND\nsay {text}",
            "cat > x <<A <<B\nit's\nA\n\"\nB\nsay {text}",
            "x=$(case a in a) echo it;; *) echo b;; esac) say {text}",
            "say \"$(case a in (a|b) echo it;; esac)\" {text}",
            "say \"$(case {text} in\na) echo\nesac\n)\" {text}",
            "say \"$(echo case)\" {text}",
            "say $((1 << 2)) {text}",
            "say $((1 << 2))\nsay it\\'s {text}",
            "cat <<< 'x' {text}",
            "cat <<END\n$(say {text})\nEND",
        ] {
            assert_eq!(quoted(line), "", "{line}");
        }
    }

    #[test]
    fn programs_before_a_bar_are_found() {
        for (line, names) in [
            ("foo | wc -l > {out}", "foo"),
            ("cat {text} | foo -x 2>&1 | wc", "cat foo"),
            ("A=1 foo | wc; /bin/bar 2>/dev/null | wc", "foo /bin/bar"),
            ("if true; then foo | wc; fi", "foo"),
            ("for x in a b; do foo \"$x\" | wc; done | sort", "foo"),
            ("x=$(foo | wc)", "foo"),
            ("(foo | wc) > {out}", "foo"),
            ("say \"`foo | wc`\"", "foo"),
            ("! foo |& wc", "foo"),
            ("foo \\\n | wc", "foo"),
            ("case {text} in a|b) foo | wc;; esac", "foo"),
            ("foo | foo | wc", "foo"),
            ("cat {text} | \"foo\" | 'b a r' | ba\\z | wc", "cat foo b a r baz"),
            ("cat {text} | ./foo | wc", "cat ./foo"),
            ("nice foo | wc", "nice foo"),
            ("nice -n 5 timeout -s KILL 5 /bin/foo -n | wc", "nice timeout /bin/foo"),
            ("env -u A B=c foo x | wc", "env foo"),
            (
                "timeout --signal=KILL 5 foo | nohup bar | stdbuf -oL baz | wc",
                "timeout foo nohup bar stdbuf baz",
            ),
            ("nice -- foo | wc; taskset 1 bar | wc", "nice foo taskset bar"),
        ] {
            assert_eq!(piped(line), names, "{line}");
        }
    }

    #[test]
    fn the_first_program_is_found_unless_another_one_stands_in_for_it() {
        for (line, names) in [
            ("espeak-ng -w {out.a}", "espeak-ng"),
            ("  LANG=fi X= /usr/bin/say {text}", "/usr/bin/say"),
            ("LANG='a b' say", "say"),
            ("cat {a} | no-such-thing", "cat"),
            ("./tool && wc", "./tool"),
            ("foo; bar || wc", "foo"),
            ("# a remark\n\nfoo \\\n -x\nbar", "foo"),
            ("time foo 2>&1 > {out}", "foo"),
            ("timeout 5 foo", "timeout foo"),
            ("foo || wc", ""),
            ("nice foo -x && bar || wc", ""),
            ("foo | cat || wc", ""),
            ("! foo", ""),
            ("if foo; then bar; fi", ""),
            ("(cd x; y)", ""),
            ("{script} --fast", ""),
            ("\"$TOOL\" x", ""),
            ("env \"$TOOL\" x", "env"),
            ("foo() {{ cat; }}; foo", ""),
            ("", ""),
        ] {
            assert_eq!(Shell::read(line).unwrap().first.join(" "), names, "{line}");
        }
    }

    #[test]
    fn words_that_are_no_programs_before_a_bar_are_left_out() {
        for line in [
            "foo || wc",
            "foo; wc",
            "foo >| wc",
            "say 'foo | wc' {text}",
            "case {text} in foo|b) wc;; esac",
            "foo() {{ cat; }}; foo | wc",
            "command -v foo > x && foo | wc || cat",
            "PATH=/opt:$PATH; foo | wc",
            "export PATH; foo | wc",
            ". ./env; foo | wc",
            "cd x; ./foo | wc",
            "cp x foo && ./foo | wc",
            "{script} | wc",
            "{base}/foo | wc",
            "\"$TOOL\" | wc",
            "while read x; do echo; done | wc",
            "# foo | wc",
            "cat <<END\nfoo | wc\nEND",
        ] {
            assert_eq!(piped(line), "", "{line}");
        }
    }

    #[test]
    fn a_line_of_a_million_parentheses_is_read() {
        let line = "(".repeat(1_000_000);
        assert_eq!(Shell::read(&line), Ok(Shell::default()));
        assert_eq!(quoted(&format!("{}'{{text}}'", "\"$(".repeat(200))), "");
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in "[a-z{}()'\"`$\\\\<>;&|#\n case in esac]{0,60}") {
            let _ = Shell::read(&line);
        }
    }
}
