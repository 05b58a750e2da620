//! A run as long as a test needs: waiting stages, a training, a fake GPU.

use std::process::Command;

use throstle_tests::screen::Screen;
use throstle_tests::{Project, command};

/// The training continues until it is stopped; `held` waits for the file `go`.
const MANIFEST: &str = r#"
[pipeline]
name = "long"

[session]
price_per_hour = 3600.0
budget = 100000.0

[stage.lines]
use = "test.lines"
folder = "data"

[stage.checked]
use = "command"
input = "lines"
fields = ["speaker"]
command = "case {speaker} in z) echo no such voice >&2; exit 3;; esac; echo {speaker} > {out.said}"
outputs = { said = "said.txt" }
quarantine = 0.5
export = "out/{id}.txt"

[stage.held]
use = "command"
input = "lines"
fields = ["speaker"]
command = "case {speaker} in h*) while [ -e {base}/data ] && ! [ -e {base}/go ]; do sleep 0.02; done;; esac; echo {speaker} > {out.said}"
outputs = { said = "said.txt" }

[stage.model]
use = "test.train"
input = "lines"
steps = 100000
every = 20
pause = "5ms"
frozen = "1KB"

[stage.joined]
use = "report.summary"
input = ["lines", "held"]
artifacts = ["model"]
export = "out/joined.json"
"#;

/// The command of `held`, which waits for the file `go` at the item `h`.
pub const HELD: &str = "case {speaker} in h*) while [ -e {base}/data ] && ! [ -e {base}/go ]; do sleep 0.02; done;; esac";

/// The library of the driver, in a folder of the project.
const GPU: &str = "libraries/libnvidia-ml.so.1";

pub fn project() -> Project {
    let project = Project::new(MANIFEST);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "z"] {
        project.write(&format!("data/{name}.txt"), name);
    }
    project.write("libraries/README", "A fake GPU.");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages/view/fake_nvml.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(project.file(GPU)).arg(source);
    assert!(compiler.status().unwrap().success());
    project
}

/// `run` in that project, with the fake GPU, in sixteen colours.
pub fn program(project: &Project, arguments: &[&str]) -> Command {
    let mut command = command("small_world", project.path(), &[&["run", "."], arguments].concat());
    command.env("LD_LIBRARY_PATH", project.file("libraries")).env_remove("CUDA_VISIBLE_DEVICES");
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command
}

pub fn start(project: &Project, columns: u16, rows: u16) -> Screen {
    Screen::start(program(project, &["--threads", "4"]), columns, rows)
}

/// Until the training has reported a few losses and saved a checkpoint, and the GPU was queried.
pub fn wait_for_training(screen: &Screen) -> String {
    screen.wait_for("checkpoint at");
    screen.wait_for("cuda:0");
    screen.wait_until("a curve of the loss", |shown| {
        shown.matches(|letter| ('▁'..='█').contains(&letter)).count() >= 5
    })
}
