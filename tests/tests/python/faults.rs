//! `python` with programs that die, hang, lie, or cannot start.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use throstle_tests::{Project, RanProgram, Running};

use crate::{project, values};

const TEXT: &str = "fields = [\"id\", \"text\"]\noutputs = { n = \"number\" }\nquarantine = 0.9\n\
    retries = 1\n";

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number:02}")).collect()
}

/// A stage on ten clips with a function of this body.
fn failing(body: &str, more: &str) -> Project {
    let names = names(10);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let script = format!(
        "import os, signal, sys, time\nfrom throstle import stage\n@stage\n\
         def measure(item, state):\n{body}\n    return {{'n': 1}}\n"
    );
    project(&names, &script, &format!("{TEXT}{more}"))
}

fn aside(ran: &RanProgram) -> Vec<(&str, &str, &str)> {
    let text =
        |value: &'static str| move |event: &&Value| event[value].as_str().unwrap().to_owned();
    let _ = text;
    let each = ran.all("item-quarantined").into_iter().map(|event| {
        let of = |name: &str| event[name].as_str().unwrap();
        (of("item"), of("code"), of("reason"))
    });
    each.collect()
}

fn failure(ran: &RanProgram) -> &str {
    let failed = ran.all("stage-failed");
    assert_eq!(failed.len(), 1, "{failed:?} {}", ran.errors);
    failed[0]["message"].as_str().unwrap()
}

#[test]
fn an_item_that_kills_the_process_is_found_by_halving_and_set_aside_for_this_run() {
    for (body, told) in [
        ("os.kill(os.getpid(), 9)", "killed by signal 9 (SIGKILL)"),
        ("os._exit(3)", "the program ended with status 3"),
        ("os.close(0); os._exit(0)", "the program ended with status 0"),
        ("print('last words', file=sys.stderr, flush=True); os.abort()", "it said: last words"),
    ] {
        let project = failing(&format!("    if item['id'] == 'n07': {body}"), "batch = 8\n");
        let ran = project.run();
        let aside = aside(&ran);
        assert_eq!((aside.len(), aside[0].0, aside[0].1), (1, "n07", "worker-died"), "{aside:?}");
        assert!(aside[0].2.contains(told), "{}", aside[0].2);
        // It was no verdict, and so the stage has no complete output yet.
        project.replace("measure.py", "'n07'", "'none'");
        assert_eq!(project.run().executed()["measured"], 10);
    }
}

#[test]
fn a_hanging_item_is_set_aside_after_its_time_and_loading_does_not_count() {
    let body = "    if item['id'] == 'n03': time.sleep(600)";
    let project = failing(body, "batch = 4\ntimeout = \"1s\"\n");
    project.edit("measure.py", |text| text.replace("@stage\n", "time.sleep(2.5)\n@stage\n"));
    let began = Instant::now();
    let ran = project.run();
    let aside = aside(&ran);
    assert_eq!((aside.len(), aside[0].0, aside[0].1), (1, "n03", "timed-out"), "{aside:?}");
    assert!(aside[0].2.starts_with("not done after 1 s: raise `timeout`"), "{}", aside[0].2);
    assert!(began.elapsed() < Duration::from_secs(300));
}

/// Each of 200 items would take its time otherwise.
#[test]
fn a_function_that_always_hangs_fails_the_stage_after_three_items() {
    for (decorated, batch) in [("@stage\n", "batch = 8"), ("@stage(batch=True)\n", "batch = 2")] {
        let names = names(200);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let script = format!(
            "import time\nfrom throstle import stage\n{decorated}def measure(item, state):\n    \
             time.sleep(600)\n"
        );
        let project = project(&names, &script, &format!("{TEXT}{batch}\ntimeout = \"0.5s\"\n"));
        let began = Instant::now();
        let ran = project.run();
        let told = "the first 3 items did not finish within 0.5 s each";
        assert!(failure(&ran).contains(told), "{}", failure(&ran));
        assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
    }
}

/// A function that is called for each item has its time for each.
#[test]
fn slow_items_of_a_batch_may_take_longer_together_than_one_may_take() {
    let project = failing("    time.sleep(0.4)", "batch = 10\nworkers = 1\ntimeout = \"2s\"\n");
    let ran = project.run();
    assert_eq!(aside(&ran), Vec::<(&str, &str, &str)>::new());
    assert_eq!(ran.executed()["measured"], 10);
}

