//! The other end of a connection: reading a request within its limits, and writing the answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::connections::Ticket;
use crate::head::{self, Head};
use crate::limits::Limits;
use crate::refusal::Refusal;

/// The largest part of an answer that has to be taken within the patience.
const PART: usize = 64 << 10;
/// The time and bytes for which the rest of a refused request is read, so that the reason arrives.
const DRAINED: Duration = Duration::from_millis(300);
const DRAIN: usize = 256 << 10;

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn new(status: u16, media_type: &str, body: impl Into<Vec<u8>>) -> Response {
        let headers = vec![("Content-Type", media_type.to_owned())];
        Response { status, headers, body: body.into() }
    }

    pub fn json(status: u16, value: &serde_json::Value) -> Response {
        Response::new(status, "application/json", value.to_string())
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }
}

/// A request with its head read.
pub(crate) struct RequestStart {
    pub head: Head,
    /// The part of the body that came along.
    pub rest: Vec<u8>,
}

pub struct Peer {
    stream: TcpStream,
    limits: Limits,
    ticket: Ticket,
    /// The time of its connection, and the bytes since then.
    since: Instant,
    received: u64,
    /// The status of the answer, once it has begun.
    pub(crate) status: Option<u16>,
}

impl Peer {
    pub(crate) fn new(stream: TcpStream, limits: Limits, ticket: Ticket) -> Peer {
        Peer { stream, limits, ticket, since: Instant::now(), received: 0, status: None }
    }

    /// Keeps the place of the connection for the answer; false if there are too many.
    pub(crate) fn keeps_its_place(&self) -> bool {
        self.ticket.keep()
    }

    /// The head of the request, and what came behind it. None if the client left.
    pub(crate) fn head(&mut self) -> io::Result<Option<Result<RequestStart, Refusal>>> {
        let mut bytes = Vec::new();
        loop {
            match Head::parse(&bytes) {
                Err(refusal) => return Ok(Some(Err(refusal))),
                Ok(Some((head, length))) => {
                    return Ok(Some(Ok(RequestStart { head, rest: bytes.split_off(length) })));
                }
                Ok(None) => {}
            }
            match self.read_more(&mut bytes, head::MOST, self.end())? {
                Some(0) if self.ticket.is_lost() => return Ok(Some(Err(slow()))),
                Some(0) if bytes.is_empty() => return Ok(None),
                Some(0) => return Ok(Some(Err(Refusal::new(400, "the request is incomplete")))),
                Some(_) => {}
                None => return Ok(Some(Err(late()))),
            }
        }
    }

    /// The body; a part of it has been read already.
    pub(crate) fn body(
        &mut self,
        mut bytes: Vec<u8>,
        length: usize,
    ) -> io::Result<Result<Vec<u8>, Refusal>> {
        if length > self.limits.body {
            let most = self.limits.body;
            return Ok(Err(Refusal::new(413, format!("the body is larger than {most} bytes"))));
        }
        while bytes.len() < length {
            match self.read_more(&mut bytes, length, self.end())? {
                Some(0) if self.ticket.is_lost() => return Ok(Err(slow())),
                Some(0) => return Ok(Err(Refusal::new(400, "the request is incomplete"))),
                Some(_) => {}
                None => return Ok(Err(late())),
            }
        }
        // One request a connection: what follows is not read.
        bytes.truncate(length);
        Ok(Ok(bytes))
    }

    /// The time at which the next bytes of the request have to be there.
    fn end(&self) -> Instant {
        self.since + self.limits.time_for(self.received)
    }

    /// Reads until there are this many bytes at most; None if the time is over.
    fn read_more(
        &mut self,
        bytes: &mut Vec<u8>,
        most: usize,
        end: Instant,
    ) -> io::Result<Option<usize>> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut buffer = [0; 4096];
        let room = buffer.len().min(most.saturating_sub(bytes.len()).max(1));
        loop {
            return match self.stream.read(&mut buffer[..room]) {
                Ok(count) => {
                    bytes.extend_from_slice(&buffer[..count]);
                    self.received += count as u64;
                    self.ticket.received(count);
                    Ok(Some(count))
                }
                Err(error) if is_late(&error) => Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// True if the client has closed the connection: nobody waits for the answer.
    pub fn is_gone(&self) -> bool {
        let look = || -> io::Result<bool> {
            self.stream.set_nonblocking(true)?;
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_nonblocking(false)?;
            match peeked {
                Ok(count) => Ok(count == 0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
                Err(error) => Err(error),
            }
        };
        look().unwrap_or(true)
    }

    /// Sends a whole answer.
    ///
    /// # Errors
    ///
    /// If the client is gone, or takes it too slowly.
    pub fn send(&mut self, response: &Response) -> io::Result<()> {
        let mut head = self.begin(response.status, &response.headers);
        head.push_str(&format!("Content-Length: {}\r\n\r\n", response.body.len()));
        self.write(head.as_bytes())?;
        self.write(&response.body)
    }

    /// Begins an answer of unknown length.
    ///
    /// # Errors
    ///
    /// See [`Peer::send`].
    pub fn stream(
        &mut self,
        status: u16,
        headers: &[(&'static str, String)],
    ) -> io::Result<Body<'_>> {
        let mut head = self.begin(status, headers);
        head.push_str("Transfer-Encoding: chunked\r\n\r\n");
        self.write(head.as_bytes())?;
        Ok(Body { peer: self })
    }

    fn begin(&mut self, status: u16, headers: &[(&'static str, String)]) -> String {
        self.status = Some(status);
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in headers {
            // A value from elsewhere cannot begin another header.
            let value: String = value.chars().filter(|letter| !letter.is_control()).collect();
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Connection: close\r\nCache-Control: no-store\r\n");
        head.push_str("X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n");
        head
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for mut part in bytes.chunks(PART) {
            let end = Instant::now() + self.limits.patience;
            while !part.is_empty() {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(ErrorKind::TimedOut.into());
                }
                self.stream.set_write_timeout(Some(left))?;
                match self.stream.write(part) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(count) => part = &part[count..],
                    Err(error) if is_late(&error) => return Err(ErrorKind::TimedOut.into()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Ends the connection. Closing it with unread bytes would make the system throw the answer
    /// away, so they are read, for a moment.
    pub(crate) fn close(mut self) {
        self.ticket.closes();
        let _ = self.stream.shutdown(Shutdown::Write);
        let (end, mut bytes) = (Instant::now() + DRAINED, Vec::new());
        while bytes.len() < DRAIN {
            match self.read_more(&mut bytes, DRAIN, end) {
                Ok(Some(count)) if count > 0 => {}
                _ => break,
            }
        }
    }
}

fn late() -> Refusal {
    Refusal::new(408, "the request took too long to arrive")
}

fn slow() -> Refusal {
    Refusal::new(408, "the request arrived more slowly than those of others")
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The parts of an answer of unknown length.
pub struct Body<'a> {
    peer: &'a mut Peer,
}

impl Body<'_> {
    /// Sends a part.
    ///
    /// # Errors
    ///
    /// See [`Peer::send`].
    pub fn write(&mut self, part: &[u8]) -> io::Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        self.peer.write(format!("{:x}\r\n", part.len()).as_bytes())?;
        self.peer.write(part)?;
        self.peer.write(b"\r\n")
    }

    /// Ends the answer. Without this the client notices that it is cut off.
    ///
    /// # Errors
    ///
    /// See [`Peer::send`].
    pub fn finish(self) -> io::Result<()> {
        self.peer.write(b"0\r\n\r\n")
    }

    pub fn is_gone(&self) -> bool {
        self.peer.is_gone()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}
