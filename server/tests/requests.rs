//! Requests over real sockets: those that are answered, and those that are refused or cut off.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use server::{Limits, Listener, Method, Peer, Refusal, Request, Response, Rules, Service};

/// Repeats bodies, streams on `/stream`, and waits on `/wait` until the client is gone.
struct Echo {
    answered: AtomicUsize,
    waits: mpsc::SyncSender<()>,
    gone: mpsc::SyncSender<()>,
}

impl Service for Echo {
    fn is_public(&self, path: &str) -> bool {
        path == "/"
    }

    fn answer(&self, request: &Request, peer: &mut Peer) -> Result<(), Refusal> {
        let failed = |_| Refusal::new(500, "gone");
        match (request.method, request.path.as_str()) {
            (Method::Post, "/echo") => {
                peer.send(&Response::new(200, "application/json", request.body.clone()))
            }
            (Method::Get, "/stream") => {
                let mut body = peer.stream(200, &[]).map_err(failed)?;
                for part in ["one ", "", "two"] {
                    body.write(part.as_bytes()).map_err(failed)?;
                }
                body.finish()
            }
            (Method::Get, "/wait") => {
                let _ = self.waits.send(());
                while !peer.is_gone() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let _ = self.gone.send(());
                Ok(())
            }
            _ => return Err(Refusal::new(404, "there is nothing here")),
        }
        .map_err(failed)
    }

    fn answered(&self, _: u16) {
        self.answered.fetch_add(1, Ordering::SeqCst);
    }
}

struct Running {
    address: SocketAddr,
    echo: Arc<Echo>,
    waits: mpsc::Receiver<()>,
    gone: mpsc::Receiver<()>,
}

fn running(limits: Limits) -> Running {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), limits).unwrap();
    let address = listener.address();
    let (waits_sender, waits) = mpsc::sync_channel(8);
    let (gone_sender, gone) = mpsc::sync_channel(8);
    let echo =
        Arc::new(Echo { answered: AtomicUsize::new(0), waits: waits_sender, gone: gone_sender });
    let service: Arc<dyn Service> = echo.clone();
    let rules = Rules::new(address, None).unwrap();
    std::thread::spawn(move || listener.serve(&rules, &service));
    Running { address, echo, waits, gone }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    fn host(&self) -> String {
        format!("Host: localhost:{}\r\n", self.address.port())
    }

    /// The whole answer to these bytes.
    fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // A refusal may arrive before everything is sent.
        let _ = stream.write_all(bytes);
        answer(&mut stream)
    }

    fn get(&self, path: &str) -> String {
        self.ask(format!("GET {path} HTTP/1.1\r\n{}\r\n", self.host()).as_bytes())
    }

    /// A connection whose request the service is answering, until the connection is dropped.
    fn held(&self) -> TcpStream {
        let mut stream = self.connect();
        let request = format!("GET /wait HTTP/1.1\r\n{}\r\n", self.host());
        stream.write_all(request.as_bytes()).unwrap();
        self.waits.recv_timeout(Duration::from_secs(30)).unwrap();
        stream
    }

    fn post(&self, headers: &str, body: &str) -> String {
        let (host, length) = (self.host(), body.len());
        self.ask(
            format!("POST /echo HTTP/1.1\r\n{host}Content-Length: {length}\r\n{headers}\r\n{body}")
                .as_bytes(),
        )
    }
}

fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("{answer:?}")).parse().unwrap()
}

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn a_request_is_answered_whole_or_in_parts() {
    let running = running(Limits::default());
    let echoed = running.post(JSON, "{\"a\": 1}");
    assert!(echoed.starts_with("HTTP/1.1 200 OK\r\n"), "{echoed}");
    assert!(echoed.ends_with("\r\n\r\n{\"a\": 1}"), "{echoed}");
    let streamed = running.get("/stream");
    assert!(streamed.ends_with("\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"), "{streamed}");
    assert_eq!(running.echo.answered.load(Ordering::SeqCst), 2);
}

#[test]
fn foreign_hosts_and_origins_are_refused_before_the_body_is_read() {
    let running = running(Limits::default());
    let foreign = "POST /echo HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 60000\r\n\r\n";
    assert_eq!(status(&running.ask(foreign.as_bytes())), 403);
    let origin = running.post(&format!("{JSON}Origin: http://evil.example\r\n"), "{}");
    assert_eq!(status(&origin), 403);
    assert!(!origin.to_lowercase().contains("access-control"), "{origin}");
}

