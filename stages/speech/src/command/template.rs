//! Command lines with placeholders: `say {text} -o {out.audio}`.
//!
//! A value is always one word for the shell, whatever it contains.

use std::collections::BTreeMap;

use stage_core::line::{Piece, pieces};

/// The reason why a command line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("`{{{name}}}` is not a field; known names: {known}; write `{{{{` for a plain brace")]
    Unknown { name: String, known: String },
    #[error("a brace is not closed in `{command}`")]
    Unclosed { command: String },
    #[error("the value of `{{{name}}}` contains a NUL character, which a command line cannot have")]
    Nul { name: String },
}

/// Fills in the values, each quoted for the shell.
pub fn fill(command: &str, values: &BTreeMap<String, String>) -> Result<String, TemplateError> {
    let unclosed = |_| TemplateError::Unclosed { command: command.to_owned() };
    let mut filled = String::with_capacity(command.len());
    for piece in pieces(command).map_err(unclosed)? {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Place(name) => filled.push_str(&quoted(name, values)?),
        }
    }
    Ok(filled)
}

fn quoted(name: &str, values: &BTreeMap<String, String>) -> Result<String, TemplateError> {
    let unknown = || TemplateError::Unknown {
        name: name.to_owned(),
        known: values.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
    };
    let value = values.get(name).ok_or_else(unknown)?;
    match shlex::try_quote(value) {
        Ok(quoted) => Ok(quoted.into_owned()),
        Err(_) => Err(TemplateError::Nul { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn values_are_single_words_and_other_braces_stay() {
        let values = values(&[("text", "a; rm -rf \"$HOME\"'s"), ("out.audio", "out/audio")]);
        let line = "say {text} > {out.audio}; echo ${X} | awk '{{print}}'";
        let words = shlex::split(&fill(line, &values).unwrap()).unwrap();
        let text = "a; rm -rf \"$HOME\"'s";
        let expected = ["say", text, ">", "out/audio;", "echo", "${X}", "|", "awk", "{print}"];
        assert_eq!(words, expected);
    }

    #[test]
    fn unknown_and_unclosed_places_are_errors() {
        let values = values(&[("text", "x")]);
        assert_eq!(
            fill("say {texts}", &values).unwrap_err().to_string(),
            "`{texts}` is not a field; known names: `text`; write `{{` for a plain brace"
        );
        assert!(matches!(fill("say {text", &values), Err(TemplateError::Unclosed { .. })));
    }

    proptest! {
        #[test]
        fn a_value_never_leaves_its_word(value in "[^\0]{0,20}") {
            let filled = fill("printf {v}", &values(&[("v", &value)])).unwrap();
            let words = shlex::split(&filled).unwrap();
            prop_assert_eq!(words, ["printf".to_owned(), value]);
        }

        #[test]
        fn any_command_is_filled_or_refused(command in "[a-z{}$ .]{0,30}") {
            let _ = fill(&command, &BTreeMap::new());
        }
    }
}
