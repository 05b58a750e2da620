//! Programs that run another one: `nice foo`, `env A=b foo`, `timeout 5 foo`.

/// A program that runs another one, which its arguments name.
struct Runner {
    name: &'static str,
    /// The options with a value in the next word.
    valued: &'static [&'static str],
    /// Options with which it runs no program, or one that cannot be known.
    other: &'static [&'static str],
    /// The words before the program, besides options.
    operands: usize,
    takes_variables: bool,
}

const PLAIN: Runner =
    Runner { name: "", valued: &[], other: &[], operands: 0, takes_variables: false };

const RUNNERS: &[Runner] = &[
    Runner {
        name: "env",
        valued: &["-u", "--unset", "-C", "--chdir"],
        other: &["-S", "--split-string"],
        takes_variables: true,
        ..PLAIN
    },
    Runner { name: "exec", valued: &["-a"], ..PLAIN },
    Runner {
        name: "ionice",
        valued: &["-c", "--class", "-n", "--classdata"],
        other: &["-p", "--pid", "-P", "--pgid", "-u", "--uid"],
        ..PLAIN
    },
    Runner { name: "nice", valued: &["-n", "--adjustment"], ..PLAIN },
    Runner { name: "nohup", ..PLAIN },
    Runner { name: "setsid", ..PLAIN },
    Runner {
        name: "stdbuf",
        valued: &["-i", "--input", "-o", "--output", "-e", "--error"],
        ..PLAIN
    },
    Runner { name: "taskset", other: &["-p", "--pid"], operands: 1, ..PLAIN },
    Runner {
        name: "timeout",
        valued: &["-k", "--kill-after", "-s", "--signal"],
        operands: 1,
        ..PLAIN
    },
];

/// The place in the arguments of such a program.
pub struct Prefix {
    runner: &'static Runner,
    operands: usize,
    awaits_value: bool,
    is_behind_options: bool,
}

/// The role of a word behind such a program.
#[derive(Debug, PartialEq)]
pub enum Role {
    Argument,
    /// A variable for the program.
    Variable,
    Program,
    /// No program follows, or one that cannot be known.
    Unknown,
}

impl Prefix {
    /// None for a program that runs no other.
    pub fn of(name: &str) -> Option<Prefix> {
        let runner = RUNNERS.iter().find(|runner| runner.name == name)?;
        let operands = runner.operands;
        Some(Prefix { runner, operands, awaits_value: false, is_behind_options: false })
    }

    /// The role of the next word; its text is None if only the shell knows it.
    pub fn role(&mut self, text: Option<&str>, is_assignment: bool) -> Role {
        if std::mem::take(&mut self.awaits_value) {
            return Role::Argument;
        }
        let option = text.filter(|text| text.starts_with('-') && !self.is_behind_options);
        match option {
            Some("--") => {
                self.is_behind_options = true;
                return Role::Argument;
            }
            Some(option) if self.runner.other.contains(&option) => return Role::Unknown,
            Some(option) => {
                self.awaits_value = self.runner.valued.contains(&option);
                return Role::Argument;
            }
            None => {}
        }
        if is_assignment && self.runner.takes_variables {
            return Role::Variable;
        }
        if self.operands > 0 {
            self.operands -= 1;
            return Role::Argument;
        }
        match text {
            Some(_) => Role::Program,
            None => Role::Unknown,
        }
    }
}
