//! Processes that outlive the run that has started them.

use cache::fs::{Fs, FsError, Open, RealFs};
use camino::{Utf8Path, Utf8PathBuf};

/// Identifies a process after a restart of the engine.
#[derive(Clone, Debug)]
pub struct Mark {
    /// It contains the process id.
    pub file: Utf8PathBuf,
    /// `NAME=VALUE` in its environment: another process may get the same id later.
    pub variable: String,
}

impl Mark {
    /// Creates the file, for a shell to write to. Anything else in its place is an error: a shell would
    /// wait for the reader of a pipe.
    pub fn make(&self) -> Result<(), FsError> {
        RealFs.open(&self.file, Open::Create).map(drop)
    }
}

/// The id of the process if it lives on this machine.
pub fn living(mark: &Mark) -> Option<i32> {
    let text = RealFs.read(&mark.file).ok()?;
    let process: i32 = String::from_utf8_lossy(&text).trim().parse().ok()?;
    let path = format!("/proc/{process}/environ");
    // Empty for a process that has ended and was not waited for.
    let environment = RealFs.read_system_file(Utf8Path::new(&path)).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| variable == mark.variable.as_bytes()).then_some(process)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_known_by_its_environment_and_only_while_it_lives() {
        let folder = std::env::temp_dir().join(format!("throstle-mark-{}", std::process::id()));
        let folder = Utf8PathBuf::from_path_buf(folder).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        let mark = |value: &str| Mark {
            file: folder.join("job.pid"),
            variable: format!("THROSTLE_JOB={value}"),
        };
        assert_eq!(living(&mark("a/1")), None, "no file");
        let mut child = Command::new("sleep").arg("60").env("THROSTLE_JOB", "a/1").spawn().unwrap();
        std::fs::write(folder.join("job.pid"), format!("{}\n", child.id())).unwrap();
        // Until it has replaced the copy of this process, its environment is that of this one.
        while living(&mark("a/1")).is_none() {
            std::thread::yield_now();
        }
        assert_eq!(living(&mark("a/1")), Some(child.id() as i32));
        assert_eq!(living(&mark("a/10")), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(living(&mark("a/1")), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_pipe_in_the_place_of_the_file_is_an_error_and_nobody_waits_for_it() {
        let folder = std::env::temp_dir().join(format!("throstle-pipe-{}", std::process::id()));
        let folder = Utf8PathBuf::from_path_buf(folder).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        let mark = Mark { file: folder.join("job.pid"), variable: "THROSTLE_JOB=a/1".to_owned() };
        assert!(mark.make().is_ok() && mark.file.exists());
        std::fs::remove_file(&mark.file).unwrap();
        assert!(Command::new("mkfifo").arg(&mark.file).status().unwrap().success());
        let told = mark.make().unwrap_err().whole();
        assert!(told.contains("job.pid") && told.contains("a named pipe"), "{told}");
        assert_eq!(living(&mark), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
