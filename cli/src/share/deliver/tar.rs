//! Tar files (ustar) of plain files. A long name is in an extended header (pax).

use std::io::{self, Write};

const BLOCK: usize = 512;
/// The longest name in a header.
const NAME: usize = 100;
const FILE: u8 = b'0';
/// The attributes of the next file.
const EXTENDED: u8 = b'x';

/// Writes one file.
pub fn entry(output: &mut impl Write, name: &str, bytes: &[u8]) -> io::Result<()> {
    if let Some(attribute) = long_name(name) {
        write(output, ("long-name", EXTENDED), attribute.as_bytes())?;
    }
    write(output, (name, FILE), bytes)
}

/// The attribute with a name that is too long for a header: its length, itself included, and the name.
fn long_name(name: &str) -> Option<String> {
    if name.len() <= NAME {
        return None;
    }
    let attribute = format!(" path={name}\n");
    let mut length = 0;
    while length != attribute.len() + length.to_string().len() {
        length = attribute.len() + length.to_string().len();
    }
    Some(format!("{length}{attribute}"))
}

fn write(output: &mut impl Write, (name, kind): (&str, u8), bytes: &[u8]) -> io::Result<()> {
    output.write_all(&header((name, kind), bytes.len() as u64)?)?;
    output.write_all(bytes)?;
    let rest = bytes.len() % BLOCK;
    if rest > 0 {
        output.write_all(&[0; BLOCK][rest..])?;
    }
    Ok(())
}

/// The bytes that a file with this name and size takes.
pub fn size(name: &str, bytes: usize) -> u64 {
    let blocks = |bytes: usize| BLOCK + bytes.div_ceil(BLOCK) * BLOCK;
    let attribute = long_name(name).map_or(0, |attribute| blocks(attribute.len()));
    (attribute + blocks(bytes)) as u64
}

pub fn end(output: &mut impl Write) -> io::Result<()> {
    output.write_all(&[0; 2 * BLOCK])
}

fn header((name, kind): (&str, u8), size: u64) -> io::Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let octal = format!("{size:011o}\0");
    if octal.len() > 12 {
        return Err(io::Error::other(format!("`{name}` does not fit a tar file")));
    }
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name.as_bytes()[..name.len().min(NAME)]);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, octal.as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const READER: &str = "import sys, tarfile\n\
        for file in tarfile.open(fileobj=sys.stdin.buffer, mode='r|'):\n    \
        print(file.name, file.size)\n";

    #[test]
    fn names_of_any_length_are_read_by_python() {
        let names =
            (1..=300).map(|length| "n".repeat(length)).chain((1..=120).map(|n| "ä".repeat(n)));
        let (mut archive, mut told, mut size) = (Vec::new(), String::new(), 0);
        for (number, name) in names.enumerate() {
            let bytes = vec![b'x'; number * 7 % 1100];
            entry(&mut archive, &name, &bytes).unwrap();
            size += super::size(&name, bytes.len());
            told.push_str(&format!("{name} {}\n", bytes.len()));
        }
        assert_eq!(archive.len() as u64, size);
        end(&mut archive).unwrap();
        let mut python = Command::new("python3");
        python.args(["-X", "utf8", "-c", READER]);
        let python = python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut reader = python.spawn().unwrap();
        let mut input = reader.stdin.take().unwrap();
        let writer = std::thread::spawn(move || input.write_all(&archive));
        let output = reader.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), told);
    }
}
