//! Child processes that run a lab's folder.

use std::process::{Child, Command, Stdio};

use camino::Utf8Path;
use engine::event::Event;

/// The end of a child process.
pub enum Ended {
    /// With this as its last event.
    Itself(Event),
    Killed,
}

pub fn start(program: &str, folder: &Utf8Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.arg(folder).args(arguments).stdout(Stdio::piped()).spawn().unwrap()
}

pub fn wait(child: Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    match output.status.code() {
        Some(0) => Ended::Itself(serde_json::from_slice(&output.stdout).unwrap()),
        None => Ended::Killed,
        Some(code) => panic!("ended with {code}"),
    }
}
