//! The head of a request: parsing, and the parts that may be ambiguous.

use httparse::{EMPTY_HEADER, Status};

use crate::refusal::Refusal;

/// The largest head in bytes.
pub const MOST: usize = 16 << 10;
const HEADERS: usize = 64;
const LONGEST_PATH: usize = 256;

#[derive(Debug)]
pub struct Head {
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The head at the start of these bytes, and its length; None if it is not complete.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Refusal> {
        let mut headers = [EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let length = match request.parse(bytes) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if bytes.len() < MOST => return Ok(None),
            Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal::new(431, "the head of the request is too large"));
            }
            Err(error) => return Err(Refusal::new(400, format!("not an HTTP request: {error}"))),
        };
        let target = request.path.unwrap_or_default();
        let header = |header: &httparse::Header| {
            let value = std::str::from_utf8(header.value).map(str::trim);
            let value = value.map_err(|_| Refusal::new(400, "a header is not UTF-8"))?;
            Ok((header.name.to_ascii_lowercase(), value.to_owned()))
        };
        let headers = request.headers.iter().map(header).collect::<Result<_, Refusal>>()?;
        let method = request.method.unwrap_or_default().to_owned();
        Ok(Some((Head { method, path: path(target)?, headers }, length)))
    }

    /// The value of a header that may occur once.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.headers.iter().filter(|(own, _)| own == name);
        let value = values.next().map(|(_, value)| value.as_str());
        match values.next() {
            None => Ok(value),
            Some(_) => Err(Refusal::new(400, format!("the header `{name}` occurs twice"))),
        }
    }

    /// The declared length of the body. A body in chunks is refused: its end is found only by
    /// reading it.
    pub fn body_length(&self) -> Result<Option<usize>, Refusal> {
        if self.one("transfer-encoding")?.is_some() {
            return Err(Refusal::new(
                411,
                "chunked bodies are not supported: send `Content-Length`",
            ));
        }
        let Some(length) = self.one("content-length")? else { return Ok(None) };
        // `parse` also takes a sign.
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| is_number);
        length.map(Some).ok_or_else(|| Refusal::new(400, "`Content-Length` is not a number"))
    }
}

/// The path of a target, which has to name exactly one thing.
fn path(target: &str) -> Result<String, Refusal> {
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let is_part = |part: &str| !["", ".", ".."].contains(&part);
    let parts = path.strip_prefix('/');
    let is_good = path.len() <= LONGEST_PATH
        && path.bytes().all(is_plain)
        && parts.is_some_and(|parts| parts.is_empty() || parts.split('/').all(is_part));
    if is_good {
        Ok(path.to_owned())
    } else {
        Err(Refusal::new(400, "the path has encoded or unusual characters"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<Option<(Head, usize)>, Refusal> {
        Head::parse(text.as_bytes())
    }

    fn refused(text: &str) -> u16 {
        parse(text).unwrap_err().status
    }

    #[test]
    fn a_head_ends_at_the_empty_line() {
        let text = "POST /v1/models?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
        assert!(parse(&text[..40]).unwrap().is_none());
        let (head, length) = parse(text).unwrap().unwrap();
        assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/v1/models"));
        assert_eq!((length, head.body_length()), (text.len() - 2, Ok(Some(2))));
        assert_eq!(head.one("host"), Ok(Some("a")));
    }

    #[test]
    fn a_path_names_one_thing() {
        for bad in [
            "/../etc/passwd",
            "/a/..",
            "/./a",
            "//a",
            "/a//b",
            "/a/",
            "/%2e%2e/a",
            "/a\\b",
            "a",
            "http://localhost/",
            "*",
        ] {
            assert_eq!(refused(&format!("GET {bad} HTTP/1.1\r\n\r\n")), 400, "{bad}");
        }
        let long = "a".repeat(LONGEST_PATH);
        assert_eq!(refused(&format!("GET /{long} HTTP/1.1\r\n\r\n")), 400);
        let (head, _) = parse("GET / HTTP/1.1\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.path, "/");
    }

    #[test]
    fn ambiguous_lengths_are_refused() {
        let length = |headers: &str| {
            let (head, _) =
                parse(&format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n")).unwrap().unwrap();
            head.body_length().map_err(|refusal| refusal.status)
        };
        assert_eq!(length("Content-Length: 1\r\nContent-Length: 2"), Err(400));
        assert_eq!(length("Content-Length: 1\r\nTransfer-Encoding: chunked"), Err(411));
        for bad in ["-1", "+1", "1 1", "0x1", "", "99999999999999999999999"] {
            assert_eq!(length(&format!("Content-Length: {bad}")), Err(400), "{bad}");
        }
        assert_eq!(length("A: b"), Ok(None));
    }

    #[test]
    fn large_heads_and_other_protocols_are_refused() {
        let many = "a: b\r\n".repeat(HEADERS + 1);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{many}\r\n")), 431);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\na: {}", "b".repeat(MOST))), 431);
        assert_eq!(refused("\x16\x03\x01\x02"), 400);
        assert_eq!(refused("GET /\u{e9} HTTP/1.1\r\n\r\n"), 400);
    }
}
