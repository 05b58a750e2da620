#![allow(clippy::unwrap_used, clippy::disallowed_methods)]
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

/// The shells that run a line, those that are installed.
fn shells() -> Vec<Vec<&'static str>> {
    let all: [&[&str]; 6] =
        [&["dash"], &["bash"], &["bash", "--posix"], &["busybox", "sh"], &["zsh"], &["mksh"]];
    let is_there = |words: &&[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["-c", ":"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let (found, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(is_there);
    if !missing.is_empty() {
        println!("skipped, not installed: {missing:?}");
    }
    found.into_iter().map(<[&str]>::to_vec).collect()
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn parsed(command: &str) -> Result<Template, TemplateError> {
    Template::parse(command, |name| name == "base" || name.starts_with("out."))
}

fn filled(command: &str, value: &str) -> CommandLine {
    parsed(command)
        .unwrap()
        .fill(&values(&[("x", value), ("out.a", "made"), ("base", "/b")]))
        .unwrap()
}

fn run(shell: &[&str], line: &CommandLine, folder: &std::path::Path) -> (Vec<u8>, Vec<u8>) {
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(line.arguments()).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.stdout, output.stderr)
}

/// Values that run `touch PWNED` wherever a shell or another program runs their text.
const HOSTILE: &[&str] = &[
    "a[$(touch PWNED)0]",
    "$(touch PWNED)",
    "`touch PWNED`",
    "'; touch PWNED; '",
    "\"; touch PWNED; \"",
    "; touch PWNED #",
    "\ntouch PWNED\n",
    "x\nEND\ntouch PWNED\n",
    "touch PWNED",
    "() { :; }; touch PWNED",
    "} ; touch PWNED; {",
    "'$(touch PWNED)'",
    "\\'; touch PWNED; \\'",
    "*",
    "-v",
    " two  words ",
    "",
    "line\n\n",
    "~",
    "{a,b}",
    "\\n\\",
    "ä\u{1F600}",
];

/// All that the grammar of a shell has around a word. The first part prints the value as it is.
const BYTES_ARRIVE: &[&str] = &[
    "printf '%s' {x}",
    "printf '%s' \"\"{x}''",
    "printf %s {x} > {out.a}; cat {out.a}",
    "v={x}; printf '%s' \"$v\"",
    "v={x} sh -c 'printf %s \"$v\"'",
    "export v={x}; sh -c 'printf %s \"$v\"'",
    "set -u; printf '%s' {x}",
    "set -- a b; shift; printf '%s' {x}",
    "set -e; env -i printf '%s' {x}",
    "sh -c 'printf %s \"$1\"' sh {x}",
    "bash -c 'printf %s \"$1\"' sh {x}",
    "(printf '%s' {x})",
    "{{ printf '%s' {x}; }}",
    "if true; then printf '%s' {x}; fi",
    "case {x} in {x}) printf '%s' {x};; esac",
    "for v in {x}; do printf '%s' \"$v\"; done",
    "f() {{ printf '%s' {x}; }}; f a b",
    "f() {{ printf '%s' \"$1\"; }}; f {x}",
    "printf '%s' {x} | cat",
    "printf '%s' {x} & wait",
    "! false && printf '%s' {x}",
    "# {x}\nprintf '%s' {x}",
    "[ -n a{x} ] && printf '%s' {x}",
    "[ {x} = {x} ] && printf '%s' {x}",
    "cat > here <<'END'\nit's \"\nEND\nprintf '%s' {x}",
    "echo \"$(printf '%s' {x})\" > /dev/null; printf '%s' {x}",
    "echo $((1 + 2)) > /dev/null; printf '%s' {x}",
    "cat > \"$(printf '%s' {out.a})\" <<END\nEND\nprintf '%s' {x}",
    "eval 'printf x > {out.a}'; printf '%s' {x}",
    "trap 'printf %s \"$v\"' EXIT; v={x}",
    "awk 'BEGIN {{ printf \"%s\", ARGV[1] }}' {x}",
    "readonly v={x}; printf '%s' \"$v\"",
    "set -f; printf '%s' {x}; set +f",
    "IFS=a; printf '%s' {x}",
    "set -x; printf '%s' {x}",
    "n=5 && printf '%s' {x} 2>&1",
];

/// Places in which a shell runs, splits or misreads a value.
const REFUSED: &[&str] = &[
    "echo $(({x} + 1))",
    "echo \"$(({x} + 1))\"",
    "echo $[{x} + 1]",
    "(( {x} + 1 ))",
    "v={x}; echo $((v + 1))",
    "v={x}; echo $(( $v + 1 ))",
    "set -- {x}; echo $(($1))",
    "f() {{ echo $(($1)); }}; f {x}",
    "let v={x}",
    "v={x}; $v",
    "v={x}; eval \"echo $v\"",
    "v={x}; sh -c \"echo $v\"",
    "echo {x} | while read -r v; do $v; done",
    "declare -i v={x}",
    "[[ {x} -eq 1 ]]",
    "[ -v {x} ]",
    "printf -v {x} a",
    "read {x} < /dev/null",
    "unset {x}",
    "export {x}",
    "for {x} in a; do :; done",
    "echo \"{x}\"",
    "echo '{x}'",
    "echo `echo {x}`",
    "echo \"`echo {x}`\"",
    "echo \\{x}",
    "echo ${{v:-{x}}}",
    "echo ${{v[{x}]}}",
    "cat <<END\n{x}\nEND",
    "cat <<'END'\n{x}\nEND",
    "cat <<END\n$(echo {x})\nEND",
    "{x}",
    "{x} a",
    "{x}=1",
    "nice {x}",
    "eval {x}",
    "eval \"echo $(printf %s {x})\"",
    "trap {x} EXIT",
    ". {x}",
    "sh {x}",
    "sh -c {x}",
    "sh -c 'echo {x}'",
    "sh -c 'echo '{x}",
    "bash -c \"echo {x}\"",
    "echo {x} | sh",
    "echo a | xargs sh -c {x}",
    "awk 'BEGIN {{ print {x} }}'",
    "awk {x}",
    "sed s/a/{x}/",
    "python3 -c {x}",
    "PS4={x}; set -x; :",
    "BASH_ENV={x} bash -c :",
];

#[test]
fn hostile_values_arrive_as_their_bytes_in_every_shell() {
    for shell in shells() {
        for command in BYTES_ARRIVE {
            for value in HOSTILE {
                let folder = tempfile::tempdir().unwrap();
                let (stdout, stderr) = run(&shell, &filled(command, value), folder.path());
                let told = String::from_utf8_lossy(&stderr);
                let made = String::from_utf8_lossy(&stdout);
                assert_eq!(made, *value, "{shell:?}: {command}: {told}");
                assert!(!folder.path().join("PWNED").exists(), "{shell:?}: {command}: {value}");
            }
        }
    }
}

#[test]
fn where_a_value_would_be_run_it_is_refused() {
    for command in REFUSED {
        let error = parsed(command).unwrap_err();
        assert!(matches!(error, TemplateError::Misplaced { .. }), "{command}: {error}");
    }
}

/// Any line made of pieces of the grammar: a value is refused, or nothing of it is run.
#[test]
fn no_line_of_the_grammar_runs_a_value() {
    let pieces = [
        "{x}",
        "\"",
        "'",
        "`",
        "$(",
        "$((",
        "((",
        "))",
        ")",
        "(",
        "${{v",
        "}}",
        "[",
        "]",
        "\\",
        " ",
        "\n",
        ";",
        "|",
        "&&",
        "<<E\n",
        "\nE\n",
        "echo ",
        "a=",
        "v=1",
        "$v",
        "#",
        "case a in a) ",
        ";; esac",
        "$'",
        "[[ ",
        " ]]",
        " -eq ",
        "eval ",
        "if ",
        "then ",
        "fi",
        "f() {{ ",
        " }}",
        "$[",
        "sh -c ",
        "> f",
        "+ 1",
        "x",
        "v={x}; ",
        " \"$v\" ",
        "read v; ",
        "| while ",
        "do ",
        "; done",
        "set -- {x}; ",
        " $1 ",
        "f {x}; ",
        "exec ",
        "xargs ",
        "bash -c ",
        "[ -v ",
        "trap ",
        " EXIT",
        "printf -v ",
        "unset ",
        "export ",
        "declare ",
        "$((v))",
        "for v in {x}; ",
        "echo {x} | ",
        "bash",
        "cat <<< ",
        ". ",
        "let v=",
        "a[",
        "]=1 ",
        "coproc ",
        "time ",
        "<(",
        "awk ",
        "sed ",
    ];
    // Programs with a name that only the shell knows are not recognised.
    let has_computed_name = |command: &str| {
        command
            .split([' ', ';', '|', '&', '(', ')', '\n'])
            .any(|word| word.len() > 2 && word.contains(['$', '`']))
    };
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let shells = shells();
    let (mut run_lines, mut lines) = (0, 0);
    while run_lines < 300 && lines < 100_000 {
        lines += 1;
        let count = 2 + next(6);
        let mut command: String = (0..count).map(|_| pieces[next(pieces.len())]).collect();
        command.insert_str(0, ["", "echo ", ": "][next(3)]);
        let Ok(template) = parsed(&command) else { continue };
        if !command.contains("{x}") || has_computed_name(&command) {
            continue;
        }
        run_lines += 1;
        let value = HOSTILE[next(13)];
        let line = template.fill(&values(&[("x", value)])).unwrap();
        for shell in &shells {
            let folder = tempfile::tempdir().unwrap();
            run(shell, &line, folder.path());
            assert!(!folder.path().join("PWNED").exists(), "{shell:?}: {command:?}: {value:?}");
        }
    }
    assert_eq!(run_lines, 300);
}

#[test]
fn paths_of_the_stage_are_text_only_where_no_letter_has_a_meaning() {
    let template = parsed("sh -c 'cat {base}/a' > \"{out.a}\"").unwrap();
    let of = |base: &str| template.fill(&values(&[("base", base), ("out.a", "/o ut/a")]));
    let line = of("/b").unwrap();
    assert_eq!(
        line.arguments()[1],
        "throstle_base=${1} throstle_out_a=${2}; shift 2; sh -c 'cat /b/a' > \"${throstle_out_a}\""
    );
    assert!(matches!(of("/it's $(touch PWNED)"), Err(TemplateError::NotPlain { .. })));
}

#[test]
fn unknown_unclosed_and_unfit_values_are_errors() {
    let fill = |command: &str, value: &str| {
        parsed(command).and_then(|template| template.fill(&values(&[("x", value)])))
    };
    assert_eq!(
        fill("say {texts}", "").unwrap_err().to_string(),
        "`{texts}` is not a field; known names: `x`; write `{{` for a plain brace"
    );
    assert!(matches!(fill("say {x", ""), Err(TemplateError::Unclosed { .. })));
    assert!(matches!(fill("say {x}", "a\0"), Err(TemplateError::Nul { .. })));
    let long = "x".repeat(MAX_VALUE_BYTES);
    let line = fill("cat < /dev/null; printf %s {x} | wc -c", &long).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (counted, _) = run(&["sh"], &line, folder.path());
    assert_eq!(String::from_utf8_lossy(&counted).trim(), MAX_VALUE_BYTES.to_string());
    assert!(matches!(fill("say {x}", &(long + "x")), Err(TemplateError::TooLong { .. })));
}

#[test]
fn variables_of_the_line_keep_their_meaning() {
    let line = filled("throstle_x=own; printf '%s' \"$throstle_x\"{x}", "!");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(&["sh"], &line, folder.path()).0, b"own!");
    let seen = filled("env | grep -c '^throstle_'; printf %s \"$#\"{x}", "");
    assert_eq!(run(&["sh"], &seen, folder.path()).0, b"0\n0");
}

#[test]
fn the_script_of_a_line_does_the_same() {
    for value in HOSTILE {
        let folder = tempfile::tempdir().unwrap();
        let script = filled("printf '%s' {x}", value).script();
        std::fs::write(folder.path().join("line.sh"), script).unwrap();
        let output = Command::new("sh").arg("line.sh").current_dir(folder.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), *value);
    }
}