/// Programs that speak the protocol by themselves, and wrongly.
#[test]
fn a_program_that_lies_is_ended_and_its_items_are_set_aside() {
    let speak = |line: &str| {
        format!(
            "import json, os, sys\nown = os.dup(1)\ndef measure(item):\n    \
             sys.stdout.flush()\n    import throstle.worker as w, gc\n    \
             worker = [it for it in gc.get_objects() if isinstance(it, w.Worker)][0]\n    \
             out = worker.output\n    {line}\n    return {{'n': 1}}\n"
        )
    };
    for (line, told) in [
        ("os.write(out, b'not json\\n')", "its answer `not json` is invalid"),
        ("os.write(out, b'{\"type\": \"other\"}\\n')", "is invalid: unknown variant"),
        ("os.write(out, b'\\xff\\xfe\\n')", "is invalid"),
        ("os.write(out, b'[' * 100000 + b'\\n')", "is invalid"),
        ("[os.write(out, b'x' * 65536) for _ in range(300)]", "a line of more than"),
        (
            "os.write(out, b'{\"type\": \"done\", \"request\": 77, \"results\": []}\\n')",
            "it sent an unexpected answer",
        ),
        (
            "worker.send(type='done', request=1, results=[{'id': '99', 'fields': {'n': 1}}])",
            "it returned a result for an unknown item",
        ),
        ("worker.send(type='done', request=1, results=[])", "results missing: 1"),
        (
            "worker.send(type='done', request=1, results=[{'id': '0'}])",
            "it returned no result or several for an item",
        ),
        ("worker.send(type='refused', reason='no')", "it sent an unexpected answer"),
    ] {
        let more = format!("{TEXT}function = \"measure\"\nbatch = 1\n");
        let project = project(&["a"], &speak(line), &more);
        let ran = project.run();
        let message = failure(&ran);
        assert!(message.contains("violates the protocol"), "{line}: {message}");
        assert!(message.contains(told), "{line}: {message}");
    }
}

#[test]
fn an_output_that_is_wrong_sets_its_item_aside() {
    let secret = tempfile();
    for (result, code) in [
        ("{}", "no-output"),
        ("{'n': 1, 'f': b'', 'more': 2}", "python-failed"),
        ("{'n': 'many', 'f': b''}", "python-failed"),
        ("{'n': float('nan'), 'f': b''}", "python-failed"),
        ("{'n': 1, 'f': 'missing.txt'}", "no-output"),
        ("{'n': 1, 'f': '/etc/passwd'}", "output-outside"),
        ("{'n': 1, 'f': '../../code/script.py'}", "output-outside"),
        ("{'n': 1, 'f': link(item)}", "output-no-file"),
        ("{'n': 1, 'f': folder(item)}", "output-no-file"),
        ("{'n': 1, 'f': below(item)}", "output-no-file"),
        ("[1]", "python-failed"),
        ("None", "python-failed"),
        ("sys.exit('over')", "python-failed"),
        ("{'n': '\\ud800', 'f': b''}", "python-failed"),
    ] {
        let script = format!(
            "import os, sys\nTARGET = {secret:?}\n\
             def link(item):\n    os.symlink(TARGET + '/secret', item.out + '/l')\n    return 'l'\n\
             def folder(item):\n    os.mkdir(item.out + '/d')\n    return 'd'\n\
             def below(item):\n    os.symlink(TARGET, item.out + '/s')\n    return 's/secret'\n\
             def measure(item):\n    if item['id'] == 'a': return {result}\n    \
             return {{'n': 1, 'f': b'well'}}\n"
        );
        let more = "function = \"measure\"\nfields = [\"id\"]\nquarantine = 0.9\n\
            outputs = { n = \"number\", f = \"file/txt\" }\n";
        let project = project(&["a", "b"], &script, more);
        let ran = project.run();
        let aside = aside(&ran);
        assert_eq!((aside.len(), aside[0].0, aside[0].1), (1, "a", code), "{result}: {aside:?}");
        assert_eq!(ran.executed()["measured"], 2, "{result}");
    }
    std::fs::remove_dir_all(secret).unwrap();
}

