//! The stated length of an AIFF file, which the demuxer does not compare with its data.

/// The number of frames in the `COMM` chunk.
pub fn stated_frames(bytes: &[u8]) -> Option<u64> {
    let mut at: usize = 12;
    loop {
        let header = bytes.get(at..at.checked_add(8)?)?;
        let length = u32_at(header, 4)?;
        if header.starts_with(b"COMM") {
            return u32_at(bytes, at + 10).map(u64::from);
        }
        // Chunks start at even offsets.
        at = at.checked_add(8 + length as usize + (length & 1) as usize)?;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}
