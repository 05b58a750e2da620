//! A file that is written in pieces.

use std::io::{self, Write};

use cache::fs::FsFile;

use super::DeliveryFolder;
use crate::error::CliError;

pub struct DeliveryFile {
    file: Box<dyn FsFile>,
    at: u64,
}

impl DeliveryFile {
    pub fn new(folder: &DeliveryFolder, name: &str) -> Result<DeliveryFile, CliError> {
        Ok(DeliveryFile { file: folder.create(name)?, at: 0 })
    }

    pub fn size(&self) -> u64 {
        self.at
    }

    pub fn finish(self) -> Result<(), CliError> {
        Ok(self.file.sync_data()?)
    }
}

impl Write for DeliveryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.at).map_err(io::Error::other)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
