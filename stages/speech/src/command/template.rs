//! Command lines with placeholders: `say {text} -o {out.audio}`.
//!
//! A value never becomes text of the program. It is an argument of the shell, which a fixed text
//! assigns to a variable, or a word of a program without a shell. The variables are not exported:
//! programs see the declared environment only.

use std::collections::BTreeMap;

use crate::command::line::{Misplaced, Piece, Shell, Writing, pieces};

/// The reason why a command line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("`{{{name}}}` is not a field; known names: {known}; write `{{{{` for a plain brace")]
    Unknown { name: String, known: String },
    #[error("a brace is not closed in `{command}`")]
    Unclosed { command: String },
    #[error("`{{{name}}}` in `command` {}; {}", place.place(), place.help(name))]
    Misplaced { name: String, place: Misplaced },
    #[error(
        "`{{{name}}}` is `{value}`, which has characters with a meaning for the shell, and its \
         placeholder is in quotes or in text of a program: leave out the quotes"
    )]
    NotPlain { name: String, value: String },
    #[error("the value of `{{{name}}}` contains a NUL character, which a command line cannot have")]
    Nul { name: String },
    #[error(
        "the value of `{{{name}}}` has {bytes} bytes, more than the {MAX_VALUE_BYTES} that the \
         system passes to a program"
    )]
    TooLong { name: String, bytes: usize },
}

/// The longest argument of a program on Linux, without the NUL at its end.
const MAX_VALUE_BYTES: usize = (128 << 10) - 1;
/// The start of the names of variables.
const PREFIX: &str = "throstle_";
/// The name of the shell in its messages.
pub const SHELL: &str = "/bin/sh";

/// A line as it is written in the manifest.
#[derive(Debug, Clone, Default)]
pub struct Template {
    parts: Vec<TemplatePart>,
    /// Its words, if a shell would only split it.
    words: Option<Vec<Vec<TemplatePart>>>,
    /// The names of values and of their variables.
    variables: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
enum TemplatePart {
    Text(String),
    Value {
        /// The place in the variables.
        number: usize,
        writing: Writing,
    },
}

/// A line with its values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandLine {
    /// The program for the shell.
    text: String,
    /// The variables in it, with their values.
    variables: Vec<(String, String)>,
    /// The words, if a shell would only split it.
    words: Option<Vec<String>>,
}

impl Template {
    /// `is_own` is true for paths of the stage, which can be where fields cannot.
    pub fn parse(command: &str, is_own: impl Fn(&str) -> bool) -> Result<Template, TemplateError> {
        let unclosed = |_| TemplateError::Unclosed { command: command.to_owned() };
        let mut places = Shell::read(command).map_err(unclosed)?.places.into_iter();
        let mut template = Template::default();
        for piece in pieces(command).map_err(unclosed)? {
            let name = match piece {
                Piece::Text(text) => {
                    template.parts.push(TemplatePart::Text(text.to_owned()));
                    continue;
                }
                Piece::Place(name) => name,
            };
            let (writing, fault) = places
                .next()
                .map_or((Writing::Literal, None), |place| (place.writing, place.fault));
            if let Some(place) = fault.filter(|_| !is_own(name)) {
                return Err(TemplateError::Misplaced { name: name.to_owned(), place });
            }
            let number = template.variable(name, command);
            template.parts.push(TemplatePart::Value { number, writing });
        }
        template.words = words(&template.parts);
        Ok(template)
    }

    fn variable(&mut self, name: &str, command: &str) -> usize {
        if let Some(number) = self.variables.iter().position(|(own, _)| own == name) {
            return number;
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let plain = name.replace(|letter| !is_plain(letter), "_");
        let mut variable = format!("{PREFIX}{plain}");
        let is_taken = |variable: &String| {
            command.contains(variable) || self.variables.iter().any(|(_, own)| own == variable)
        };
        while is_taken(&variable) {
            variable.push('_');
        }
        self.variables.push((name.to_owned(), variable));
        self.variables.len() - 1
    }

    /// The line with these values.
    pub fn fill(&self, values: &BTreeMap<String, String>) -> Result<CommandLine, TemplateError> {
        let value = |(name, variable): &(String, String)| {
            Ok((variable.clone(), value(name, values)?.to_owned()))
        };
        let variables: Vec<(String, String)> =
            self.variables.iter().map(value).collect::<Result<_, _>>()?;
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(part) => text.push_str(part),
                TemplatePart::Value { number, writing } => {
                    let (variable, value) = &variables[*number];
                    match writing {
                        Writing::Word => text.push_str(&format!("\"${{{variable}}}\"")),
                        Writing::DoubleQuotes => text.push_str(&format!("${{{variable}}}")),
                        Writing::Literal if is_plain(value) => text.push_str(value),
                        Writing::Literal => {
                            let name = self.variables[*number].0.clone();
                            return Err(TemplateError::NotPlain { name, value: value.clone() });
                        }
                    }
                }
            }
        }
        let word = |parts: &Vec<TemplatePart>| -> String {
            let part = |part: &TemplatePart| match part {
                TemplatePart::Text(text) => text.clone(),
                TemplatePart::Value { number, .. } => variables[*number].1.clone(),
            };
            parts.iter().map(part).collect()
        };
        let words = self.words.as_ref().map(|words| words.iter().map(word).collect());
        Ok(CommandLine { text, variables, words })
    }
}

