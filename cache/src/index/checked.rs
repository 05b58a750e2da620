//! A file of pages with checksums: a read returns the written bytes, or an error. The index
//! database trusts the pages it reads, and may end the process because of a damaged one.
//!
//! Each page of 4096 bytes is preceded by the first eight bytes of its blake3, plus its number, so
//! that a page in the wrong place is detected too. A page that was never written has no valid
//! checksum.

use std::io;

use crate::fs::{Call, FsError, FsFile, FsResult};

pub(crate) const PAGE: usize = 4096;
const SUM: usize = 8;
const UNIT: usize = SUM + PAGE;

#[derive(Debug)]
pub(crate) struct CheckedFile(Box<dyn FsFile>);

/// The pages of a range.
struct Range {
    first: u64,
    /// The offset of the range in the first page.
    start: usize,
    pages: usize,
}

impl Range {
    fn new(offset: u64, length: usize) -> Range {
        let start = (offset % PAGE as u64) as usize;
        Range { first: offset / PAGE as u64, start, pages: (start + length).div_ceil(PAGE) }
    }

    fn position(&self) -> u64 {
        self.first * UNIT as u64
    }
}

impl CheckedFile {
    pub fn new(file: Box<dyn FsFile>) -> CheckedFile {
        CheckedFile(file)
    }

    /// The length of all complete pages, without their checksums.
    pub fn len(&self) -> FsResult<u64> {
        Ok(self.0.len()? / UNIT as u64 * PAGE as u64)
    }

    /// Rounded up to complete pages.
    pub fn set_len(&self, length: u64) -> FsResult<()> {
        self.0.set_len(length.div_ceil(PAGE as u64) * UNIT as u64)
    }

    pub fn sync_data(&self) -> FsResult<()> {
        self.0.sync_data()
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) -> FsResult<()> {
        let range = Range::new(offset, out.len());
        let mut units = vec![0; range.pages * UNIT];
        if self.0.read_full_at(&mut units, range.position())? < units.len() {
            return Err(self.error(io::ErrorKind::UnexpectedEof));
        }
        let mut filled = 0;
        for (number, unit) in (range.first..).zip(units.chunks_exact(UNIT)) {
            let (found, page) = unit.split_at(SUM);
            if found != checksum(number, page) {
                return Err(self.error(io::ErrorKind::InvalidData));
            }
            let page = if filled == 0 { &page[range.start..] } else { page };
            let count = page.len().min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&page[..count]);
            filled += count;
        }
        Ok(())
    }

    pub fn write(&self, offset: u64, data: &[u8]) -> FsResult<()> {
        let range = Range::new(offset, data.len());
        let mut units = vec![0; range.pages * UNIT];
        let mut rest = data;
        for (number, unit) in (range.first..).zip(units.chunks_exact_mut(UNIT)) {
            let (found, page) = unit.split_at_mut(SUM);
            let start = if number == range.first { range.start } else { 0 };
            let (now, later) = rest.split_at(rest.len().min(PAGE - start));
            rest = later;
            if now.len() < PAGE {
                self.read_if_written(number, page)?;
            }
            page[start..start + now.len()].copy_from_slice(now);
            found.copy_from_slice(&checksum(number, page));
        }
        self.0.write_all_at(&units, range.position())
    }

    /// The page as it is; zeros if it was never written.
    fn read_if_written(&self, number: u64, page: &mut [u8]) -> FsResult<()> {
        let mut unit = [0u8; UNIT];
        self.0.read_full_at(&mut unit, number * UNIT as u64)?;
        if unit == [0; UNIT] { Ok(()) } else { self.read(number * PAGE as u64, page) }
    }

    fn error(&self, kind: io::ErrorKind) -> FsError {
        FsError::new(Call::Read, self.0.path(), io::Error::from(kind))
    }
}

