//! The encoder delay of MP4 files, which the demuxer does not remove: read from the edit list or
//! Apple's gapless tag, and cut off the decoded clip.

use super::decode::Decoded;
use super::note::Note;

/// The part to keep, in ticks of the audio track.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    delay: u64,
    length: Option<u64>,
    ticks_per_second: u64,
}

/// Cuts the frames that the encoder added. `track_ticks` is the length of the track.
pub fn trim(bytes: &[u8], track_ticks: Option<u64>, decoded: &mut Decoded) {
    let Some(window) = Window::find(bytes, track_ticks) else {
        return;
    };
    let rate = u64::from(decoded.clip.rate);
    let frames = |ticks: u64| {
        let exact = u128::from(ticks) * u128::from(rate) / u128::from(window.ticks_per_second);
        usize::try_from(exact).unwrap_or(usize::MAX)
    };
    let total = decoded.clip.frames();
    let start = frames(window.delay).min(total);
    let end = match window.length {
        Some(length) => start.saturating_add(frames(length)).min(total),
        None => total,
    };
    if (start, end) == (0, total) {
        return;
    }
    decoded.clip.keep(start..end);
    decoded.notes.push(Note::EncoderDelay { start: start as u64, end: (total - end) as u64 });
}

impl Window {
    fn find(bytes: &[u8], track_ticks: Option<u64>) -> Option<Self> {
        let movie = find(bytes, b"moov")?;
        let track = boxes(movie)
            .filter(|(name, _)| name == b"trak")
            .map(|(_, body)| body)
            .find(|track| is_sound(track))?;
        let ticks_per_second = scale(path(track, &[b"mdia", b"mdhd"])?)?;
        if let Some((delay, length)) = gapless_tag(movie) {
            return Some(Self { delay, length: Some(length), ticks_per_second });
        }
        let (duration, delay) = edit(path(track, &[b"edts", b"elst"])?)?;
        let movie_scale = scale(find(movie, b"mvhd")?)?;
        // The edit's length is in ticks of the movie, often milliseconds: too coarse to cut by, but
        // no frame may be a whole tick after it.
        let bound =
            (u128::from(duration) + 1) * u128::from(ticks_per_second) / u128::from(movie_scale);
        let exact = track_ticks.map(|ticks| ticks.saturating_sub(delay));
        let bound = (duration != 0).then(|| u64::try_from(bound).unwrap_or(u64::MAX));
        Some(Self { delay, length: [exact, bound].into_iter().flatten().min(), ticks_per_second })
    }
}

/// The sequence of boxes in `bytes`; ends at the first broken one.
fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (header, rest) = bytes.split_at_checked(8)?;
        let name = [header[4], header[5], header[6], header[7]];
        let (body, after) = match u32_at(header, 0)? {
            0 => (rest, &rest[rest.len()..]),
            1 => {
                let length = usize::try_from(u64_at(rest, 0)?).ok()?;
                let (body, after) = rest.split_at_checked(length.checked_sub(8)?)?;
                (body.get(8..)?, after)
            }
            length => rest.split_at_checked((length as usize).checked_sub(8)?)?,
        };
        bytes = after;
        Some((name, body))
    })
}

fn find<'a>(bytes: &'a [u8], wanted: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(bytes).find(|(name, _)| name == wanted).map(|(_, body)| body)
}

fn path<'a>(bytes: &'a [u8], names: &[&[u8; 4]]) -> Option<&'a [u8]> {
    names.iter().try_fold(bytes, |bytes, name| find(bytes, name))
}

fn is_sound(track: &[u8]) -> bool {
    path(track, &[b"mdia", b"hdlr"]).and_then(|body| body.get(8..12)) == Some(b"soun")
}

/// Ticks per second of an `mvhd` or `mdhd` box.
fn scale(body: &[u8]) -> Option<u64> {
    let at = match body.first()? {
        0 => 12,
        _ => 20,
    };
    u32_at(body, at).map(u64::from).filter(|scale| *scale > 0)
}

