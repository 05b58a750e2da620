//! Variables of a line that have a value as their content.

use std::collections::{BTreeMap, BTreeSet};

use super::command::{SimpleCommand, Word};

/// Stands for all positional parameters: the arguments of a function or of `set`.
const ARGUMENT: &str = "1";

/// Variables, with the numbers of the values in their content.
pub type Tainted = BTreeMap<String, BTreeSet<usize>>;

/// The variables that have a value as their content.
pub fn tainted(commands: &[SimpleCommand], functions: &[String]) -> Tainted {
    let mut tainted = Tainted::new();
    let mut taint = |variable: &str, values: Vec<usize>| {
        tainted.entry(variable.to_owned()).or_default().extend(values);
    };
    let piped = commands.iter().filter(|command| command.is_piped);
    let piped: Vec<usize> = piped.flat_map(SimpleCommand::printed).collect();
    for command in commands {
        for word in command.words.iter().filter(|word| word.has_values()) {
            if let Some(variable) = &word.variable {
                taint(variable, word.values().collect());
            }
        }
        let values = || command.words.iter().flat_map(Word::values).collect();
        let texts: Vec<_> = command.words.iter().map(|word| word.text.as_deref()).collect();
        match texts[..] {
            [Some("for" | "select"), Some(variable), ..] if command.is_of_keyword => {
                taint(variable, values());
            }
            [Some("read" | "mapfile" | "readarray"), ref variables @ ..] => {
                variables.iter().flatten().for_each(|variable| taint(variable, piped.clone()));
            }
            [Some(name), ..] if name == "set" || functions.iter().any(|own| own == name) => {
                taint(ARGUMENT, values());
            }
            _ => {}
        }
    }
    while copy(commands, &mut tainted) {}
    tainted
}

/// Adds the values that `b=$a` copies. Returns false if none of them is new.
fn copy(commands: &[SimpleCommand], tainted: &mut Tainted) -> bool {
    let mut copies = Vec::new();
    for word in commands.iter().flat_map(|command| &command.words) {
        // The output of a command is another value.
        let Some(copy) = word.variable.as_ref().filter(|_| !word.source.contains("$(")) else {
            continue;
        };
        let copied = tainted.iter().filter(|(variable, _)| refers_to(&word.source, variable));
        copies.push((copy, copied.flat_map(|(_, values)| values).copied().collect::<Vec<_>>()));
    }
    let mut has_grown = false;
    for (copy, values) in copies.into_iter().filter(|(_, values)| !values.is_empty()) {
        let known = tainted.entry(copy.clone()).or_default();
        for value in values {
            has_grown |= known.insert(value);
        }
    }
    has_grown
}

pub fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|name| *name != ARGUMENT)
}

/// True for a text with `$NAME` or `${NAME`.
pub fn refers_to(text: &str, variable: &str) -> bool {
    let mut references = text.split('$').skip(1).map(|rest| rest.trim_start_matches('{'));
    references.any(|rest| match variable {
        ARGUMENT => {
            rest.starts_with(|letter: char| letter.is_ascii_digit() || "@*".contains(letter))
        }
        _ => names(rest).next() == Some(variable),
    })
}