fn value<'a>(
    name: &str,
    values: &'a BTreeMap<String, String>,
) -> Result<&'a String, TemplateError> {
    let unknown = || TemplateError::Unknown {
        name: name.to_owned(),
        known: values.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
    };
    let value = values.get(name).ok_or_else(unknown)?;
    match value.len() {
        _ if value.contains('\0') => Err(TemplateError::Nul { name: name.to_owned() }),
        bytes if bytes > MAX_VALUE_BYTES => {
            Err(TemplateError::TooLong { name: name.to_owned(), bytes })
        }
        _ => Ok(value),
    }
}

/// True if no character has a meaning for a shell, in quotes or without.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|letter| letter.is_alphanumeric() || "-_./+:,@%".contains(letter))
}

/// The words of a line in which quotes and blanks alone have a meaning; None for any other.
fn words(parts: &[TemplatePart]) -> Option<Vec<Vec<TemplatePart>>> {
    let mut words = Vec::new();
    let (mut word, mut quote): (Option<Vec<TemplatePart>>, Option<char>) = (None, None);
    for part in parts {
        let TemplatePart::Text(text) = part else {
            word.get_or_insert_default().push(part.clone());
            continue;
        };
        for letter in text.chars() {
            match (quote, letter) {
                (Some(open), letter) if letter == open => quote = None,
                (Some('"'), '$' | '`' | '\\') => return None,
                (None, ' ' | '\t') => words.extend(word.take()),
                (None, '\'' | '"') => {
                    word.get_or_insert_default();
                    quote = Some(letter);
                }
                (None, letter)
                    if !letter.is_ascii_alphanumeric() && !"-_./+=:,@%".contains(letter) =>
                {
                    return None;
                }
                _ => match word.get_or_insert_default() {
                    word if matches!(word.last(), Some(TemplatePart::Text(_))) => {
                        if let Some(TemplatePart::Text(last)) = word.last_mut() {
                            last.push(letter);
                        }
                    }
                    word => word.push(TemplatePart::Text(letter.into())),
                },
            }
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

impl CommandLine {
    /// A line without placeholders, in which braces are plain.
    pub fn plain(text: &str) -> CommandLine {
        let parts = [TemplatePart::Text(text.to_owned())];
        let known = |words: Vec<Vec<TemplatePart>>| words.into_iter().map(known).collect();
        CommandLine {
            text: text.to_owned(),
            variables: Vec::new(),
            words: words(&parts).map(known),
        }
    }

    /// A line that a value is assigned for.
    pub fn with(text: &str, variable: &str, value: &str) -> CommandLine {
        let variables = vec![(variable.to_owned(), value.to_owned())];
        CommandLine { text: text.to_owned(), variables, words: None }
    }

    /// The words, if a shell would only split it.
    pub fn words(&self) -> Option<&[String]> {
        self.words.as_deref()
    }

    /// The arguments of a shell that runs it.
    pub fn arguments(&self) -> Vec<String> {
        let mut program = String::new();
        for (number, (variable, _)) in self.variables.iter().enumerate() {
            program.push_str(&format!("{variable}=${{{}}} ", number + 1));
        }
        if !program.is_empty() {
            program = format!("{}; shift {}; ", program.trim_end(), self.variables.len());
        }
        program.push_str(&self.text);
        let values = self.variables.iter().map(|(_, value)| value.clone());
        ["-c".to_owned(), program, SHELL.to_owned()].into_iter().chain(values).collect()
    }

    /// The same as a file for a shell.
    pub fn script(&self) -> String {
        let quoted = |value: &String| format!("'{}'", value.replace('\'', r"'\''"));
        let variables = self.variables.iter();
        let lines: String =
            variables.map(|(name, value)| format!("{name}={}\n", quoted(value))).collect();
        format!("{lines}{}\n", self.text)
    }

    /// Its first word, for messages.
    pub fn first(&self) -> String {
        if let Some(first) = self.words().and_then(<[String]>::first) {
            return first.clone();
        }
        let mut first = self.text.split_whitespace().next().unwrap_or_default().to_owned();
        for (variable, value) in &self.variables {
            first = first.replace(&format!("\"${{{variable}}}\""), value);
        }
        first
    }
}

fn known(parts: Vec<TemplatePart>) -> String {
    let text = |part| match part {
        TemplatePart::Text(text) => text,
        TemplatePart::Value { .. } => String::new(),
    };
    parts.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests;
