//! Standard output, kept for what the program itself says.
//!
//! Stages run in this process, and what one of them prints must not end up between the lines of
//! `--json` or in a table. So the program keeps a handle of its own, and everybody else's
//! standard output is standard error.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::sync::Arc;

/// The standard output that the program was started with. Clones write to the same.
#[derive(Clone)]
pub struct Output(Arc<File>);

impl Output {
    /// Takes standard output for the program alone; called once, before any stage can run.
    pub fn take() -> io::Result<Output> {
        io::stdout().flush()?;
        let own = io::stdout().as_fd().try_clone_to_owned()?;
        nix::unistd::dup2_stdout(io::stderr())?;
        Ok(Output(Arc::new(File::from(own))))
    }

    /// The same for a program that is started.
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