fn checksum(number: u64, page: &[u8]) -> [u8; SUM] {
    let mut sum = [0; SUM];
    sum.copy_from_slice(&blake3::hash(page).as_bytes()[..SUM]);
    u64::from_le_bytes(sum).wrapping_add(number).to_le_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use camino::Utf8Path;

    use super::*;
    use crate::fs::{Fs, MemoryFs, Open};

    const PATH: &str = "/pages";

    fn open(fs: &MemoryFs) -> CheckedFile {
        CheckedFile::new(fs.open(Utf8Path::new(PATH), Open::Create).unwrap())
    }

    /// Three pages of letters.
    fn letters(fs: &MemoryFs) -> Vec<u8> {
        let bytes: Vec<u8> = (0..3 * PAGE).map(|at| b'a' + (at % 26) as u8).collect();
        open(fs).write(0, &bytes).unwrap();
        bytes
    }

    fn read(fs: &MemoryFs, offset: u64, length: usize) -> FsResult<Vec<u8>> {
        let mut out = vec![0; length];
        open(fs).read(offset, &mut out).map(|()| out)
    }

    #[test]
    fn any_range_reads_what_was_written_there() {
        let fs = MemoryFs::new();
        let mut bytes = letters(&fs);
        for (offset, length) in [(0, 320), (4000, 200), (4096, 4096), (5000, 7000), (0, 12_288)] {
            bytes[offset..offset + length].fill(length as u8);
            open(&fs).write(offset as u64, &vec![length as u8; length]).unwrap();
            for (offset, length) in [(0, 12_288), (1, 4095), (4095, 2), (8192, 4096)] {
                let found = read(&fs, offset as u64, length).unwrap();
                assert!(found == bytes[offset..offset + length], "{length} bytes at {offset}");
            }
        }
    }

    #[test]
    fn any_flipped_bit_is_an_error_on_reading() {
        let fs = MemoryFs::new();
        letters(&fs);
        let whole = fs.read(Utf8Path::new(PATH)).unwrap();
        for position in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[position] ^= 1 << (position % 8);
            fs.overwrite(Utf8Path::new(PATH), &bytes).unwrap();
            let page = (position / UNIT * PAGE) as u64;
            let kind = read(&fs, page, PAGE).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidData, "byte {position}");
        }
    }

    #[test]
    fn a_page_that_lies_in_the_place_of_another_is_an_error() {
        let fs = MemoryFs::new();
        letters(&fs);
        let mut bytes = fs.read(Utf8Path::new(PATH)).unwrap();
        bytes.copy_within(UNIT..2 * UNIT, 0);
        fs.overwrite(Utf8Path::new(PATH), &bytes).unwrap();
        assert!(read(&fs, 0, PAGE).is_err());
        assert!(read(&fs, PAGE as u64, PAGE).is_ok());
    }

    #[test]
    fn a_page_that_was_never_written_cannot_be_read_but_written_in_part() {
        let fs = MemoryFs::new();
        open(&fs).set_len(2 * PAGE as u64).unwrap();
        assert_eq!(open(&fs).len().unwrap(), 2 * PAGE as u64);
        assert!(read(&fs, 0, 8).is_err());
        open(&fs).write(4, b"four").unwrap();
        assert_eq!(read(&fs, 0, 8).unwrap(), b"\0\0\0\0four");
    }

    #[test]
    fn a_damaged_page_is_not_made_right_by_a_write_to_a_part_of_it() {
        let fs = MemoryFs::new();
        letters(&fs);
        let mut bytes = fs.read(Utf8Path::new(PATH)).unwrap();
        bytes[2000] ^= 1;
        fs.overwrite(Utf8Path::new(PATH), &bytes).unwrap();
        assert!(open(&fs).write(0, b"header").is_err());
    }

    #[test]
    fn a_file_that_was_cut_ends_early() {
        let fs = MemoryFs::new();
        letters(&fs);
        let bytes = fs.read(Utf8Path::new(PATH)).unwrap();
        fs.overwrite(Utf8Path::new(PATH), &bytes[..2 * UNIT - 1]).unwrap();
        assert_eq!(open(&fs).len().unwrap(), PAGE as u64);
        let kind = read(&fs, PAGE as u64, PAGE).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::UnexpectedEof);
    }
}
