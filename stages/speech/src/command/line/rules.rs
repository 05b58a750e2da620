//! Words of commands that are run, computed with, or taken for a name: a value cannot be there.

use super::command::{SimpleCommand, Word};
use super::prefix::{Prefix, Role};
use super::shell::Script;
use super::taint::{names, refers_to, tainted};
use super::{Misplaced, Place};

/// Commands of the shell that run their arguments.
const RUNNING: &[&str] = &["eval", "trap", "alias", "bind", "complete", "enable"];
/// Programs that give their arguments to a shell.
const REMOTE: &[&str] = &["ssh", "rsh", "su", "watch", "parallel"];
const SHELLS: &[&str] =
    &["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "yash", "fish", "csh", "tcsh", "rbash"];
/// Programs that run a file, or the text behind one of these options.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("python", &["c"]),
    ("pypy", &["c"]),
    ("perl", &["e", "E", "M", "m"]),
    ("ruby", &["e", "r"]),
    ("node", &["e", "p", "r", "-eval", "-print", "-require", "-import"]),
    ("lua", &["e", "l"]),
    ("php", &["r", "B", "R", "E"]),
    ("Rscript", &["e"]),
    ("R", &["e"]),
    ("julia", &["e", "E", "-eval"]),
    ("octave", &["-eval"]),
    ("tclsh", &[]),
];
/// Options of other programs that take a program to run.
const RUN_OPTIONS: &[(&str, &[&str])] = &[
    ("flock", &["c", "-command"]),
    ("make", &["-eval"]),
    ("rsync", &["e", "-rsh"]),
    ("runuser", &["c", "-command", "-session-command"]),
    ("script", &["c", "-command"]),
    ("sort", &["-compress-program"]),
    ("split", &["-filter"]),
    ("tar", &["I", "F", "-use-compress-program", "-to-command", "-checkpoint-action"]),
];
const AWKS: &[&str] = &["awk", "gawk", "mawk", "nawk"];
const SEDS: &[&str] = &["sed", "gsed"];
/// Programs that run a program in their arguments.
const RUNNERS: &[&str] = &[
    "builtin", "busybox", "chroot", "chrt", "command", "doas", "find", "flock", "prlimit",
    "setarch", "setpriv", "strace", "sudo", "unshare", "xargs",
];
/// Those with other operands before it.
const OPERANDS: &[&str] = &["chroot", "find", "flock"];
/// Commands that take names of variables.
const NAMING: &[&str] =
    &["read", "unset", "getopts", "mapfile", "readarray", "let", "declare", "typeset"];
/// Those that also take `NAME=VALUE`.
const DECLARING: &[&str] = &["export", "readonly", "local"];
/// Variables that programs obey.
const OBEYED: &[&str] = &[
    "PATH",
    "ENV",
    "BASH_ENV",
    "PS4",
    "IFS",
    "SHELL",
    "EDITOR",
    "PAGER",
    "PERL5OPT",
    "PERL5LIB",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "RUBYOPT",
    "GIT_SSH_COMMAND",
];
/// Operators of `[[` that compute, and of all tests that take a name.
const COMPUTING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

/// Marks the values that cannot be where they are.
pub fn apply(script: &mut Script<'_>) {
    let Script { commands, places, functions, arithmetic, .. } = script;
    let mut run = String::new();
    for (number, command) in commands.iter().enumerate() {
        let before = commands[..number].iter().rev().take_while(|before| before.is_piped);
        let input: Vec<usize> = before.flat_map(SimpleCommand::printed).collect();
        let mut rules = Rules { places: &mut *places, arithmetic: &mut *arithmetic, run: &mut run };
        rules.command(command, &input);
    }
    for (variable, values) in tainted(commands, functions) {
        if names(arithmetic).any(|name| name == variable) || refers_to(arithmetic, &variable) {
            refuse(places, values, Misplaced::Arithmetic);
        } else if refers_to(&run, &variable) {
            refuse(places, values, Misplaced::ProgramText);
        }
    }
}

