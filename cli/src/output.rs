//! Standard output, reserved for the program itself.
//!
//! Stages run in this process, and their prints must not appear between the lines of `--json` or in
//! a table. So the program keeps a private handle, and the standard output of everything else
//! becomes standard error.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::sync::Arc;

use camino::Utf8Path;

/// The standard output that the program was started with. Clones write to the same.
#[derive(Clone)]
pub struct Output(Arc<File>);

/// Other names of `-`. What the system has under them is standard error by now.
const STANDARD: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// True if a person means standard output by this file.
pub fn is_standard(file: &Utf8Path) -> bool {
    STANDARD.contains(&file.as_str())
}

impl Output {
    /// Reserves standard output for the program. Called once, before any stage can run.
    pub fn take() -> io::Result<Output> {
        io::stdout().flush()?;
        let own = io::stdout().as_fd().try_clone_to_owned()?;
        nix::unistd::dup2_stdout(io::stderr())?;
        Ok(Output(Arc::new(File::from(own))))
    }

    /// The same for a child process.
    pub fn for_program(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(self.0.try_clone()?))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
