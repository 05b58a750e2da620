//! Tar files (ustar) of plain files with short names.

use std::io::{self, Write};

const BLOCK: usize = 512;
/// The longest name.
const NAME: usize = 100;

/// Writes one file.
pub fn entry(output: &mut impl Write, name: &str, bytes: &[u8]) -> io::Result<()> {
    output.write_all(&header(name, bytes.len() as u64)?)?;
    output.write_all(bytes)?;
    let rest = bytes.len() % BLOCK;
    if rest > 0 {
        output.write_all(&[0; BLOCK][rest..])?;
    }
    Ok(())
}

/// The bytes that a file of this size takes.
pub fn size(bytes: usize) -> u64 {
    (BLOCK + bytes.div_ceil(BLOCK) * BLOCK) as u64
}

pub fn end(output: &mut impl Write) -> io::Result<()> {
    output.write_all(&[0; 2 * BLOCK])
}

fn header(name: &str, size: u64) -> io::Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let octal = format!("{size:011o}\0");
    if name.len() > NAME || octal.len() > 12 {
        return Err(io::Error::other(format!("`{name}` does not fit a tar file")));
    }
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, octal.as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}