#[test]
fn only_json_of_a_declared_and_allowed_length_is_taken() {
    let running = running(Limits { body: 1_000, ..Limits::default() });
    assert_eq!(status(&running.post("Content-Type: text/plain\r\n", "{}")), 415);
    assert_eq!(status(&running.post("", "{}")), 415);
    assert_eq!(status(&running.post(JSON, &"x".repeat(1_001))), 413);
    assert_eq!(status(&running.post(JSON, &"x".repeat(1_000))), 200);
    let huge = format!(
        "POST /echo HTTP/1.1\r\n{}{JSON}Content-Length: 18446744073709551615\r\n\r\n",
        running.host()
    );
    assert_eq!(status(&running.ask(huge.as_bytes())), 413);
    let chunked = format!(
        "POST /echo HTTP/1.1\r\n{}{JSON}Transfer-Encoding: chunked\r\n\r\n",
        running.host()
    );
    assert_eq!(status(&running.ask(chunked.as_bytes())), 411);
    let two = format!("Content-Length: 3\r\n{JSON}");
    assert_eq!(status(&running.post(&two, "{}")), 400);
}

#[test]
fn path_tricks_and_other_methods_are_refused() {
    let running = running(Limits::default());
    for path in ["/../../etc/passwd", "/%2e%2e/x", "//evil.example/", "http://evil.example/"] {
        assert_eq!(status(&running.get(path)), 400, "{path}");
    }
    assert_eq!(status(&running.get("/nothing")), 404);
    for method in ["PUT", "DELETE", "OPTIONS", "CONNECT", "HEAD"] {
        let request = format!("{method} /echo HTTP/1.1\r\n{}\r\n", running.host());
        assert_eq!(status(&running.ask(request.as_bytes())), 405, "{method}");
    }
    assert_eq!(status(&running.ask(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")), 400);
}

#[test]
fn slow_clients_are_cut_off_and_do_not_hold_up_others() {
    let patience = Duration::from_millis(300);
    let running = running(Limits { patience, ..Limits::default() });
    let mut slow = running.connect();
    slow.write_all(b"GET /stream HTTP/1.1\r\n").unwrap();
    // A byte now and then does not extend the time.
    let dripping = slow.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut dripping = dripping;
        while dripping.write_all(b"a").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(status(&running.get("/stream")), 200);
    assert_eq!(status(&answer(&mut slow)), 408);
    let mut silent = running.connect();
    assert_eq!(status(&answer(&mut silent)), 408);
}

#[test]
fn requests_beyond_the_limit_are_told_so() {
    let running = running(Limits { connections: 2, ..Limits::default() });
    let held: Vec<TcpStream> = (0..2).map(|_| running.held()).collect();
    let refused = running.get("/stream");
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("Retry-After: 1"), "{refused}");
    drop(held);
    // A client that hangs up frees its place.
    for _ in 0..2 {
        running.gone.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    let freed = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        status(&running.get("/stream")) == 200
    });
    assert!(freed, "the places are not free again");
}

/// The start of a request that never goes on.
fn half(running: &Running, part: &str) -> TcpStream {
    let mut stream = running.connect();
    stream.write_all(part.as_bytes()).unwrap();
    stream
}

#[test]
fn half_sent_requests_give_way_to_whole_ones() {
    let running = running(Limits::default());
    let head = "GET /stream HTTP/1.1\r\nHost: loc";
    let post =
        format!("POST /echo HTTP/1.1\r\n{}{JSON}Content-Length: 9\r\n\r\n{{", running.host());
    for part in ["", head, &post] {
        let mut held: Vec<TcpStream> = (0..300).map(|_| half(&running, part)).collect();
        for _ in 0..20 {
            assert_eq!(status(&running.get("/stream")), 200);
            assert_eq!(status(&running.post(JSON, "{}")), 200);
        }
        let first = answer(&mut held[0]);
        assert_eq!(status(&first), 408, "{first}");
        assert!(first.contains("more slowly than those of others"), "{first}");
    }
}

#[test]
fn slow_bodies_do_not_refuse_others_and_are_cut_off() {
    let patience = Duration::from_secs(600);
    let running = running(Limits { patience, ..Limits::default() });
    let post = format!("POST /echo HTTP/1.1\r\n{}{JSON}Content-Length: 90\r\n\r\n", running.host());
    let mut slow: Vec<TcpStream> = (0..80).map(|_| half(&running, &post)).collect();
    assert_eq!(status(&running.post(JSON, "{}")), 200);
    // Bytes that drip do not keep it alive.
    for stream in &mut slow {
        let _ = stream.write_all(b"{");
    }
    for stream in &mut slow {
        assert_eq!(status(&answer(stream)), 408);
    }
}

#[test]
fn an_answer_keeps_its_place_among_slow_peers() {
    let running = running(Limits { connections: 2, arriving: 2, ..Limits::default() });
    let waiting = running.held();
    let _slow: Vec<TcpStream> = (0..40).map(|_| half(&running, "GET")).collect();
    assert_eq!(status(&running.get("/stream")), 200);
    assert!(running.gone.try_recv().is_err(), "its connection is still open");
    drop(waiting);
    running.gone.recv_timeout(Duration::from_secs(30)).unwrap();
}