#[test]
fn the_reason_names_the_path_that_the_function_returned_and_what_lies_there() {
    for (result, told) in [
        (
            "{'f': '/etc/passwd'}",
            "is not in the folder of its item: its path `/etc/passwd` is absolute; write it \
             relative to the folder of the outputs",
        ),
        ("{'f': '../x'}", "its path `../x` leads outside its folder"),
        ("{'f': pipe(item)}", "the output `f` is a named pipe, not a file"),
        ("{'f': item.out + '/own'}", ""),
    ] {
        let script = format!(
            "import os\ndef pipe(item):\n    os.mkfifo(item.out + '/p')\n    return 'p'\n\
             def measure(item):\n    open(item.out + '/own', 'w').close()\n    return {result}\n"
        );
        let more = "function = \"measure\"\nfields = []\nquarantine = 1.0\n\
            outputs = { f = \"file/txt\" }\n";
        let project = project(&["a"], &script, more);
        let ran = project.run();
        let aside = aside(&ran);
        assert_eq!(aside.len(), usize::from(!told.is_empty()), "{result}: {aside:?}");
        assert!(aside.iter().all(|(_, _, reason)| reason.ends_with(told)), "{result}: {aside:?}");
    }
}

/// A folder of somebody else, with a file.
fn tempfile() -> String {
    let folder = std::env::temp_dir().join(format!("throstle-secret-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("secret"), "precious").unwrap();
    folder.to_str().unwrap().to_owned()
}

#[test]
fn what_keeps_a_program_from_starting_is_told_once_with_its_place() {
    for (script, told) in [
        (
            "def measure(item:\n    pass\n",
            "SyntaxError: '(' was never closed (line 1 of the script)",
        ),
        ("import nosuchpackage\n", "No module named 'nosuchpackage' (line 1 of the script)"),
        ("x = 1\n", "the script has no function `measure`"),
        (
            "from throstle import stage\ndef load(setup):\n    raise RuntimeError('no weights')\n\
             @stage(setup=load)\ndef measure(item, state):\n    return {}\n",
            "RuntimeError: no weights (line 3 of the script in `load`)",
        ),
        ("import os\nos._exit(4)\n", "it ended before it was ready"),
        ("import sys\nsys.exit('not today')\n", "SystemExit: not today"),
        (
            "from throstle import stage\n@stage(outputs={'m': 'text'})\ndef measure(item):\n    pass\n",
            "the script has the outputs `m` (text), but the manifest has `n` (number)",
        ),
        (
            "from throstle import stage\n@stage(version=2)\ndef measure(item):\n    pass\n",
            "the script has version `2`, but the manifest has `1`",
        ),
    ] {
        let more = format!("{TEXT}function = \"measure\"\nversion = \"1\"\n");
        let project = project(&["a", "b", "c"], script, &more);
        let ran = project.run();
        assert_eq!(ran.code, Some(1));
        assert!(failure(&ran).contains(told), "{}", failure(&ran));
        assert!(aside(&ran).is_empty());
    }
    let project = failing("    pass", "python = \"pythonette\"\n");
    assert!(failure(&project.run()).contains("the Python interpreter `pythonette` was not found"));
}

#[test]
fn a_program_that_fails_on_every_item_fails_the_stage_with_one_message() {
    let names = names(30);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let script = "def measure(item):\n    return {'n': item['nothing']}\n";
    let project = project(&names, script, &format!("{TEXT}function = \"measure\"\n"));
    let ran = project.run();
    let message = "the first 20 items failed in the same way: the program failed; it said: \
                   KeyError: '`nothing` is not one of the `fields` of the stage: id, text' (line 2 \
                   of the script in `measure`)";
    assert_eq!(failure(&ran), message);
    assert!(aside(&ran).is_empty());
    project.replace("measure.py", "item['nothing']", "1");
    assert_eq!(project.run().executed()["measured"], 30);
}

#[test]
fn a_failure_may_end_the_run_and_is_no_verdict() {
    let project =
        failing("    if item['id'] == 'n05': raise ValueError('odd')", "on_failure = \"fail\"\n");
    let ran = project.run();
    assert_eq!(ran.code, Some(1));
    assert!(failure(&ran).contains("ValueError: odd (line 5 of the script in `measure`)"));
    project.replace("measure.py", "'n05'", "'none'");
    assert_eq!(project.run().code, Some(0));
}

#[test]
fn a_fault_of_the_machine_is_no_verdict() {
    let body = "    if item['id'] == 'n05': raise OSError(24, 'Too many open files')";
    let project = failing(body, "");
    let ran = project.run();
    assert!(aside(&ran).iter().all(|(_, code, _)| *code != "python-failed"), "{:?}", aside(&ran));
    project.replace("measure.py", "'n05'", "'none'");
    let again = project.run();
    assert_eq!(again.code, Some(0));
    assert_eq!(values(&project, "measured", "n").len(), 10);
}

/// The disk of the cache has room: it is another one that is full.
#[test]
fn a_fault_of_the_machine_pauses_the_run_and_sets_nothing_aside() {
    let gone = tempfile::tempdir().unwrap();
    let fixed = gone.path().join("fixed");
    for (raised, told) in [
        ("open('/dev/full', 'wb', 0).write(b'x')", "No space left on device"),
        ("raise OSError(errno.EDQUOT, 'x')", "[Errno 122] x"),
        ("raise OSError(errno.EIO, 'x')", "[Errno 5] x"),
        ("raise OSError(errno.ENOMEM, 'x')", "[Errno 12] x"),
        ("wrapped()", "RuntimeError: not saved"),
        ("grouped()", "Group: two tasks"),
        ("raise MemoryError('big') from OSError(errno.ENOSPC, 'x')", "MemoryError: big"),
    ] {
        for more in ["batch = 8\nworkers = 1\n", "batch = 1\n"] {
            let body =
                format!("    if item['id'] == 'n03' and not os.path.exists({fixed:?}): {raised}");
            let project = failing(&body, more);
            let wrapped = "import errno, os\ndef wrapped():\n    try:\n        \
                raise OSError(errno.EROFS, 'x')\n    except OSError as error:\n        \
                raise RuntimeError('not saved') from error\n\
                try:\n    Group = ExceptionGroup\nexcept NameError:\n    \
                class Group(Exception):\n        def __init__(self, text, parts):\n            \
                super().__init__(text)\n            self.exceptions = parts\n\
                def grouped():\n    \
                parts = [ValueError('x'), OSError(errno.ENOSPC, 'x')]\n    \
                raise Group('two tasks', parts)\n";
            project.edit("measure.py", |script| format!("{wrapped}{script}"));
            let ran = project.run();
            assert_eq!((ran.code, aside(&ran)), (Some(75), Vec::new()), "{raised}: {}", ran.errors);
            let why = ran.all("stopping")[0]["why"].as_str().unwrap();
            assert!(why.contains(told), "{raised}: {why}");
            std::fs::write(&fixed, "").unwrap();
            let again = project.run();
            assert_eq!((again.code, again.quarantined("measured")), (Some(0), 0), "{raised}");
            assert_eq!(values(&project, "measured", "n").len(), 10);
            project.run().assert_nothing_done();
            std::fs::remove_file(&fixed).unwrap();
        }
    }
}

/// The text alone may be about the input, so only its item waits for the next run.
#[test]
fn an_item_that_speaks_of_a_fault_is_set_aside_alone() {
    for said in ["Input/output error", "the caption reads: No space left on device"] {
        let body = format!("    if item['id'] == 'n05': raise RuntimeError({said:?})");
        let project = failing(&body, "batch = 8\nworkers = 1\n");
        let ran = project.run();
        let found = aside(&ran);
        assert_eq!((found.len(), found[0].0, found[0].1), (1, "n05", "failed"), "{found:?}");
        assert_eq!(values(&project, "measured", "n").len(), 9);
    }
}

#[test]
fn a_program_that_cannot_start_for_a_fault_of_the_machine_pauses_the_run() {
    let gone = tempfile::tempdir().unwrap();
    let fixed = gone.path().join("fixed");
    let body = format!(
        "import errno, os\nif not os.path.exists({fixed:?}):\n    \
        raise OSError(errno.EIO, 'x')\n"
    );
    let project = failing("    pass", "");
    project.edit("measure.py", |script| format!("{body}{script}"));
    let ran = project.run();
    assert_eq!((ran.code, aside(&ran)), (Some(75), Vec::new()), "{}", ran.errors);
    std::fs::write(&fixed, "").unwrap();
    assert_eq!(project.run().executed()["measured"], 10);
}

#[test]
fn an_item_without_memory_is_tried_in_smaller_batches_and_never_condemned() {
    let body = "    if item['id'] == 'n05': raise MemoryError('too long')";
    let project = failing(body, "batch = 4\n");
    let ran = project.run();
    let found = aside(&ran);
    assert_eq!((found.len(), found[0].0, found[0].1), (1, "n05", "out-of-memory"), "{found:?}");
    project.replace("measure.py", "'n05'", "'none'");
    assert_eq!(project.run().quarantined("measured"), 0);
}

/// Kills the process before each message that it sends, and before each that it receives: the next
/// run continues, and ends with the same items.
#[test]
fn a_process_that_dies_once_at_any_message_changes_no_result() {
    for (way, least) in [("send", 11), ("receive", 5)] {
        let mut deaths = 0;
        while dies_at(way, deaths) {
            deaths += 1;
        }
        // Ten items in four batches: it is ready, four are done, and progress lies between.
        assert!(deaths >= least, "{deaths} messages with {way}");
    }
}

/// Ten items with a process that dies once before message `at`; false if it has fewer of them.
fn dies_at(way: &str, at: usize) -> bool {
    let script = format!(
        "import os\nfrom throstle import stage\nimport throstle.worker as w\n\
         MARK = os.environ['MARK']\nseen = [0]\nown = w.Worker.{way}\n\
         def dying(self, **message):\n    \
         seen[0] += 1\n    \
         if seen[0] == {at} + 1 and not os.path.exists(MARK):\n        \
         open(MARK, 'w').close(); os.kill(os.getpid(), 9)\n    \
         return own(self, **message)\n\
         w.Worker.{way} = dying\n@stage\ndef measure(item, state):\n    return {{'n': len(item['text'])}}\n"
    );
    let names = names(10);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let project = project(&names, &script, &format!("{TEXT}batch = 3\nworkers = 1\n"));
    let mark = project.file("died.marker");
    let line = format!("environment = {{ MARK = {mark:?} }}\n");
    project.edit("pipeline.toml", |text| format!("{text}{line}"));
    let mut ran = project.run();
    let died = mark.exists();
    if ran.code != Some(0) {
        assert!(died, "{way} {at}: {}", ran.errors);
        ran = project.run();
    }
    assert_eq!((ran.code, ran.quarantined("measured")), (Some(0), 0), "{way} {at}: {}", ran.errors);
    let sizes = values(&project, "measured", "n");
    assert!(sizes.len() == 10 && sizes.iter().all(|(_, size)| *size == json!(9.0)), "{sizes:?}");
    died
}

#[test]
fn a_second_signal_ends_the_programs_and_the_next_run_continues() {
    let pids = std::env::temp_dir().join(format!("throstle-pids-{}", std::process::id()));
    let body = format!(
        "    open({pids:?}, 'a').write(str(os.getpid()) + '\\n')\n    \
         if item['id'] > 'n04' and not os.path.exists({:?}): time.sleep(600)",
        format!("{}.go", pids.display())
    );
    let project = failing(&body, "batch = 1\nworkers = 1\n");
    let mut running = Running::start(project.throstle(&["run", ".", "--json"]));
    running.read_until(|event| event["event"] == "stage-started" && event["stage"] == "measured");
    let began = Instant::now();
    while !std::fs::read_to_string(&pids).is_ok_and(|text| text.ends_with('\n')) {
        assert!(began.elapsed() < Duration::from_secs(60), "no item reached the program");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.send(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    running.send(Signal::SIGINT);
    let _ = running.ended();
    let began = Instant::now();
    let process = std::fs::read_to_string(&pids).unwrap();
    let process = std::path::Path::new("/proc").join(process.lines().next().unwrap());
    while process.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(format!("{}.go", pids.display()), "").unwrap();
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    assert_eq!(values(&project, "measured", "n").len(), 10);
    std::fs::remove_file(&pids).unwrap();
    std::fs::remove_file(format!("{}.go", pids.display())).unwrap();
}
