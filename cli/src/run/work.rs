//! `work`: one shard of the work of a stage, as a job of an executor.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use ::remote::{Address, Pushing, RemoteError, Settings};
use cache::fs::RealFs;
use cache::{Access, Cache, Digest};
use camino::Utf8PathBuf;
use engine::engine::{EngineError, StopFlag};
use engine::executor::batch::Attempt;
use engine::mirror;
use engine::misplaced::meets_cache;
use engine::pipeline::RemoteSpec;
use engine::runlog::RunLog;
use engine::work::{AttemptEnd, JobRunner};
use view::Reporters;
use view::lines::Lines;

use super::interrupt::{self, Shared};
use crate::arguments::Work;
use crate::error::{CliError, Exit};
use crate::project::Program;
use crate::share::remote;

/// The variable in which Slurm names the machine of a job.
const NODE: &str = "SLURMD_NODENAME";

pub fn work(program: &Program, arguments: &Work) -> Result<Exit, CliError> {
    let wrong = |what: &str| CliError::Usage { message: what.to_owned(), help: None };
    let batch: Digest =
        arguments.batch.parse().map_err(|_| wrong("`--batch` is not the digest of a batch"))?;
    // The text may contain a password.
    let address: Result<Address, _> = arguments.remote.parse();
    let address = address.map_err(|_| wrong("invalid address in `--remote`"))?;
    let folder = folder(arguments);
    if let Some(why) = meets_cache(&folder, &address) {
        return Err(CliError::usage(
            format!("the remote `{address}` cannot be used: {why}"),
            "choose another folder with `--cache`",
        ));
    }
    let cache = Cache::open(&folder, Arc::new(RealFs), Access::ReadWrite)?;
    cache.notes().iter().for_each(|note| program.warn(note));
    let settings = Settings { push: Pushing::Always, require: true, ..Settings::default() };
    let opened = Arc::new(remote::open(&RemoteSpec { address, settings }, &cache)?);
    let mut engine = program.engine(arguments.threads, false);
    engine.remote = Some(Arc::clone(&opened));
    let stop = StopFlag::default();
    let mut reporters = Reporters::default();
    reporters.add(RunLog::new(&cache));
    reporters.add(Lines::new(io::stderr(), program.terminal.errors));
    let display: Shared = Arc::new(Mutex::new(reporters));
    interrupt::on_warnings(stop.clone(), display.clone())
        .map_err(CliError::process("listen for signals"))?;
    let begun = cache.fs().now() / 1_000_000_000;
    let by = Attempt { id: attempt()?, machine: machine(), job: job(), begun };
    let shard = arguments.shard;
    let worker = JobRunner { engine: &engine, cache: &cache, batch, shard, by, stop };
    let ended = worker.work(&mut |event| {
        // An output error does not change the result.
        let _ = display.lock().unwrap_or_else(PoisonError::into_inner).event(&event);
    });
    let ended = match ended {
        Err(error) => return postponed(program, error),
        Ok(ended) => ended,
    };
    if let Some((name, run)) = ended.log
        && let Err(trouble) = mirror::push_log(&cache, &opened, run, name)
    {
        program.warn(&format!("failed to push the log of the run: {trouble}"));
    }
    Ok(match ended.worked {
        AttemptEnd::Done => Exit::Done,
        AttemptEnd::Later => Exit::Paused,
        AttemptEnd::Failed => Exit::Failed,
    })
}

/// Another job can continue if the fault is that of the machine, or of the remote, which does not
/// answer or is full.
fn postponed(program: &Program, error: EngineError) -> Result<Exit, CliError> {
    let why = match &error {
        EngineError::Remote(RemoteError::Away { .. }) => Some(error.to_string()),
        _ => error.machine_fault(),
    };
    match why {
        Some(why) => {
            program.warn(&why);
            Ok(Exit::Paused)
        }
        None => Err(error.into()),
    }
}

fn folder(arguments: &Work) -> Utf8PathBuf {
    let usual = || {
        let temporary = Utf8PathBuf::from_path_buf(std::env::temp_dir());
        // SAFETY: `getuid` touches no memory and cannot fail.
        let user = unsafe { libc::getuid() };
        temporary.unwrap_or_else(|_| "/tmp".into()).join(format!("throstle-work-{user}"))
    };
    arguments.cache.clone().unwrap_or_else(usual)
}

/// A number that no other process has.
fn attempt() -> Result<[u8; 16], CliError> {
    let mut id = [0; 16];
    // SAFETY: the buffer is as long as the call is told.
    let got = unsafe { libc::getrandom(id.as_mut_ptr().cast(), id.len(), 0) };
    match usize::try_from(got) {
        Ok(length) if length == id.len() => Ok(id),
        _ => Err(CliError::process("get random numbers")(io::Error::last_os_error())),
    }
}

/// The number of the job on Slurm, with that of the element of its array.
fn job() -> String {
    let variable = |name: &str| std::env::var(name).ok();
    let array = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID"));
    let array = array.map(|(job, task)| format!("{job}_{task}"));
    array.or_else(|| variable("SLURM_JOB_ID")).unwrap_or_default()
}

fn machine() -> String {
    if let Ok(node) = std::env::var(NODE) {
        return node;
    }
    let mut name = [0u8; 256];
    // SAFETY: the buffer is as long as the call is told.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    if failed { "unknown".to_owned() } else { String::from_utf8_lossy(&name[..end]).into_owned() }
}
