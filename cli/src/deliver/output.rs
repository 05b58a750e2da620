//! A file that is written in pieces and appears under its name when it is whole.

use std::io::{self, Write};

use cache::fs::{Fs, FsFile, Open, RealFs};
use camino::{Utf8Path, Utf8PathBuf};

use crate::error::CliError;

pub struct Output {
    file: Box<dyn FsFile>,
    path: Utf8PathBuf,
    at: u64,
}

impl Output {
    pub fn new(path: &Utf8Path) -> Result<Output, CliError> {
        let file = RealFs.open(&part(path), Open::CreateNew)?;
        Ok(Output { file, path: path.to_owned(), at: 0 })
    }

    pub fn size(&self) -> u64 {
        self.at
    }

    pub fn finish(self) -> Result<(), CliError> {
        self.file.sync_data()?;
        Ok(RealFs.rename(&part(&self.path), &self.path)?)
    }
}

fn part(path: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{path}.part"))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.at).map_err(io::Error::other)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
