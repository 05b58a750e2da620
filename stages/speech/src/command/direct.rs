//! Lines that need no shell.
//!
//! A shell costs as much as a small program itself. A line that it would only split into words is
//! run without one; anything else, and any doubt, is left to the shell.
#![allow(clippy::disallowed_methods)] // programs lie outside the cache

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Words that the shell itself knows, also where there are programs of these names: they differ
/// from the programs, or do nothing in a process of their own.
const OF_THE_SHELL: &[&str] = &[
    ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "coproc", "do", "done",
    "echo", "elif", "else", "esac", "eval", "exec", "exit", "export", "false", "fc", "fg", "fi",
    "for", "function", "getopts", "hash", "if", "in", "jobs", "kill", "newgrp", "printf", "pwd",
    "read", "readonly", "return", "select", "set", "shift", "source", "test", "then", "time",
    "times", "trap", "true", "type", "ulimit", "umask", "unalias", "unset", "until", "wait",
    "while",
];

/// A program without the shell.
#[derive(Debug, PartialEq)]
pub struct Direct {
    /// Where it is.
    pub file: String,
    /// Its name in the line, and its arguments.
    pub words: Vec<String>,
}

impl Direct {
    /// None for a line that needs a shell, and for a program that is not found.
    pub fn of(line: &str, environment: &BTreeMap<String, String>) -> Option<Direct> {
        let words = words(line)?;
        let name = words.first()?;
        if name.contains('=') || OF_THE_SHELL.contains(&name.as_str()) {
            return None;
        }
        let file = find(name, environment)?;
        Some(Direct { file, words })
    }
}

/// The file of a program that is named by a whole path, or by a name on the search path.
pub fn find(name: &str, environment: &BTreeMap<String, String>) -> Option<String> {
    if name.starts_with('/') {
        return is_program(name).then(|| name.to_owned());
    }
    if name.contains('/') {
        return None;
    }
    let folders = environment.get("PATH")?.split(':');
    // A relative folder leads somewhere else from the folder of the command.
    let files = folders.take_while(|folder| folder.starts_with('/'));
    files.map(|folder| format!("{folder}/{name}")).find(|file| is_program(file))
}

fn is_program(file: &str) -> bool {
    const ANYBODY_RUNS: u32 = 0o111;
    let program = fs::metadata(file);
    program.is_ok_and(|it| it.is_file() && it.permissions().mode() & ANYBODY_RUNS != 0)
}

/// The words of a line in which quotes and blanks alone have a meaning; None for any other.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let (quoted, behind) = rest.as_str().split_once(character)?;
                if character == '"' && quoted.contains(['$', '`', '\\']) {
                    return None;
                }
                word.get_or_insert_default().push_str(quoted);
                rest = behind.chars();
            }
            plain if plain.is_ascii_alphanumeric() || "-_./+=:,@%".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn path(path: &str) -> BTreeMap<String, String> {
        [("PATH".to_owned(), path.to_owned())].into()
    }

    /// The words that the shell passes to a program.
    fn by_the_shell(line: &str) -> Vec<String> {
        let output =
            Command::new("/bin/sh").args(["-c", &format!("printf '%s\\0' {line}")]).output();
        let said = String::from_utf8(output.unwrap().stdout).unwrap();
        said.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn a_line_of_words_needs_no_shell_and_any_other_does() {
        let direct = |line| Direct::of(line, &path("/nowhere:/usr/bin:/bin")).map(|it| it.words);
        assert_eq!(direct("cat -u 'a b' \"it's\"x").unwrap(), ["cat", "-u", "a b", "it'sx"]);
        for line in [
            "cat a > b",
            "cat $A",
            "cat *.wav",
            "cat a | cat",
            "cat a && cat b",
            "A=1 cat",
            "cat \"$A\"",
            "cat a\ncat b",
            "echo a",
            "exec cat",
            "if cat; then cat; fi",
            "~/cat",
            "./cat",
            "a/cat",
            "cat {a,b}",
            "cat #a",
            "cat a\\ b",
            "no-such-program-at-all",
            "",
            "cat 'a",
            "cat `a`",
            "cat &",
        ] {
            assert_eq!(direct(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_is_found_where_the_shell_finds_it() {
        let found = Direct::of("sh x", &path("/nowhere:/bin")).unwrap();
        assert_eq!((found.file.as_str(), found.words[0].as_str()), ("/bin/sh", "sh"));
        assert_eq!(Direct::of("/bin/sh x", &path("")).unwrap().file, "/bin/sh");
        // The first folder is the one in which the command runs.
        assert_eq!(find("sh", &path(":/bin")), None);
        assert_eq!(find("sh", &path("bin:/bin")), None);
        assert_eq!(find("sh", &BTreeMap::new()), None);
        // Neither a folder nor a file that cannot be run is a program.
        assert_eq!(find("bin", &path("/usr")), None);
        assert_eq!(find("passwd", &path("/etc:/nowhere")), None);
    }

    proptest! {
        #[test]
        fn values_reach_a_program_as_they_do_through_the_shell(values in prop::collection::vec("[^\0]{0,12}", 1..4)) {
            let quoted: Vec<_> = values.iter().map(|value| shlex::try_quote(value).unwrap()).collect();
            let line = quoted.join(" ");
            if let Some(words) = words(&line) {
                prop_assert_eq!(&words, &values);
                prop_assert_eq!(words, by_the_shell(&line));
            }
        }

        #[test]
        fn any_line_that_is_taken_has_the_words_of_the_shell(line in "[-a-z'\"$*=~!#{}<> \t.\\\\]{0,12}") {
            if let Some(words) = words(&line) && !words.is_empty() {
                prop_assert_eq!(words, by_the_shell(&line));
            }
        }
    }
}
