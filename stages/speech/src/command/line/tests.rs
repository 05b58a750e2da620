#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

/// The reasons for which the fields of a line are misplaced; `None` is a word.
fn faults(line: &str) -> Vec<Option<Misplaced>> {
    let places = Shell::read(line).unwrap().places;
    places.iter().filter(|place| place.name != "out").map(|place| place.fault).collect()
}

fn piped(line: &str) -> String {
    Shell::read(line).unwrap().piped.join(" ")
}

#[test]
fn a_value_is_a_word_outside_of_quotes() {
    for line in [
        "say {text} -o {out}",
        "say 'it is' {text}",
        "say \"it is \"{text}",
        "say a{text}b > {text}",
        "say \"$(cat {text})\" > {out}",
        "say $(cat {text}) \"$(cat \"$(cat {text})\")\" > {out}",
        "awk '{{print}}' {text}",
        "awk -v n={text} -F, 'BEGIN {{ print n + 1 }}' {text}",
        "sed -n 's/a/b/p' {text}",
        "say \\\"{text}\\\"",
        "say it\\'s {text}",
        "# don't\nsay {text}",
        "true;# don't {text}\nsay {text}",
        "(say {text}) | sed \"s/a/b/\" > {out}",
        "sed \"s/'//\" {text}",
        "cat > x <<END\nit's\nEND\nsay {text}",
        "cat > x <<'E N'\"D\"; say {text}\nit's\nE ND\nsay {text}",
        "cat > x <<-END\n\tit's\n\tEND\nsay {text}",
        "cat > x <<A <<B\nit's\nA\n\"\nB\nsay {text}",
        "x=$(case a in a) echo it;; *) echo b;; esac) say {text}",
        "say \"$(case a in (a|b) echo it;; esac)\" {text}",
        "say \"$(case {text} in\na) echo\nesac\n)\" {text}",
        "say \"$(case a in a) echo {text};; esac)\"",
        "say \"$(echo case)\" {text}",
        "say $((1 << 2)) {text}",
        "say $((1 << 2))\nsay it\\'s {text}",
        "cat <<< 'x' {text}",
        "case {text} in *{text}*) say {text};; esac",
        "for x in {text} b; do say \"$x\"; done",
        "x={text}; say \"${x%.wav}\" \"${#x}\"",
        "x={text} y=$(cat {text}) say {text}",
        "export x={text}; say",
        "n=$(wc -c < {text}); echo $((n / 2)) $(($(wc -c < {text}) / 2))",
        "f() {{ say {text}; }}; f",
        "if [ -n {text} ] && test {text} = {text}; then say; fi",
        "[[ {text} == a* && {text} != b ]] || say",
        "sh -c 'echo \"$1\"' sh {text}",
        "bash -euo pipefail -c 'echo \"$1\"' sh {text}",
        "sh {script} {text}",
        "\"$TOOL\" {text}",
        "$TOOL -i {text}",
        "python3 -u -W ignore {script} {text}",
        "python3 -m uroman -l kor {text}",
        "python3 -c 'import sys' {text}",
        "perl -ne 'print' {text}",
        "timeout 5 nice -n 3 env A={text} say {text}",
        "xargs -0 -n 1 say {text}",
        "find . -name {text}",
        "printf '%s %s' {text} {text}",
        "printf {text}",
        "say {text} | cat",
        "echo {text} | sh {script}",
        "say --mode batch {text} at {text} R {text}",
        "say \\\n {text}",
        "trap 'say \"$x\"' EXIT; x={text}",
        "x={text}; say $x; sh -c 'say \"$1\"' sh \"$x\"",
        "echo {text} | while read -r x; do say \"$x\"; done",
        "tar -cf {out} {text}",
        "split -l 10 {text}",
        "x={text}; y=$x; say \"$y\"",
        "echo {text} | xargs -I@ say @",
        "whisper {text} --output_dir . &&\ncat *.txt > {out}",
    ] {
        let found: Vec<_> =
            faults(&line.replace("{script}", "script")).into_iter().flatten().collect();
        assert_eq!(found, [], "{line}");
    }
}