fn refuse(places: &mut [Place], values: impl IntoIterator<Item = usize>, fault: Misplaced) {
    values.into_iter().for_each(|number| places[number].refuse(fault));
}

struct Rules<'a, 'b> {
    places: &'a mut [Place<'b>],
    arithmetic: &'a mut String,
    /// All text that is run.
    run: &'a mut String,
}

impl Rules<'_, '_> {
    fn refuse(&mut self, word: &Word, fault: Misplaced) {
        refuse(self.places, word.values(), fault);
        // Single quotes keep `$x`.
        word.source.split('\'').step_by(2).for_each(|part| self.run.push_str(part));
        self.run.push(' ');
    }

    fn refuse_all(&mut self, words: &[Word], fault: Misplaced) {
        words.iter().for_each(|word| self.refuse(word, fault));
    }

    /// `input` has the values that earlier commands of its pipeline print.
    fn command(&mut self, command: &SimpleCommand, input: &[usize]) {
        command.assignments().for_each(|word| self.assignment(word));
        let words = command.program();
        let mut at = 0;
        // A program, and those that it runs.
        while let Some(program) = words.get(at) {
            self.refuse(program, Misplaced::Program);
            at += 1;
            let name = match name(program) {
                Some(name) => name,
                // With an empty variable, the next word is the program.
                None if program.may_vanish() => continue,
                None => return,
            };
            let arguments = &words[at..];
            self.arguments(name, arguments);
            self.tests(name, arguments);
            if SHELLS.contains(&name) && reads_program(arguments) {
                self.refuse_all(&command.files, Misplaced::ProgramText);
                refuse(self.places, input.iter().copied(), Misplaced::ProgramText);
            }
            if name == "xargs" && puts_into_program(arguments) {
                refuse(self.places, input.iter().copied(), Misplaced::ProgramText);
            }
            if RUNNERS.contains(&name) {
                self.run(name, arguments);
            }
            let Some(prefix) = &mut Prefix::of(name) else { return };
            while let Some(word) = words.get(at) {
                match prefix.role(word.text.as_deref(), word.variable.is_some()) {
                    Role::Program => break,
                    Role::Variable => self.assignment(word),
                    Role::Unknown => {
                        self.refuse(word, Misplaced::Program);
                        // An option of `env` may be a program; this word is one.
                        if word.text.is_none() && !word.may_vanish() {
                            return;
                        }
                    }
                    Role::Argument => {}
                }
                at += 1;
            }
        }
    }

    /// A program that runs another one, which may be anywhere in its arguments.
    fn run(&mut self, runner: &str, words: &[Word]) {
        let is_executed = |before: &Word| {
            matches!(before.text.as_deref(), Some("-exec" | "-execdir" | "-ok" | "-okdir"))
        };
        let operand = words.iter().position(|word| !word.start.starts_with('-'));
        for (number, word) in words.iter().enumerate() {
            let is_first = operand == Some(number) && !OPERANDS.contains(&runner);
            if is_first || number.checked_sub(1).is_some_and(|at| is_executed(&words[at])) {
                self.refuse(word, Misplaced::Program);
            }
            match name(word) {
                Some(name) if is_first => self.arguments(name, &words[number + 1..]),
                Some(name) => self.programs(name, &words[number + 1..]),
                None => {}
            }
        }
    }

    fn assignment(&mut self, word: &Word) {
        let name = word.variable.as_deref().unwrap_or_default();
        if OBEYED.contains(&name) || name.starts_with("LD_") {
            self.refuse(word, Misplaced::ProgramText);
        }
    }

