//! The place of a value in a line for `sh`.

/// A placeholder, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    pub name: &'a str,
    pub writing: Writing,
    /// The reason why no field of an item can be here. Paths of the stage can.
    pub fault: Option<Misplaced>,
}

/// The way to write a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// As a variable in quotes.
    Word,
    /// As a variable without quotes of its own.
    DoubleQuotes,
    /// As it is: only a path of the stage, if no character of it has a meaning for the shell.
    Literal,
}

/// A place where the value of a field would not stay one word, or would be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    Quotes,
    Document,
    BackQuotes,
    Arithmetic,
    Expansion,
    Escape,
    Name,
    Program,
    ProgramText,
    Unclear,
}

impl Place<'_> {
    pub(super) fn refuse(&mut self, fault: Misplaced) {
        self.fault = Some(self.fault.unwrap_or(fault));
        if !matches!(fault, Misplaced::Quotes | Misplaced::Name | Misplaced::Program) {
            self.writing = Writing::Literal;
        }
    }
}

impl Misplaced {
    /// The place, in words.
    pub fn place(self) -> &'static str {
        match self {
            Misplaced::Quotes => "is inside quotes",
            Misplaced::Document => "is inside a here-document",
            Misplaced::BackQuotes => "is inside back quotes",
            Misplaced::Arithmetic => "is in arithmetic, where the shell runs `$(...)` in a value",
            Misplaced::Expansion => "is inside `${...}`",
            Misplaced::Escape => "follows a backslash",
            Misplaced::Name => "is a name, where the shell runs `$(...)` in a value",
            Misplaced::Program => "is the program to run",
            Misplaced::ProgramText => "is text of a program, which would run the value",
            Misplaced::Unclear => "is in a line that shells read in different ways",
        }
    }

    /// The line to write for a placeholder.
    pub fn help(self, name: &str) -> String {
        match self {
            Misplaced::Quotes => format!(
                "every value is one quoted word already: leave out the quotes, as in \
                 `\"it is \"{{{name}}}`; a program in quotes gets it as an argument: \
                 `sh -c 'echo \"$1\"' sh {{{name}}}`"
            ),
            Misplaced::Document => format!("write `printf '%s\\n' {{{name}}} | ...`"),
            Misplaced::BackQuotes => "write `$(...)` instead of back quotes".to_owned(),
            Misplaced::Arithmetic => format!(
                "write `awk -v n={{{name}}} 'BEGIN {{{{ print n + 1 }}}}'`, which reads a number; \
                 nested subshells are `( (...) )`, with a space"
            ),
            Misplaced::Expansion => format!("write `value={{{name}}}` first, then `${{value...}}`"),
            Misplaced::Escape => "leave out the backslash".to_owned(),
            Misplaced::Name => format!("write a fixed name, as in `value={{{name}}}`"),
            Misplaced::Program => format!(
                "write the program itself, as in `case {{{name}}} in one) {{base}}/one;; esac`; \
                 a script of the project is `{{script}}`; a variable with a program is `\"$TOOL\"`, in quotes"
            ),
            Misplaced::ProgramText => format!(
                "let the program get it as an argument: `sh -c 'echo \"$1\"' sh {{{name}}}`, \
                 `python3 -c 'import sys; print(sys.argv[1])' {{{name}}}`, \
                 `awk -v text={{{name}}} '...'`"
            ),
            Misplaced::Unclear => format!(
                "use a script of your own: `script = \"tool.sh\"` and `sh {{script}} {{{name}}}`; \
                 `'...'` and `\"...\"` are the same in all shells, and `$'...'` is not"
            ),
        }
    }
}