#[test]
fn a_value_behind_a_program_of_the_stage_is_an_argument() {
    for line in [
        "timeout 5 {base}/tool {text}",
        "nice -n 5 \"{base}/tool\" {text}",
        "env A=1 {base}/tool {text}",
        "stdbuf -oL {script} {text}",
    ] {
        assert!(matches!(faults(line)[..], [Some(_), None]), "{line}");
    }
    assert_eq!(faults("timeout 5 $UNSET {text}"), [Some(Misplaced::Program)]);
}

#[test]
fn a_value_that_would_be_split_or_run_has_no_place() {
    use Misplaced::*;
    let mut failed = Vec::new();
    for (line, fault) in [
        ("say \"{text}\"", Quotes),
        ("x={text}; y=$x; $y", ProgramText),
        ("x={text}; y=${x}; z=\"$y\"; echo $((z + 1))", Arithmetic),
        ("echo {text} | tee log | sh", ProgramText),
        ("echo {text} | sed s/a/b/ | cat | bash", ProgramText),
        ("echo {text} | xargs -I@ sh -c 'say @'", ProgramText),
        ("prlimit --nofile=9 {text}", Program),
        ("flock lock -c {text}", ProgramText),
        ("script -qc {text} log", ProgramText),
        ("tar -cf x -I {text} y", ProgramText),
        ("tar --use-compress-program={text} -cf x y", ProgramText),
        ("split --filter={text} x", ProgramText),
        ("make --eval {text}", ProgramText),
        ("say '{text}' {out}", Quotes),
        ("say \"it is {text}\"", Quotes),
        ("say \"$(cat '{text}')\" {out}", Quotes),
        ("say \"$(cat x) {text}\"", Quotes),
        ("say a#'{text}'", Quotes),
        ("say {out}#'{text}'", Quotes),
        ("say $(case x in a) echo '{text}';; esac)", Quotes),
        ("say \"$(case x in a) echo \"{text}\";; esac)\"", Quotes),
        ("sh -c 'echo {text}'", Quotes),
        ("cat <<END\nit's {text}\nEND\nsay {out}", Document),
        ("cat <<'END' > x\n{text}\nEND", Document),
        ("cat <<-END\n\t{text}\n\tEND\nsay {out}", Document),
        ("cat <<END\n$(say {text})\nEND", Document),
        ("say `cat {text}`", BackQuotes),
        ("say \"`cat {text}`\"", BackQuotes),
        ("echo $(({text} + 1))", Arithmetic),
        ("echo \"$(( 2 * ({text}) ))\"", Arithmetic),
        ("echo $(( \"{text}\" ))", Arithmetic),
        ("echo $[{text} + 1]", Arithmetic),
        ("(( x = {text} ))", Arithmetic),
        ("for ((i = {text}; i < 3; i++)); do say; done", Arithmetic),
        ("echo $(( $(echo {text}) ))", Arithmetic),
        ("x={text}; echo $((x + 1))", Arithmetic),
        ("x={text}; echo $(( $x + 1 ))", Arithmetic),
        ("x=$(printf %s {text}); echo $((x + 1))", Arithmetic),
        ("export x={text}; echo ${{y:x}}", Arithmetic),
        ("for x in 1 {text}; do let y=x; done", Arithmetic),
        ("set -- {text}; echo $(($1 + 1))", Arithmetic),
        ("f() {{ echo $(($1 + 1)); }}; f {text}", Arithmetic),
        ("x={text}\ncat <<END\n$((x))\nEND", Arithmetic),
        ("[[ {text} -eq 1 ]]", Arithmetic),
        ("x={text}; [[ x -eq 1 ]]", Arithmetic),
        ("x={text}; eval \"say $x\"", ProgramText),
        ("x={text}; $x", ProgramText),
        ("x={text}; say && \"${{x}}\" a", ProgramText),
        ("x={text}; sh -c \"$x\"", ProgramText),
        ("x={text}; awk \"BEGIN {{ print $x }}\"", ProgramText),
        ("f() {{ $1; }}; f {text}", ProgramText),
        ("echo {text} | while read x y; do $y; done", ProgramText),
        ("coproc {text}", Program),
        ("$RUNNER {text}", Program),
        ("$RUNNER sh -c {text}", ProgramText),
        ("x={text}; eval 'say $((x + 1))'", Arithmetic),
        ("echo ${{x:-{text}}}", Expansion),
        ("echo ${{x[{text}]}}", Expansion),
        ("echo \"${{x#{text}}}\"", Expansion),
        ("say \\{text}", Escape),
        ("say \"a\\{text}\"", Escape),
        ("read {text}", Name),
        ("unset {text}", Name),
        ("export {text}", Name),
        ("export -n x={text}", Name),
        ("declare -i x={text}", Name),
        ("let x={text}", Name),
        ("for {text} in a; do say; done", Name),
        ("printf -v {text} x", Name),
        ("[ -v {text} ]", Name),
        ("test ! -v {text}", Name),
        ("awk -v {text} 'BEGIN {{}}'", Name),
        ("{text} x", Program),
        ("{text}", Program),
        ("a{text} x", Program),
        ("a[{text}]=1", Program),
        ("{text}=1", Program),
        ("nice -n 5 {text}", Program),
        ("env {text}", Program),
        ("exec {text}", Program),
        ("command {text}", Program),
        ("xargs {text}", Program),
        ("find . -exec {text} +", Program),
        ("if {text}; then say; fi", Program),
        ("say | {text}", Program),
        ("say && ! {text}", Program),
        ("$(echo {text}) x", Program),
        ("sh {text}", Program),
        (". {text}", Program),
        ("python3 {text}", Program),
        ("eval {text}", ProgramText),
        ("eval \"$(echo {text})\"", ProgramText),
        ("eval echo {text}", ProgramText),
        ("trap {text} EXIT", ProgramText),
        ("sh -c {text}", ProgramText),
        ("sh -c 'echo '{text}", ProgramText),
        ("/bin/bash -ec 'echo '{text} x", ProgramText),
        ("bash -o pipefail -c {text}", ProgramText),
        ("timeout 5 sh -c {text}", ProgramText),
        ("xargs -n 1 sh -c {text}", ProgramText),
        ("busybox sh -c {text}", ProgramText),
        ("find . -exec sh -c {text} \\;", ProgramText),
        ("python3.11 -c {text}", ProgramText),
        ("python3 -c 'print('{text}')'", ProgramText),
        ("perl -lne {text}", ProgramText),
        ("perl -e{text}", ProgramText),
        ("node --eval={text}", ProgramText),
        ("awk {text} x", ProgramText),
        ("awk -vf=1 '{{print '{text}'}}' x", ProgramText),
        ("sed s/a/{text}/ x", ProgramText),
        ("sed -ne p -e s/a/{text}/ x", ProgramText),
        ("ssh host say {text}", ProgramText),
        ("echo {text} | sh", ProgramText),
        ("bash -s < {text}", ProgramText),
        ("PATH={text} say", ProgramText),
        ("env LD_PRELOAD={text} say", ProgramText),
        ("PS4={text}; set -x; say", ProgramText),
        ("say $'it\\'s' ' {text}", Unclear),
        ("say {text} 'it is", Unclear),
        ("say \"${{x#'}}\" {text}", Unclear),
    ] {
        if !faults(line).contains(&Some(fault)) {
            failed.push((line, fault, faults(line)));
        }
    }
    assert_eq!(failed, []);
}

