//! `run`: executes the plan and shows its events.

use cache::fs::{MachineFault, RealFs};
use cache::{Access, Cache};
use camino::Utf8PathBuf;
use engine::engine::{Engine, RunOptions, StopFlag};
use engine::estimate::estimate_here;
use engine::event::{Event, Status};
use engine::gauge::{self, Gauge};
use engine::mirror;
use engine::runlog::{self, RunLog};
use engine::units;
use remote::Pushing;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use view::estimate::left_text;
use view::json::JsonLines;
use view::lines::Lines;
use view::live::{Live, Surface};
use view::{Reporter, Reporters};

use super::interrupt::{self, Shared};
use crate::arguments::Run;
use crate::error::{CliError, Exit};
use crate::outlet::Outlet;
use crate::project::{Program, Project};
use crate::share::hub::{self, Download};
use crate::terminal;

const STOPPED_DOWNLOAD: &str = "the download of a model was stopped; the next run resumes it";

/// A machine fault ends the run like a request to stop, even before the run begins.
pub fn run(program: &Program, arguments: &Run) -> Result<Exit, CliError> {
    match run_to_end(program, arguments) {
        Err(error) => match error.machine_fault() {
            Some(why) => tell_pause(program, arguments, why),
            None => Err(error),
        },
        ended => ended,
    }
}

/// Only before the first event of the run is shown.
fn tell_pause(program: &Program, arguments: &Run, why: String) -> Result<Exit, CliError> {
    let seconds = program.began.elapsed().as_secs_f64();
    let finished = Event::Finished { status: Status::Paused, stages: [].into(), seconds };
    // This needs no extra thread: the machine may have none left.
    let mut reporters = Reporters::default();
    if arguments.json {
        reporters.add(JsonLines(program.output.clone()))
    } else {
        reporters.add(Lines::new(io::stderr(), program.terminal.errors))
    }
    // An output error does not change the result of the run.
    let _ = reporters.event(&Event::Stopping { why }).and_then(|()| reporters.event(&finished));
    Ok(Exit::Paused)
}

fn run_to_end(program: &Program, arguments: &Run) -> Result<Exit, CliError> {
    let start = program.began;
    let mut project =
        program.load_for(&arguments.stages, &arguments.manifest.manifest, &arguments.settings)?;
    program.count_warnings(&project);
    let targets = project.targets(&arguments.stages)?;
    let stop = StopFlag::default();
    let reporters = Arc::new(Mutex::new(Reporters::default()));
    let display: Shared = reporters.clone();
    let limit = arguments.stop_after.or(project.pipeline.session.stop_after_seconds);
    let downloads = hub::is_needed(&project, &targets);
    if downloads {
        listen(&stop, &display)?;
        let deadline = limit.and_then(|seconds| interrupt::deadline(start, seconds));
        let limits = hub::Limits { stop: &stop, deadline };
        if hub::bring(program, &mut project, &targets, &limits)? == Download::Stopped {
            return tell_pause(program, arguments, STOPPED_DOWNLOAD.to_owned());
        }
    }
    let cache = program.open(&project)?;
    let engine = program.engine_for(&project, &cache, arguments.threads, arguments.verify)?;
    let output = outlet(arguments.json, program, &stop)?;
    let filled = fill(arguments.json, program, Some(&cache), output.clone())?;
    *reporters.lock().unwrap_or_else(PoisonError::into_inner) = filled;
    if !downloads {
        listen(&stop, &display)?;
    }
    if let Some(seconds) = limit {
        interrupt::after(seconds, start, stop.clone(), display.clone()).map_err(thread_failed)?;
    }
    let options = RunOptions {
        targets,
        keep_going: arguments.keep_going,
        overwrite: arguments.overwrite,
        deadline: limit.and_then(|seconds| interrupt::deadline(start, seconds)),
        began: Some(start),
        stop: stop.clone(),
        program: own_program(),
        ..RunOptions::default()
    };
    let mut feed = Feed::new(display, Some(output), stop);
    let result = engine.run(&project.pipeline, &cache, &options, &mut |event| feed.pass(event));
    let result = result.map_err(CliError::from);
    if let Err(error) = &result
        && error.machine_fault().is_none()
    {
        feed.pass(error.event());
    }
    if !feed.finished {
        let status =
            if matches!(result, Ok(Status::Paused)) { Status::Paused } else { Status::Failed };
        let seconds = start.elapsed().as_secs_f64();
        feed.pass(Event::Finished { status, stages: [].into(), seconds });
    }
    let late = limit.filter(|limit| start.elapsed().as_secs_f64() >= *limit && !feed.has_done);
    // From here on, ending the process loses nothing.
    options.stop.begin_reading();
    let status = result?;
    push_log(program, &engine, &cache);
    if status == Status::Paused && !arguments.json {
        // An output error does not change the result of the run.
        if let Ok(left) = left(&engine, &project, &options) {
            feed.say(&program.terminal.errors.fold(&left, 2));
        }
    }
    end(program, feed, status, late)
}

