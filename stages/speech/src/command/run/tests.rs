#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]
use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> &Utf8Path {
        Utf8Path::from_path(self.0.path()).unwrap()
    }

    fn spec(&self, line: &str, outputs: &[&str]) -> CommandSpec<'_> {
        CommandSpec {
            line: CommandLine::plain(line),
            folder: self.folder(),
            environment: [("PATH".to_owned(), "/usr/bin:/bin".into())].into(),
            outputs: outputs.iter().map(Utf8PathBuf::from).collect(),
            timeout: Some(Duration::from_secs(60)),
            inputs: None,
            said: None,
        }
    }

    fn run(&self, line: &str, outputs: &[&str]) -> Result<ProgramOutput, CommandError> {
        run(&self.spec(line, outputs), || false)
    }

    fn message(&self, line: &str, outputs: &[&str]) -> String {
        self.run(line, outputs).unwrap_err().to_string()
    }
}

#[test]
fn declared_outputs_come_back_in_their_order() {
    let finished = Place::new().run("printf b > b; printf a > a; echo said", &["a", "b"]).unwrap();
    assert_eq!(finished.outputs, [Bytes::from("a"), Bytes::from("b")]);
    assert_eq!(finished.stdout, "said\n");
}

#[test]
fn only_the_declared_environment_is_seen() {
    let place = Place::new();
    let mut spec = place.spec("/usr/bin/env > seen", &["seen"]);
    spec.environment.insert("VOICE".to_owned(), "fi".into());
    let seen = String::from_utf8(run(&spec, || false).unwrap().outputs[0].to_vec()).unwrap();
    let mut names: Vec<&str> = seen.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort();
    // The shell sets the others itself.
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    assert_eq!(names, ["PATH", "VOICE"]);
}

#[test]
fn a_failure_carries_the_end_of_what_was_said() {
    let place = Place::new();
    assert_eq!(
        place.message("echo bad clip >&2; exit 3", &[]),
        "the command ended with status 3; it said: bad clip"
    );
    let long = place.message("seq 100000 >&2; printf '\\033[2Jlast' >&2; exit 1", &[]);
    assert!(
        long.len() < tail::KEPT_BYTES + 100 && long.ends_with("100000\n\u{FFFD}[2Jlast"),
        "{long}"
    );
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let message = Place::new().message("no-such-program-at-all --x", &[]);
    assert!(
        message.starts_with("the program `no-such-program-at-all` was not found; install it"),
        "{message}"
    );
}

#[test]
fn a_missing_program_at_the_start_of_a_line_is_named() {
    let place = Place::new();
    let environment = place.spec("", &[]).environment;
    let check = |line: &str| check_programs(line, place.folder(), &environment);
    for line in [
        "printf x",
        "if true; then x; fi",
        "X=1 true",
        "/bin/sh -c x",
        "{no} x",
        "no-such-program-at-all || printf x",
    ] {
        assert!(check(line).is_ok(), "{line}");
    }
    for line in ["no-such-program-at-all --x", "X=1 /no/such/program"] {
        assert!(matches!(check(line), Err(CommandError::NotFound { .. })), "{line}");
    }
}

#[test]
fn a_missing_program_of_a_pipeline_is_named() {
    let place = Place::new();
    let environment = place.spec("", &[]).environment;
    let check = |line: &str| check_programs(line, place.folder(), &environment);
    for line in [
        "no-such-program-at-all | wc -l > {out.n}",
        "true; cat x | no-such-program-at-all --x | wc -l",
        "if true; then no-such-program-at-all | wc -l; fi",
        "printf x | 'no-such-program-at-all' | wc -l",
        "printf x | nice -n 5 env A=b no-such-program-at-all | wc -l",
        "timeout 5 no-such-program-at-all x",
    ] {
        let error = check(line).unwrap_err().to_string();
        assert!(error.starts_with("the program `no-such-program-at-all` was not found"), "{error}");
    }
    for line in ["printf x | wc -l", "no() {{ echo; }}; no | wc -l", "true; read x | true"] {
        assert!(check(line).is_ok(), "{line}");
    }
    let relative = check("printf x | ./tool | wc -l").unwrap_err().to_string();
    assert!(relative.contains("`./tool`") && relative.contains("`{base}/`"), "{relative}");
    // The last one ends with the status of a missing program.
    let message = place.message("printf x | no-such-program-at-all", &[]);
    assert!(message.starts_with("the program `no-such-program-at-all` was not found"), "{message}");
}