#[test]
fn paths_of_the_stage_are_variables_or_plain_text() {
    use Writing::*;
    for (line, writing) in [
        ("say > {out}", Word),
        ("{out}/tool x", Word),
        ("sh {out}; . {out}", Word),
        ("awk -f {out} x", Word),
        ("say > \"{out}\"", DoubleQuotes),
        ("say > \"$(dirname \"{out}\")\"", DoubleQuotes),
        ("sh -c 'say > {out}'", Literal),
        ("sh -c \"say > {out}\"", Literal),
        ("eval \"say > {out}\"", Literal),
        ("say > `echo {out}`", Literal),
        ("cat <<END\n{out}\nEND", Literal),
        ("sed s:a:{out}: x", Literal),
    ] {
        let places = Shell::read(line).unwrap().places;
        assert!(places.iter().all(|place| place.writing == writing), "{line}: {places:?}");
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
        ("say \"$(foo | wc)\"", "foo"),
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
    let deep = format!("{}'{{text}}'", "\"$(".repeat(200));
    assert_eq!(faults(&deep), [Some(Misplaced::Unclear)]);
}

proptest! {
    #[test]
    fn any_line_is_read(line in "[a-z{}()'\"`$\\\\<>;&|#\n case in esac\\[\\]]{0,60}") {
        let _ = Shell::read(&line);
    }
}
