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
use stage_core::device::DeviceId;
use view::escape::clean;

use super::player::player;
use super::worker;
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::project::{Program, cache_folder, manifest_file};

/// Less free space than this is too little for a real run.
const LITTLE_SPACE: u64 = 2_000_000_000;
/// The time that another program has to answer.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum CheckState {
    Good,
    /// A missing item that some stages need.
    Missing,
    Wrong,
}

struct Finding {
    what: &'static str,
    state: CheckState,
    sentence: String,
}

impl Finding {
    fn new(what: &'static str, state: CheckState, sentence: impl Into<String>) -> Finding {
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
    let asked = ask(&worker::command());
    let checks: [&dyn Fn() -> Finding; 6] = [
        &|| libtorch(&asked),
        &onnxruntime,
        &|| gpu(&asked),
        &|| driver(&asked),
        &|| disk(&folder),
        &|| health(&folder),
    ];
    for check in checks {
        let finding = check();
        let paint = program.terminal.data;
        let mark = match finding.state {
            CheckState::Good => paint.good("ok     "),
            CheckState::Missing => paint.warning("missing"),
            CheckState::Wrong => paint.bad("wrong  "),
        };
        sick |= finding.state == CheckState::Wrong;
        writeln!(output, "{mark}  {}: {}", finding.what, clean(&finding.sentence))?;
        output.flush()?;
    }
    Ok(if sick { Exit::Failed } else { Exit::Done })
}

/// The worker's report about itself, or the reason why there is none.
type WorkerReport = Result<WorkerDescription, (CheckState, String)>;

fn ask(worker: &WorkerCommand) -> WorkerReport {
    let Some(program) = &worker.program else {
        return Err((
            CheckState::Missing,
            "the worker program `throstle-torch` was not found, so stages that need libtorch \
             cannot run; `make build` builds it"
                .to_owned(),
        ));
    };
    if let Some(lacks) = &worker.lacks {
        let sentence = format!("{lacks}; `throstle setup` fetches a private copy");
        return Err((CheckState::Missing, sentence));
    }
    let mut command = Command::new(program.as_std_path());
    command.arg("check").env_clear();
    command.envs(worker.environment.iter().map(|(name, value)| (name, value)));
    let sentence = match answer(command) {
        Ok((true, text)) => match serde_json::from_str(&text) {
            Ok(report) => return Ok(report),
            Err(error) => format!(
                "the worker did not answer with a report ({error}): build it again from the same \
                 source as `throstle`"
            ),
        },
        Ok((false, text)) => format!(
            "`{program}` does not start: {}; set LIBTORCH to the folder of libtorch 2.11, or build \
             the worker again with `make build`",
            last_line(&text)
        ),
        Err(error) => {
            format!("`{program}` cannot be started: {error}; build it again with `make build`")
        }
    };
    Err((CheckState::Wrong, sentence))
}

/// The part of the worker's self-description that `doctor` reads.
#[derive(serde::Deserialize)]
struct WorkerDescription {
    libtorch: String,
    cuda: Option<Cuda>,
    devices: Vec<Device>,
    /// Explains why a GPU that is present cannot be used.
    cuda_error: Option<String>,
}

/// Versions of CUDA.
#[derive(serde::Deserialize)]
struct Cuda {
    /// None without a driver.
    driver: Option<String>,
    libtorch: String,
}

#[derive(serde::Deserialize)]
struct Device {
    name: DeviceId,
    model: Option<String>,
    compute_capability: Option<String>,
    memory_total: Option<u64>,
    memory_free: Option<u64>,
}

fn libtorch(asked: &WorkerReport) -> Finding {
    let report = match asked {
        Ok(report) => report,
        Err((state, sentence)) => return Finding::new("libtorch", *state, sentence),
    };
    let names: Vec<String> = report.devices.iter().map(|device| device.name.to_string()).collect();
    let works = format!("libtorch {} works on {}", report.libtorch, names.join(", "));
    Finding::new("libtorch", CheckState::Good, works)
}

/// The library that plays graphs.
fn onnxruntime() -> Finding {
    match player() {
        Ok(library) => {
            let sentence = format!("`{}` speaks with `.onnx` voices", library.path);
            Finding::new("onnxruntime", CheckState::Good, sentence)
        }
        Err(why) => Finding::new(
            "onnxruntime",
            CheckState::Missing,
            format!("{why}, so `.onnx` voices need libtorch; `throstle setup --player` fetches it"),
        ),
    }
}

fn gpu(asked: &WorkerReport) -> Finding {
    let Ok(report) = asked else {
        let sentence = "unknown, since the worker does not answer";
        return Finding::new("GPU", CheckState::Missing, sentence);
    };
    let gpus = report.devices.iter().filter(|device| device.name.is_gpu());
    let gpus: Vec<String> = gpus.map(Device::describe).collect();
    match (&report.cuda_error, gpus.is_empty()) {
        (Some(error), true) => Finding::new("GPU", CheckState::Wrong, error),
        (Some(error), false) => {
            Finding::new("GPU", CheckState::Wrong, format!("{}; but {error}", gpus.join("; ")))
        }
        (None, false) => Finding::new("GPU", CheckState::Good, gpus.join("; ")),
        (None, true) => {
            Finding::new("GPU", CheckState::Missing, "no GPU: stages on libtorch run on the CPU")
        }
    }
}

impl Device {
    fn describe(&self) -> String {
        let mut text = format!("`{}` is {}", self.name, self.model.as_deref().unwrap_or("a GPU"));
        if let Some(capability) = &self.compute_capability {
            text.push_str(&format!(", compute capability {capability}"));
        }
        if let (Some(free), Some(total)) = (self.memory_free, self.memory_total) {
            let [free, total] = [free, total].map(units::bytes);
            text.push_str(&format!(", {free} of {total} free"));
        }
        text
    }
}

fn driver(asked: &WorkerReport) -> Finding {
    let cuda = asked.as_ref().ok().and_then(|report| report.cuda.as_ref());
    match cuda.and_then(|cuda| Some((cuda.driver.as_ref()?, &cuda.libtorch))) {
        Some((driver, libtorch)) => {
            let sentence =
                format!("supports CUDA {driver}; libtorch was built for CUDA {libtorch}");
            Finding::new("driver", CheckState::Good, sentence)
        }
        None => Finding::new(
            "driver",
            CheckState::Missing,
            "no NVIDIA driver; none is needed without a GPU",
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
        Err(error) => Finding::new(
            "disk",
            CheckState::Wrong,
            format!("cannot read the free space at `{place}`: {error}"),
        ),
        Ok(space) => {
            let shown = units::bytes(space.free);
            if space.free < LITTLE_SPACE {
                Finding::new(
                    "disk",
                    CheckState::Wrong,
                    format!(
                        "only {shown} free at `{place}`: free some, for example with `throstle \
                         cache gc`, or choose another folder with `--cache`"
                    ),
                )
            } else {
                Finding::new("disk", CheckState::Good, format!("{shown} free at `{place}`"))
            }
        }
    }
}

fn health(folder: &Utf8Path) -> Finding {
    if !RealFs.exists(&folder.join("FORMAT")).unwrap_or(false) {
        return Finding::new(
            "cache",
            CheckState::Good,
            format!("no cache in `{folder}` yet; the first run makes it"),
        );
    }
    let opened = match Cache::open(folder, Arc::new(RealFs), Access::ReadWrite) {
        Err(CacheError::Fs(error)) if error.is_denied() => {
            return Finding::new(
                "cache",
                CheckState::Wrong,
                format!(
                    "`{folder}` is not writable: change its permissions, or choose another folder \
                     with `--cache`"
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
        Err(error) => Finding::new("cache", CheckState::Wrong, error.to_string()),
        Ok((_, report)) if !report.is_clean() => Finding::new(
            "cache",
            CheckState::Wrong,
            format!(
                "{} in `{folder}`: quarantine them with `throstle cache verify --repair`",
                units::counted(report.damages.len() as u64, "damaged file")
            ),
        ),
        Ok((notes, _)) if !notes.is_empty() => {
            Finding::new("cache", CheckState::Missing, notes.join("; "))
        }
        Ok((_, report)) => Finding::new(
            "cache",
            CheckState::Good,
            format!(
                "`{folder}` is intact: sizes of {} checked; locks work",
                units::counted(report.objects, "object")
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

fn last_line(text: &str) -> String {
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    line.unwrap_or("no output").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_does_not_start_is_wrong_and_none_is_missing() {
        let none = ask(&WorkerCommand::default());
        assert_eq!(libtorch(&none).state, CheckState::Missing);
        let broken =
            WorkerCommand { program: Some("/no/such/worker".into()), ..Default::default() };
        let broken = ask(&broken);
        assert_eq!(libtorch(&broken).state, CheckState::Wrong);
        assert_eq!(
            (gpu(&broken).state, driver(&broken).state),
            (CheckState::Missing, CheckState::Missing)
        );
    }

    /// A machine with a GPU, or with an error.
    fn report(cuda: &str, error: &str) -> WorkerReport {
        let gpu = r#"{"name":"cuda:0","model":"T4","compute_capability":"7.5",
            "memory_total":15000000000,"memory_free":14000000000}"#;
        let gpu = if error == "null" { format!(",{gpu}") } else { String::new() };
        let devices = format!(r#"[{{"name":"cpu","model":null}}{gpu}]"#);
        let text = format!(
            r#"{{"program":"p","libtorch":"2.11.0","cuda":{cuda},"devices":{devices},"cuda_error":{error}}}"#
        );
        serde_json::from_str(&text).map_err(|error| (CheckState::Wrong, error.to_string()))
    }

    #[test]
    fn gpus_are_told_as_the_worker_sees_them() {
        let good = report(r#"{"driver":"13.0","libtorch":"13.0"}"#, "null");
        assert_eq!(libtorch(&good).sentence, "libtorch 2.11.0 works on cpu, cuda:0");
        let expected = "`cuda:0` is T4, compute capability 7.5, 14 GB of 15 GB free";
        assert_eq!((gpu(&good).state, gpu(&good).sentence.as_str()), (CheckState::Good, expected));
        assert_eq!(driver(&good).sentence, "supports CUDA 13.0; libtorch was built for CUDA 13.0");
    }

    #[test]
    fn a_gpu_that_cannot_be_used_is_wrong() {
        let old = report(r#"{"driver":"12.2","libtorch":"13.0"}"#, "\"the driver is old\"");
        assert_eq!(gpu(&old).state, CheckState::Wrong);
        assert_eq!(gpu(&old).sentence, "the driver is old");
        let none = report("null", "\"no libcuda\"");
        assert_eq!(
            (gpu(&none).state, driver(&none).state),
            (CheckState::Wrong, CheckState::Missing)
        );
    }

    #[test]
    fn the_last_words_of_a_program_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo; echo libc10.so is missing >&2; exit 3"]);
        let (good, text) = answer(command).unwrap_or((true, String::new()));
        assert!(!good);
        assert_eq!(
            (text.lines().next().unwrap_or_default(), last_line(&text).as_str()),
            ("first", "libc10.so is missing")
        );
    }
}
