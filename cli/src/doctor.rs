//! `doctor`: checks the machine, and prints one sentence for each thing that a run may need.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::fs::{Fs, RealFs, Space};
use cache::{Access, Cache, CacheError};
use camino::Utf8Path;
use engine::engine::WorkerCommand;
use engine::units;
use view::escape::clean;

use super::arguments;
use super::error::{CliError, Exit};
use super::project::{Program, cache_folder, manifest_file};
use super::worker;

/// Less free space than this is too little for a real run.
const LITTLE_SPACE: u64 = 2_000_000_000;
/// The time that another program has to answer.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum State {
    Good,
    /// A missing item that some stages need.
    Missing,
    Wrong,
}

struct Finding {
    what: &'static str,
    state: State,
    sentence: String,
}

impl Finding {
    fn new(what: &'static str, state: State, sentence: impl Into<String>) -> Finding {
        Finding { what, state, sentence: sentence.into() }
    }
}

pub fn doctor(
    program: &Program,
    arguments: &arguments::Doctor,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let folder = match (&arguments.location.cache, manifest_file(&arguments.location.manifest)) {
        (Some(folder), _) => folder.clone(),
        (None, Ok(file)) => cache_folder(&file, None),
        (None, Err(_)) => arguments.location.manifest.join(".throstle"),
    };
    let mut sick = false;
    let checks: [&dyn Fn() -> Finding; 5] =
        [&|| libtorch(&worker::command()), &gpu, &driver, &|| disk(&folder), &|| health(&folder)];
    for check in checks {
        let finding = check();
        let paint = program.terminal.data;
        let mark = match finding.state {
            State::Good => paint.good("ok     "),
            State::Missing => paint.warning("missing"),
            State::Wrong => paint.bad("wrong  "),
        };
        sick |= finding.state == State::Wrong;
        writeln!(output, "{mark}  {}: {}", finding.what, clean(&finding.sentence))?;
        output.flush()?;
    }
    Ok(if sick { Exit::Failed } else { Exit::Done })
}

fn libtorch(worker: &WorkerCommand) -> Finding {
    let Some(program) = &worker.program else {
        return Finding::new(
            "libtorch",
            State::Missing,
            "there is no worker program `throstle-torch`, so stages that need libtorch cannot run; \
             `make build` builds it",
        );
    };
    let mut command = Command::new(program.as_std_path());
    command.arg("check").envs(worker.environment.iter().map(|(name, value)| (name, value)));
    match answer(command) {
        Ok((true, text)) => read_report(&text),
        Ok((false, text)) => Finding::new(
            "libtorch",
            State::Wrong,
            format!(
                "`{program}` does not start: {}; set LIBTORCH to the folder of libtorch 2.11, or build \
                 the worker again with `make build`",
                last_line(&text)
            ),
        ),
        Err(error) => Finding::new(
            "libtorch",
            State::Wrong,
            format!("`{program}` cannot be started: {error}; build it again with `make build`"),
        ),
    }
}

/// The part of the worker's self-description that `doctor` reads.
#[derive(serde::Deserialize)]
struct Report {
    libtorch: String,
    devices: Vec<Device>,
    /// Explains why a GPU that is present cannot be used.
    cuda_error: Option<String>,
}

#[derive(serde::Deserialize)]
struct Device {
    name: String,
    model: Option<String>,
}

fn read_report(text: &str) -> Finding {
    let report: Report = match serde_json::from_str(text) {
        Ok(report) => report,
        Err(error) => {
            let sentence = format!(
                "the worker answers something else than a report ({error}): build it again from the \
                 same source as `throstle`"
            );
            return Finding::new("libtorch", State::Wrong, sentence);
        }
    };
    let device = |device: &Device| match &device.model {
        Some(model) => format!("{} ({model})", device.name),
        None => device.name.clone(),
    };
    let devices: Vec<String> = report.devices.iter().map(device).collect();
    let works = format!("libtorch {} works on {}", report.libtorch, devices.join(", "));
    match report.cuda_error {
        None => Finding::new("libtorch", State::Good, works),
        Some(error) => {
            let sentence = format!(
                "{works}, but not on the GPU: {error}; install torch 2.11 whole, with its CUDA \
                 packages, and set LIBTORCH to it"
            );
            Finding::new("libtorch", State::Wrong, sentence)
        }
    }
}

fn gpu() -> Finding {
    let device = Utf8Path::new("/dev/nvidia0");
    match (RealFs.exists(device).unwrap_or(false), smi()) {
        (true, Some(name)) => Finding::new("GPU", State::Good, first_line(&name, "there is one")),
        (true, None) => Finding::new(
            "GPU",
            State::Wrong,
            "there is a GPU, but `nvidia-smi` does not answer: install the driver of the machine again",
        ),
        (false, Some(_)) => Finding::new(
            "GPU",
            State::Wrong,
            "`nvidia-smi` answers, but there is no `/dev/nvidia0`: give the container its devices",
        ),
        (false, None) => Finding::new(
            "GPU",
            State::Missing,
            "there is none: stages on libtorch run on the processor",
        ),
    }
}