/// `late`: the time limit, if it was over before anything was done.
fn end(
    program: &Program,
    mut feed: Feed,
    status: Status,
    late: Option<f64>,
) -> Result<Exit, CliError> {
    feed.end();
    if let (Status::Paused, Some(seconds)) = (status, late) {
        program.warn(&nothing_done(seconds));
    }
    let exit = match status {
        Status::Done => Exit::Done,
        Status::Failed => Exit::Failed,
        Status::Paused => Exit::Paused,
    };
    match feed.closed.take() {
        Some(error) if status != Status::Failed && MachineFault::of(&error).is_some() => {
            program.warn(&format!("standard output: {error}"));
            Ok(Exit::Paused)
        }
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(exit),
    }
}

/// The path of this program, for jobs on machines that share it.
pub fn own_program() -> Option<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(std::env::current_exe().ok()?).ok()
}

fn nothing_done(limit: f64) -> String {
    format!(
        "no work finished within the time limit of {}: raise the limit, since another run with \
         this limit may get no further",
        units::seconds(limit)
    )
}

/// Pushes the log of the run, which is complete only now. A run without requests has nothing to
/// add.
fn push_log(program: &Program, engine: &Engine, cache: &Cache) {
    let Some(remote) = &engine.remote else { return };
    let is_busy = remote.requests() > 0 && remote.is_usable() && remote.is_writable();
    if !is_busy || remote.settings().push == Pushing::Never || cache.is_read_only() {
        return;
    }
    if let Err(trouble) = mirror::push_logs(cache, remote) {
        program.warn(&format!("failed to push the log of the run: {trouble}"));
    }
}

/// The work that a stopped run leaves, with its estimate. Nothing is written, since the disk may be
/// full.
fn left(engine: &Engine, project: &Project, options: &RunOptions) -> Result<String, CliError> {
    let pipeline = &project.pipeline;
    let cache = Cache::open(&project.cache_folder, Arc::new(RealFs), Access::ReadOnly)?;
    let engine = Engine { remote: None, ..engine.clone() };
    let plan = engine.plan(pipeline, &cache, &options.targets, &mut |_| {})?;
    let left = estimate_here(pipeline, &plan, &cache, engine.threads)?;
    Ok(left_text(&left, pipeline))
}

/// Carries events from the engine to the display.
struct Feed {
    display: Shared,
    /// The output of the display.
    output: Option<Outlet>,
    stop: StopFlag,
    /// The error that closed the display.
    closed: Option<io::Error>,
    finished: bool,
    /// Something was done that the next run need not do.
    has_done: bool,
}

impl Feed {
    fn new(display: Shared, output: Option<Outlet>, stop: StopFlag) -> Feed {
        Feed { display, output, stop, closed: None, finished: false, has_done: false }
    }

