//! Names the common remains of a failed download in the place of a file.

/// The type of the data, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    pub what: &'static str,
    pub help: &'static str,
}

const FETCH: &str = "the download failed: fetch the file again";

/// Starts of texts, in lower case.
const TEXTS: [(&str, Stranger); 4] = [
    ("version https://git-lfs", Stranger { what: "a git-lfs pointer", help: "run `git lfs pull`" }),
    ("<!doctype html", Stranger { what: "an HTML page", help: FETCH }),
    ("<html", Stranger { what: "an HTML page", help: FETCH }),
    ("<?xml", Stranger { what: "an XML document", help: FETCH }),
];
const BINARIES: [(&str, Stranger); 2] = [
    ("{", Stranger { what: "a JSON document", help: FETCH }),
    ("%pdf", Stranger { what: "a PDF document", help: "" }),
];
/// The longest part of a file that is looked at.
pub const HEAD: usize = 512;

impl Stranger {
    /// In the place of a text file, JSON included.
    pub fn as_text(bytes: &[u8]) -> Option<Stranger> {
        find(&TEXTS, &start(bytes))
    }

    /// In the place of a binary file.
    pub fn as_binary(bytes: &[u8]) -> Option<Stranger> {
        match bytes {
            [] => Some(Stranger { what: "an empty file", help: "" }),
            [0x1F, 0x8B, ..] => Some(Stranger { what: "a gzip archive", help: "unpack it first" }),
            _ => {
                let start = start(bytes);
                find(&TEXTS, &start).or_else(|| find(&BINARIES, &start))
            }
        }
    }
}

fn start(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(HEAD)];
    String::from_utf8_lossy(head).trim_start().to_ascii_lowercase()
}

fn find(known: &[(&str, Stranger)], text: &str) -> Option<Stranger> {
    known.iter().find(|(mark, _)| text.starts_with(mark)).map(|(_, stranger)| *stranger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_strange_in_a_binary_file_alone() {
        let what = |stranger: Option<Stranger>| stranger.map(|stranger| stranger.what);
        let pointer: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
        for (bytes, as_text, as_binary) in [
            (pointer, Some("a git-lfs pointer"), Some("a git-lfs pointer")),
            (b"\n <!DOCTYPE HTML>", Some("an HTML page"), Some("an HTML page")),
            (b"{\"error\": 404}", None, Some("a JSON document")),
            (b"", None, Some("an empty file")),
            (b"\x1f\x8b\x08", None, Some("a gzip archive")),
            (b"PK\x03\x04", None, None),
        ] {
            assert_eq!(
                (what(Stranger::as_text(bytes)), what(Stranger::as_binary(bytes))),
                (as_text, as_binary)
            );
        }
    }
}