/// Length in ticks of the movie and start in ticks of the track of the first non-empty edit.
fn edit(body: &[u8]) -> Option<(u64, u64)> {
    let wide = *body.first()? != 0;
    let size = if wide { 20 } else { 12 };
    let count = u32_at(body, 4)? as usize;
    let entries = body.get(8..)?.chunks_exact(size).take(count);
    entries
        .map(|entry| match wide {
            true => Some((u64_at(entry, 0)?, u64_at(entry, 8)? as i64)),
            false => Some((u64::from(u32_at(entry, 0)?), i64::from(u32_at(entry, 4)? as i32))),
        })
        .find_map(|edit| {
            let (duration, start) = edit?;
            Some((duration, u64::try_from(start).ok()?))
        })
}

/// Delay and length from the `iTunSMPB` tag: hexadecimal words, the second to fourth
/// being delay, padding and length.
fn gapless_tag(movie: &[u8]) -> Option<(u64, u64)> {
    const NAME: &[u8] = b"iTunSMPB";
    let at = movie.windows(NAME.len()).position(|window| window == NAME)?;
    let (name, data) = boxes(movie.get(at + NAME.len()..)?).next()?;
    if name != *b"data" {
        return None;
    }
    let text = std::str::from_utf8(data.get(8..)?).ok()?;
    let words: Vec<u64> = text
        .split_ascii_whitespace()
        .map_while(|word| u64::from_str_radix(word, 16).ok())
        .collect();
    match words[..] {
        [_, delay, _, length, ..] if length > 0 => Some((delay, length)),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32_at(bytes, at)?) << 32 | u64::from(u32_at(bytes, at + 4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 8).to_be_bytes();
        [&length[..], name, body].concat()
    }

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    /// A movie in milliseconds with one sound track of 44,100 ticks a second.
    fn movie(edits: &[u8], tags: &[u8]) -> Vec<u8> {
        let header = boxed(b"mvhd", &numbers(&[0, 0, 0, 1_000, 0]));
        let media = [
            boxed(b"mdhd", &numbers(&[0, 0, 0, 44_100, 0])),
            boxed(b"hdlr", &[&[0; 8][..], b"soun"].concat()),
        ];
        let track = [boxed(b"edts", edits), boxed(b"mdia", &media.concat())].concat();
        boxed(b"moov", &[header, boxed(b"trak", &track), tags.to_vec()].concat())
    }

    fn edits(entries: &[[u32; 3]]) -> Vec<u8> {
        let count = [0, entries.len() as u32];
        boxed(b"elst", &numbers(&[&count[..], &entries.concat()].concat()))
    }

    #[test]
    fn the_edit_list_gives_the_delay_and_bounds_the_length_by_its_ticks() {
        let bytes = movie(&edits(&[[1_000, 1_024, 0x1_0000]]), &[]);
        let window = |length| Some(Window { delay: 1_024, length, ticks_per_second: 44_100 });
        assert_eq!(Window::find(&bytes, Some(45_100)), window(Some(44_076)));
        assert_eq!(Window::find(&bytes, None), window(Some(44_144)));
    }

    #[test]
    fn an_empty_edit_before_the_sound_is_passed_over() {
        let bytes = movie(&edits(&[[50, u32::MAX, 0x1_0000], [0, 2_112, 0x1_0000]]), &[]);
        let window = Window { delay: 2_112, length: Some(888), ticks_per_second: 44_100 };
        assert_eq!(Window::find(&bytes, Some(3_000)), Some(window));
    }

    #[test]
    fn the_gapless_tag_goes_before_the_edit_list() {
        let text = b" 00000000 00000840 000001CA 000000000000AC44 00000000";
        let data = boxed(b"data", &[&[0; 8][..], text].concat());
        let name = boxed(b"name", &[&[0; 4][..], b"iTunSMPB"].concat());
        let tags = boxed(b"udta", &[name, data].concat());
        let window = Window { delay: 2_112, length: Some(44_100), ticks_per_second: 44_100 };
        let bytes = movie(&edits(&[[1_000, 1_024, 0x1_0000]]), &tags);
        assert_eq!(Window::find(&bytes, Some(50_000)), Some(window));
    }

    #[test]
    fn a_movie_cut_anywhere_gives_no_panic() {
        let bytes = movie(&edits(&[[1_000, 1_024, 0x1_0000]]), &[]);
        for length in 0..bytes.len() {
            assert_eq!(Window::find(&bytes[..length], None), None, "{length} bytes");
        }
    }
}