    /// The arguments of a command of the shell, or of a program.
    fn arguments(&mut self, name: &str, words: &[Word]) {
        let fault = match name {
            "." | "source" => Misplaced::Program,
            _ if RUNNING.contains(&name) => Misplaced::ProgramText,
            _ if NAMING.contains(&name) => Misplaced::Name,
            _ if DECLARING.contains(&name) => {
                let has_options = words.iter().any(|word| word.start.starts_with('-'));
                for word in words {
                    match word.variable {
                        Some(_) if !has_options => self.assignment(word),
                        _ => self.refuse(word, Misplaced::Name),
                    }
                }
                return;
            }
            _ => return self.programs(name, words),
        };
        self.refuse_all(words, fault);
        // A second reading may compute.
        let computes = |word: &&Word| {
            name == "let" || ["((", "$[", "let "].iter().any(|sign| word.source.contains(sign))
        };
        words.iter().filter(computes).for_each(|word| self.compute(word));
    }

    fn programs(&mut self, name: &str, words: &[Word]) {
        let is_version = |letter: char| letter.is_ascii_digit() || letter == '.';
        let interpreter = name.trim_end_matches(is_version);
        match INTERPRETERS.iter().find(|(own, _)| *own == interpreter) {
            Some((own, options)) => self.interpreter(own, words, options),
            None if SHELLS.contains(&name) => self.shell(words),
            None if AWKS.contains(&name) => self.text_first(words, &["v", "F", "-assign"]),
            None if SEDS.contains(&name) => self.text_first(words, &["l"]),
            None if REMOTE.contains(&name) => self.refuse_all(words, Misplaced::ProgramText),
            None => {
                let options = RUN_OPTIONS.iter().find(|(own, _)| *own == name);
                options.into_iter().for_each(|(_, options)| self.run_options(words, options));
            }
        }
    }

