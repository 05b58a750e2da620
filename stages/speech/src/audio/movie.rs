//! The boxes of the movie in an MP4 file that matter for its sound: the edit list and Apple's gapless
//! tag, which tell the frames that the encoder added.

/// The part to keep, in ticks of the audio track.
#[derive(Debug, PartialEq, Eq)]
pub struct EditWindow {
    pub delay: u64,
    pub length: Option<u64>,
    pub ticks_per_second: u64,
}

/// The sound track of a movie.
pub struct Track {
    pub window: Option<EditWindow>,
    /// The name of the codec of its samples.
    pub codec: Option<[u8; 4]>,
    /// The number of packets; None if fragments hold them.
    pub packets: Option<u64>,
    /// The number of sound tracks.
    pub tracks: u64,
    /// The number of parts that the edit list takes out of the track.
    pub edits: u64,
}

impl Track {
    /// `ticks` is the length of the track.
    pub fn find(movie: &[u8], ticks: Option<u64>) -> Option<Track> {
        let sound = || {
            let tracks = boxes(movie).filter(|(name, _)| name == b"trak").map(|(_, body)| body);
            tracks.filter(|track| is_sound(track))
        };
        let track = sound().next()?;
        let table = path(track, &[b"mdia", b"minf", b"stbl"]);
        let entry = table.and_then(|table| find(table, b"stsd")).and_then(|body| body.get(12..16));
        let packets = table.and_then(|table| find(table, b"stsz")).and_then(|body| u32_at(body, 8));
        Some(Track {
            window: EditWindow::find(movie, track, ticks),
            codec: entry.and_then(|name| name.try_into().ok()),
            packets: packets.filter(|count| *count > 0).map(u64::from),
            tracks: sound().count() as u64,
            edits: path(track, &[b"edts", b"elst"]).map_or(0, |body| edits(body).count() as u64),
        })
    }
}

impl EditWindow {
    fn find(movie: &[u8], track: &[u8], ticks: Option<u64>) -> Option<Self> {
        let ticks_per_second = scale(path(track, &[b"mdia", b"mdhd"])?)?;
        if let Some((delay, length)) = gapless_tag(movie) {
            return Some(Self { delay, length: Some(length), ticks_per_second });
        }
        let (duration, delay) = edits(path(track, &[b"edts", b"elst"])?).next()?;
        let movie_scale = scale(find(movie, b"mvhd")?)?;
        // The edit's length is in ticks of the movie, often milliseconds: too coarse to cut by, but
        // no frame may be a whole tick after it.
        let bound =
            (u128::from(duration) + 1) * u128::from(ticks_per_second) / u128::from(movie_scale);
        let exact = ticks.map(|ticks| ticks.saturating_sub(delay));
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

/// Length in ticks of the movie and start in ticks of the track of each edit that is not empty.
fn edits(body: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let wide = body.first().is_some_and(|version| *version != 0);
    let size = if wide { 20 } else { 12 };
    let count = u32_at(body, 4).unwrap_or(0) as usize;
    let entries = body.get(8..).unwrap_or_default().chunks_exact(size).take(count);
    entries.filter_map(move |entry| {
        let (duration, start) = if wide {
            (u64_at(entry, 0)?, u64_at(entry, 8)? as i64)
        } else {
            (u64::from(u32_at(entry, 0)?), i64::from(u32_at(entry, 4)? as i32))
        };
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

    fn edit_list(entries: &[[u32; 3]]) -> Vec<u8> {
        let count = [0, entries.len() as u32];
        boxed(b"elst", &numbers(&[&count[..], &entries.concat()].concat()))
    }

    fn window(bytes: &[u8], ticks: Option<u64>) -> Option<EditWindow> {
        Track::find(find(bytes, b"moov")?, ticks)?.window
    }

    #[test]
    fn the_edit_list_gives_the_delay_and_bounds_the_length_by_its_ticks() {
        let bytes = movie(&edit_list(&[[1_000, 1_024, 0x1_0000]]), &[]);
        let expected = |length| Some(EditWindow { delay: 1_024, length, ticks_per_second: 44_100 });
        assert_eq!(window(&bytes, Some(45_100)), expected(Some(44_076)));
        assert_eq!(window(&bytes, None), expected(Some(44_144)));
    }

    #[test]
    fn an_empty_edit_before_the_sound_is_passed_over() {
        let bytes = movie(&edit_list(&[[50, u32::MAX, 0x1_0000], [0, 2_112, 0x1_0000]]), &[]);
        let expected = EditWindow { delay: 2_112, length: Some(888), ticks_per_second: 44_100 };
        assert_eq!(window(&bytes, Some(3_000)), Some(expected));
    }

    #[test]
    fn the_gapless_tag_goes_before_the_edit_list() {
        let text = b" 00000000 00000840 000001CA 000000000000AC44 00000000";
        let data = boxed(b"data", &[&[0; 8][..], text].concat());
        let name = boxed(b"name", &[&[0; 4][..], b"iTunSMPB"].concat());
        let tags = boxed(b"udta", &[name, data].concat());
        let expected = EditWindow { delay: 2_112, length: Some(44_100), ticks_per_second: 44_100 };
        let bytes = movie(&edit_list(&[[1_000, 1_024, 0x1_0000]]), &tags);
        assert_eq!(window(&bytes, Some(50_000)), Some(expected));
    }

    #[test]
    fn a_movie_cut_anywhere_gives_no_panic() {
        let bytes = movie(&edit_list(&[[1_000, 1_024, 0x1_0000]]), &[]);
        for length in 0..bytes.len() {
            assert_eq!(window(&bytes[..length], None), None, "{length} bytes");
        }
    }
}
