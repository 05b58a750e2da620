#![allow(clippy::unwrap_used)]
use super::*;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn shell(line: &str) -> Program {
    let mut command = Command::new("/bin/sh");
    start(command.args(["-c", line]).stdout(Stdio::piped())).unwrap()
}

/// The process id that a program prints first.
fn number(program: &mut Program) -> u32 {
    let mut line = String::new();
    BufReader::new(program.pipes().1.unwrap()).read_line(&mut line).unwrap();
    line.trim().parse().unwrap()
}

fn is_gone(process: u32) -> bool {
    let begin = Instant::now();
    while tree::ticks(process).is_some() {
        if begin.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

#[test]
fn a_program_that_has_ended_keeps_its_number_until_it_is_let_go() {
    let program = shell("exit 3");
    assert!(program.ends_within(Duration::from_secs(20)).unwrap());
    let handle = program.handle();
    assert!(handle.ticks().is_some(), "it was reaped");
    let ended = program.end().unwrap();
    assert_eq!((ended.status.code(), ended.is_group_gone), (Some(3), true));
    assert!(handle.ticks().is_none());
    // Its process id may be reused.
    handle.end();
}

#[test]
fn what_a_program_leaves_in_its_group_ends_with_it() {
    let mut program = shell("sleep 1000 >&- & echo $!");
    let left = number(&mut program);
    assert!(program.ends_within(Duration::from_secs(20)).unwrap());
    let ended = program.end().unwrap();
    assert!(!ended.is_group_gone || tree::ticks(left).is_none(), "it was still there");
    assert!(is_gone(left));
}

#[test]
fn what_is_below_a_program_in_a_group_of_its_own_is_ended_too() {
    let mut program = shell("setsid sh -c 'echo $$; exec >&-; while :; do sleep 1000; done'");
    let below = number(&mut program);
    assert!(!program.has_ended().unwrap());
    program.end().unwrap();
    assert!(is_gone(below));
}

#[test]
fn a_program_that_was_stopped_can_be_woken_and_ended() {
    let mut program = shell("echo $$; kill -STOP $$; exit 5");
    let process = number(&mut program);
    let is_stopped = || {
        let stat = std::process::Command::new("cat").arg(format!("/proc/{process}/stat")).output();
        String::from_utf8_lossy(&stat.unwrap().stdout).contains(") T ")
    };
    while !is_stopped() {
        std::thread::sleep(POLL);
    }
    program.handle().wake();
    assert!(program.ends_within(Duration::from_secs(20)).unwrap());
    assert_eq!(program.end().unwrap().status.code(), Some(5));
}