    /// `tar -I PROGRAM`, `split --filter=PROGRAM`.
    fn run_options(&mut self, words: &[Word], options: &[&str]) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if has_option(word, options) {
                self.refuse(word, Misplaced::ProgramText);
                if takes_value(word, options) {
                    words.next().into_iter().for_each(|it| self.refuse(it, Misplaced::ProgramText));
                }
            }
        }
    }

    fn compute(&mut self, word: &Word) {
        self.arithmetic.push_str(&word.source);
        self.arithmetic.push(' ');
    }

    /// `sh -c CODE`, `sh FILE`.
    fn shell(&mut self, words: &[Word]) {
        let (mut words, mut fault) = (words.iter(), Misplaced::Program);
        while let Some(word) = words.next() {
            if !word.start.starts_with(['-', '+']) {
                return self.refuse(word, fault);
            }
            self.refuse(word, Misplaced::ProgramText);
            if has_option(word, &["c"]) {
                fault = Misplaced::ProgramText;
            }
            if takes_value(word, &["o", "O"]) {
                words.next();
            }
        }
    }

    /// `perl -e CODE`, `python3 FILE`.
    fn interpreter(&mut self, name: &str, words: &[Word], options: &[&str]) {
        let (mut words, mut has_code) = (words.iter(), false);
        while let Some(word) = words.next() {
            if !word.start.starts_with('-') {
                if !has_code {
                    self.refuse(word, Misplaced::Program);
                }
                return;
            }
            if has_option(word, options) {
                self.refuse(word, Misplaced::ProgramText);
                has_code = true;
                if takes_value(word, options) {
                    words.next().into_iter().for_each(|it| self.refuse(it, Misplaced::ProgramText));
                }
            } else if name.starts_with("py") && takes_value(word, &["m"]) {
                let module = words.next();
                return module.into_iter().for_each(|it| self.refuse(it, Misplaced::Program));
            } else if takes_value(word, &["W", "X", "I", "C"]) {
                words.next();
            }
        }
    }

    /// `awk CODE FILE`, `sed -e CODE FILE`.
    fn text_first(&mut self, words: &[Word], valued: &[&str]) {
        const FILES: &[&str] = &["f", "-file"];
        const CODE: &[&str] = &["e", "-expression", "-source"];
        let is_either = |word: &Word| begins(word, FILES) || begins(word, CODE);
        let has_option = words.iter().any(is_either);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if is_either(word) {
                let fault =
                    if begins(word, CODE) { Misplaced::ProgramText } else { Misplaced::Program };
                self.refuse(word, fault);
                if takes_value(word, FILES) || takes_value(word, CODE) {
                    words.next().into_iter().for_each(|it| self.refuse(it, fault));
                }
            } else if takes_value(word, valued) {
                // `awk -v name={x}`: without a fixed name, the value may be one.
                if let Some(value) = words.next().filter(|value| value.variable.is_none()) {
                    self.refuse(value, Misplaced::Name);
                }
            } else if !word.start.starts_with('-') && !has_option {
                return self.refuse(word, Misplaced::ProgramText);
            }
        }
    }

    /// Tests, and `printf -v NAME`.
    fn tests(&mut self, name: &str, words: &[Word]) {
        let computes =
            |word: &Word| word.text.as_deref().is_some_and(|text| COMPUTING.contains(&text));
        let is_value = |word: &Word| word.start.is_empty() && !word.places.is_empty();
        match name {
            "[[" if words.iter().any(computes) => {
                self.refuse_all(words, Misplaced::Arithmetic);
                words.iter().for_each(|word| self.compute(word));
            }
            "[" | "test" | "printf" => {
                for pair in words.windows(2) {
                    let [before, word] = pair else { continue };
                    let takes_name = matches!(before.text.as_deref(), Some("-v" | "-R"));
                    // The first value may be such an option.
                    let is_first = name != "printf" || std::ptr::eq(before, &words[0]);
                    if takes_name || is_first && is_value(before) && word.has_values() {
                        self.refuse(word, Misplaced::Name);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The name of a program without its folder.
fn name(word: &Word) -> Option<&str> {
    word.text.as_deref()?.rsplit('/').next()
}

/// True if a shell with these arguments reads its program from its input.
fn reads_program(words: &[Word]) -> bool {
    let has_code = |word: &Word| has_option(word, &["c"]);
    words.iter().all(|word| word.start.starts_with(['-', '+']) && !has_code(word))
}

/// True for `xargs -I@ sh -c 'say @'`.
fn puts_into_program(words: &[Word]) -> bool {
    let replaces = |word: &Word| has_option(word, &["I", "i", "-replace"]);
    let is_shell = |word: &Word| name(word).is_some_and(|name| SHELLS.contains(&name));
    words.iter().any(replaces) && words.iter().any(is_shell)
}

/// True for `-c`, `-ec` and `-cCODE`, and for `--eval` and `--eval=CODE`.
fn has_option(word: &Word, options: &[&str]) -> bool {
    let Some(given) = word.start.strip_prefix('-') else { return false };
    options.iter().any(|option| {
        if option.starts_with('-') {
            given.split('=').next() == Some(option)
        } else {
            !given.starts_with('-') && given.contains(option)
        }
    })
}

/// True for `-e`, `-ne` and `-eCODE`, and not for `-i.bed`.
fn begins(word: &Word, options: &[&str]) -> bool {
    let Some(given) = word.start.strip_prefix('-') else { return false };
    options.iter().any(|option| {
        if option.starts_with('-') {
            given.split('=').next() == Some(option)
        } else {
            given.starts_with(option) || (!given.starts_with('-') && given.ends_with(option))
        }
    })
}

/// True if the next word is the value of the option.
fn takes_value(word: &Word, options: &[&str]) -> bool {
    let given = word.text.as_deref().and_then(|text| text.strip_prefix('-'));
    given.is_some_and(|given| {
        options.iter().any(|option| {
            if option.starts_with('-') {
                *option == given
            } else {
                !given.starts_with('-') && given.ends_with(option)
            }
        })
    })
}