    /// If the display is gone, so is the person who wanted the run: stop cleanly.
    fn pass(&mut self, event: Event) {
        self.has_done |= match &event {
            Event::CheckpointKept { .. } => true,
            Event::Exported { written, .. } => *written > 0,
            Event::Finished { stages, .. } => stages.values().any(|counts| counts.executed > 0),
            _ => false,
        };
        self.finished |= matches!(event, Event::Finished { .. });
        let mut display = self.display.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = display.event(&event);
        drop(display);
        self.heed(shown);
    }

    fn heed(&mut self, shown: io::Result<()>) {
        if let (Err(error), None) = (shown, &self.closed) {
            self.closed = Some(error);
            if !self.stop.is_requested() {
                self.stop.request();
            }
        }
    }

    /// Prints a line for people, below the display.
    fn say(&mut self, text: &str) {
        let said = self.output.as_mut().map_or(Ok(()), |output| writeln!(output, "{text}"));
        self.heed(said);
    }

    /// Waits until everything is shown.
    fn end(&mut self) {
        if let Some(output) = self.output.take() {
            self.heed(output.end());
        }
    }
}

/// Runs even after a panic, when other threads may hold the display.
impl Drop for Feed {
    fn drop(&mut self) {
        self.display.lock().unwrap_or_else(PoisonError::into_inner).leave();
        self.end();
    }
}

/// The output of the display. A run with a display for people continues when its reader is gone.
fn outlet(json: bool, program: &Program, stop: &StopFlag) -> Result<Outlet, CliError> {
    let outlet = if json {
        Outlet::new(program.output.clone(), stop)
    } else {
        Outlet::new(BestEffort(io::stderr()), stop)
    };
    outlet.map_err(thread_failed)
}

fn thread_failed(error: io::Error) -> CliError {
    CliError::Process { what: "start a thread", source: error }
}

fn listen(stop: &StopFlag, display: &Shared) -> Result<(), CliError> {
    interrupt::on_signals(stop.clone(), display.clone())
        .map_err(CliError::process("listen for signals"))
}

/// The reporters of the display and of the log.
fn fill(
    json: bool,
    program: &Program,
    cache: Option<&Cache>,
    output: Outlet,
) -> Result<Reporters, CliError> {
    let mut reporters = Reporters::default();
    if let Some(cache) = cache {
        let folder = runlog::folder(cache.dir());
        if cache.fs().metadata(&folder).is_ok_and(|found| !found.is_dir()) {
            program.warn(&format!(
                "this run has no log, since `{folder}` is not a folder: move that file away"
            ));
        }
        reporters.add(RunLog::new(cache));
    }
    let terminal = &program.terminal;
    match (json, terminal.errors_are_drawn) {
        (true, _) => reporters.add(JsonLines(output)),
        (false, true) => reporters.add(
            Live::new(Surface {
                output: Box::new(output),
                paint: terminal.errors,
                size: Arc::new(terminal::size),
                gauges: Box::new(gauges(cache.cloned())),
            })
            .map_err(thread_failed)?,
        ),
        (false, false) => reporters.add(Lines::new(output, terminal.errors)),
    }
    Ok(reporters)
}

/// The sources of readings, with the GPUs by the numbers that a worker sees.
fn gauges(cache: Option<Cache>) -> impl FnOnce() -> Vec<Box<dyn Gauge>> + Send {
    let is_selected = std::env::var_os("CUDA_VISIBLE_DEVICES").is_some();
    let found = move || engine::machine::found(cache.as_ref()?);
    move || gauge::of_this_machine(Box::new(found), is_selected)
}

/// Standard error; the run continues if nobody reads it.
struct BestEffort<W>(W);

impl<W: Write> Write for BestEffort<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl Reporter for Broken {
        fn event(&mut self, _: &Event) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_run_that_nobody_reads_any_more_is_asked_to_stop_once() {
        let stop = StopFlag::default();
        let display: Shared = Arc::new(Mutex::new(Broken));
        let mut feed = Feed::new(display, None, stop.clone());
        for _ in 0..3 {
            feed.pass(Event::Waiting { what: "x".into() });
        }
        assert!(stop.is_requested() && !stop.is_urgent() && !feed.finished);
    }
}