#[test]
fn a_line_of_words_needs_no_shell_and_any_other_does() {
    let words = |command: &str| filled(command, "a b; c").words().map(<[String]>::to_vec);
    assert_eq!(
        words("cat -u 'a b' \"it's\"x -{x}.").unwrap(),
        ["cat", "-u", "a b", "it'sx", "-a b; c."]
    );
    assert_eq!(words("{base}/tool \"{out.a}\" ''").unwrap(), ["/b/tool", "made", ""]);
    for line in [
        "cat a > b",
        "cat $A",
        "cat *.wav",
        "cat a | cat",
        "cat a && cat b",
        "cat \"$A\"",
        "cat a\ncat b",
        "~/cat",
        "cat {{a,b}}",
        "cat #a",
        "cat a\\ b",
        "cat 'a",
        "cat `a`",
        "cat &",
        "cat ä",
    ] {
        let words = parsed(line).map(|template| template.words);
        assert!(matches!(words, Ok(None)), "{line}");
    }
}

proptest! {
    #[test]
    fn words_without_a_shell_are_those_of_the_shell(line in "[-a-z'\"$*=~!#<> \t.\\\\]{0,12}") {
        let plain = CommandLine::plain(&line);
        if let Some(words) = plain.words().filter(|words| !words.is_empty()) {
            let printed = Command::new("/bin/sh").args(["-c", &format!("printf '%s\\0' {line}")]).output();
            let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
            let expected: Vec<&str> = printed.split_terminator('\0').collect();
            prop_assert_eq!(words, expected);
        }
    }

    #[test]
    fn any_command_is_parsed_or_refused(command in "[a-z{}$ .'\"(]{0,30}") {
        let _ = parsed(&command);
    }
}
