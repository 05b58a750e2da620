//! Lines that need no shell.
//!
//! A shell costs as much as a small program itself. A line that it would only split into words
//! (`template`) is run without one, unless its first word belongs to the shell.
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

/// The file of the program, if its line needs no shell.
pub fn file(words: &[String], environment: &BTreeMap<String, String>) -> Option<String> {
    let name = words.first()?;
    if name.contains('=') || OF_THE_SHELL.contains(&name.as_str()) {
        return None;
    }
    find(name, environment)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use super::*;

    fn path(path: &str) -> BTreeMap<String, String> {
        [("PATH".to_owned(), path.to_owned())].into()
    }

    #[test]
    fn words_of_the_shell_are_no_programs() {
        let file = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            file(&words, &path("/nowhere:/usr/bin:/bin"))
        };
        assert!(file("cat -u").is_some_and(|file| file.ends_with("/cat")));
        for line in
            ["echo a", "exec cat", "if cat", "A=1 cat", "./cat", "a/cat", "no-such-program-at-all"]
        {
            assert_eq!(file(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_is_found_where_the_shell_finds_it() {
        assert_eq!(find("sh", &path("/nowhere:/bin")).unwrap(), "/bin/sh");
        assert_eq!(find("/bin/sh", &path("")).unwrap(), "/bin/sh");
        // The first folder is the one in which the command runs.
        assert_eq!(find("sh", &path(":/bin")), None);
        assert_eq!(find("sh", &path("bin:/bin")), None);
        assert_eq!(find("sh", &BTreeMap::new()), None);
        // Neither a folder nor a file that cannot be run is a program.
        assert_eq!(find("bin", &path("/usr")), None);
        assert_eq!(find("passwd", &path("/etc:/nowhere")), None);
    }
}