#[test]
fn a_killed_program_names_the_signal() {
    assert_eq!(
        Place::new().message("kill -9 $$", &[]),
        "the command was killed by signal 9 (SIGKILL)"
    );
}

#[test]
fn what_the_shell_says_of_a_killed_program_is_the_same() {
    let message = Place::new().message("echo a >&2; sh -c 'kill -9 $$'; exit $?", &[]);
    assert!(message.starts_with("the command was killed by signal 9 (SIGKILL)"), "{message}");
    let error = Place::new().run("echo a >&2; echo b >&2; exit 3", &[]).unwrap_err();
    assert_eq!(error.in_short(), "the command ended with status 3; it said: b");
}

#[test]
fn an_output_must_be_a_file_that_was_written() {
    let place = Place::new();
    assert_eq!(place.message("true", &["a"]), "the command succeeded but did not write `a`");
    assert_eq!(
        place.message("ln -s /etc/passwd a", &["a"]),
        "the output `a` is a link or a folder, not a file"
    );
    assert_eq!(
        place.message("rm a; mkfifo a", &["a"]),
        "the output `a` is a named pipe, not a file"
    );
}

#[test]
fn a_timeout_ends_the_program_and_what_it_started() {
    let place = Place::new();
    let mut spec = place.spec("sleep 600 & echo $! > pid; wait", &[]);
    spec.timeout = Some(Duration::from_millis(300));
    assert!(matches!(run(&spec, || false), Err(CommandError::Timeout { .. })));
    assert_gone(&place);
}

#[test]
fn what_a_finished_program_left_running_is_ended() {
    let place = Place::new();
    place.run("sleep 600 & echo $! > pid", &["pid"]).unwrap();
    assert_gone(&place);
}

#[test]
fn a_stop_ends_the_program() {
    let place = Place::new();
    let spec = place.spec("echo $$ > pid; exec sleep 600", &[]);
    let stopped = run(&spec, || place.folder().join("pid").exists());
    assert!(matches!(stopped, Err(CommandError::Stopped)));
}

/// The process with the written number ends: it is gone, or waits to be reaped.
fn assert_gone(place: &Place) {
    let pid = fs::read_to_string(place.folder().join("pid")).unwrap();
    let runs = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    };
    // A signal is delivered a moment after it was sent.
    let mut patience = 1000;
    while runs() {
        patience -= 1;
        assert!(patience > 0, "process {pid} still runs");
        std::thread::sleep(LOOK);
    }
}

#[test]
fn a_line_of_plain_words_has_no_shell_above_it() {
    let parent = |line: &str| {
        let stat = Place::new().run(line, &[]).unwrap().stdout;
        let fields = stat.rsplit(") ").next().unwrap();
        fields.split(' ').nth(1).unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(parent("cat /proc/self/stat"), std::process::id());
    assert_ne!(parent("cat /proc/self/stat; true"), std::process::id());
}

#[test]
fn a_script_without_a_first_line_for_the_system_is_run_by_the_shell() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let script = place.folder().join("script");
    fs::write(&script, "echo \"heard $1\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let finished = place.run(&format!("{script} 'a b'"), &[]).unwrap();
    assert_eq!(finished.stdout, "heard a b\n");
}

#[test]
fn a_program_that_closes_its_streams_or_floods_them_is_waited_for() {
    let place = Place::new();
    place.run("exec >&- 2>&-; sleep 0.2; echo made > a", &["a"]).unwrap();
    let finished = place.run("seq 200000; seq 200000 >&2; printf last >&2", &[]).unwrap();
    assert!(finished.stdout.ends_with("200000\n") && finished.stderr.ends_with("200000\nlast"));
}

#[test]
fn what_was_said_is_kept_though_a_process_out_of_reach_holds_the_stream() {
    let place = Place::new();
    let line = "setsid sh -c 'sleep 4' & echo said; echo why >&2; exit 3";
    assert_eq!(place.message(line, &[]), "the command ended with status 3; it said: why");
}