fn smi() -> Option<String> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=name,memory.total,memory.used", "--format=csv,noheader"]);
    answer(command).ok().filter(|(good, _)| *good).map(|(_, text)| text)
}

fn driver() -> Finding {
    match RealFs.read_system_file("/proc/driver/nvidia/version".into()) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Finding::new("driver", State::Good, first_line(&text, "it is loaded"))
        }
        Err(_) if RealFs.exists("/dev/nvidia0".into()).unwrap_or(false) => Finding::new(
            "driver",
            State::Wrong,
            "there is a GPU but no NVIDIA driver is loaded: install it, or start the machine again",
        ),
        Err(_) => Finding::new(
            "driver",
            State::Missing,
            "there is no NVIDIA driver; none is needed without a GPU",
        ),
    }
}

fn disk(folder: &Utf8Path) -> Finding {
    // The cache may not exist yet. The nearest existing parent folder is on the same disk.
    let mut place = folder;
    while !place.as_str().is_empty() && !RealFs.exists(place).unwrap_or(false) {
        place = place.parent().unwrap_or(Utf8Path::new(""));
    }
    let place = if place.as_str().is_empty() { Utf8Path::new(".") } else { place };
    match Space::of(place) {
        Err(error) => {
            Finding::new("disk", State::Wrong, format!("`{place}` cannot be looked at: {error}"))
        }
        Ok(space) => {
            let shown = units::bytes(space.free);
            match space.free < LITTLE_SPACE {
                true => Finding::new(
                    "disk",
                    State::Wrong,
                    format!(
                        "only {shown} are free at `{place}`: make room, see `throstle cache gc`, or choose another place with `--cache`"
                    ),
                ),
                false => {
                    Finding::new("disk", State::Good, format!("{shown} are free at `{place}`"))
                }
            }
        }
    }
}

fn health(folder: &Utf8Path) -> Finding {
    if !RealFs.exists(&folder.join("FORMAT")).unwrap_or(false) {
        return Finding::new(
            "cache",
            State::Good,
            format!("there is none in `{folder}` yet; the first run makes it"),
        );
    }
    let opened = match Cache::open(folder, Arc::new(RealFs), Access::ReadWrite) {
        Err(CacheError::Fs(error)) if error.is_denied() => {
            return Finding::new(
                "cache",
                State::Wrong,
                format!(
                    "`{folder}` can only be read: change its permissions, or choose another place with `--cache`"
                ),
            );
        }
        other => other,
    };
    let checked = opened.and_then(|cache| {
        let options = cache::VerifyOptions { repair: false, read_data: false };
        let report = cache.verify(options, &|_, _| ())?;
        Ok((cache.notes(), report))
    });
    match checked {
        Err(error) => Finding::new("cache", State::Wrong, error.to_string()),
        Ok((_, report)) if !report.is_clean() => Finding::new(
            "cache",
            State::Wrong,
            format!(
                "{} things in `{folder}` are damaged: `throstle cache verify --repair` sets them aside",
                report.damages.len()
            ),
        ),
        Ok((notes, _)) if !notes.is_empty() => {
            Finding::new("cache", State::Missing, notes.join("; "))
        }
        Ok((_, report)) => Finding::new(
            "cache",
            State::Good,
            format!(
                "`{folder}` is sound: all {} objects have the right size; locks work",
                units::count(report.objects)
            ),
        ),
    }
}

/// Runs a program, and returns whether it succeeded and its output.
fn answer(mut command: Command) -> std::io::Result<(bool, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let end = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok((
                false,
                format!("no answer after {}", units::seconds(PATIENCE.as_secs_f64())),
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.success(), text))
}

fn first_line(text: &str, fallback: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or(fallback).trim().to_owned()
}

fn last_line(text: &str) -> String {
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    line.unwrap_or("no output").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_does_not_start_is_wrong_and_none_is_missing() {
        let none = libtorch(&WorkerCommand::default());
        assert_eq!(none.state, State::Missing);
        let broken =
            WorkerCommand { program: Some("/no/such/worker".into()), ..Default::default() };
        assert_eq!(libtorch(&broken).state, State::Wrong);
    }

    #[test]
    fn a_gpu_that_cannot_be_used_is_wrong() {
        let report = |error: &str| {
            let devices = r#"[{"name":"cpu","model":null},{"name":"cuda:0","model":"T4"}]"#;
            read_report(&format!(
                r#"{{"program":"p","libtorch":"2.11.0","devices":{devices},"cuda_error":{error}}}"#
            ))
        };
        let good = report("null");
        assert_eq!(good.sentence, "libtorch 2.11.0 works on cpu, cuda:0 (T4)");
        assert_eq!(good.state, State::Good);
        assert_eq!(report("\"no libcudart\"").state, State::Wrong);
        assert_eq!(read_report("hello").state, State::Wrong);
    }

    #[test]
    fn the_last_words_of_a_program_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo; echo libc10.so is missing >&2; exit 3"]);
        let (good, text) = answer(command).unwrap_or((true, String::new()));
        assert!(!good);
        assert_eq!(
            (first_line(&text, ""), last_line(&text)),
            ("first".into(), "libc10.so is missing".into())
        );
    }
}
