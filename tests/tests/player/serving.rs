//! `serve` with a graph.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::support::{GRAPH, PublishedVoice};

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(voice: &PublishedVoice) -> Server {
        let mut command = voice.throstle(&["serve", GRAPH, "--port", "0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line}"));
        let address = address.split('/').next().unwrap().to_owned();
        Server { child, address }
    }

    /// A connection that has sent a request.
    fn request(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let body = json!({"model": "joe", "voice": "joe", "input": text}).to_string();
        let head = format!(
            "POST /v1/audio/speech HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    fn speak(&self, text: &str) -> (u16, Vec<u8>) {
        let mut answer = Vec::new();
        self.request(text).read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), answer[end + 4..].to_vec())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn samples(body: Vec<u8>) -> Vec<i16> {
    let reader = hound::WavReader::new(std::io::Cursor::new(body)).unwrap();
    reader.into_samples::<i16>().map(|sample| sample.unwrap()).collect()
}

#[test]
fn requests_get_the_same_samples_as_say_in_any_order() {
    let Some(voice) = PublishedVoice::find() else { return };
    voice.say("a", "Hello, world.", &[]);
    let server = Server::start(&voice);
    for text in ["How are you?", "Hello, world.", "Fine.", "Hello, world."] {
        let (status, body) = server.speak(text);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        if text == "Hello, world." {
            let (own, said) = (samples(body), voice.samples("a"));
            assert_eq!(own.len(), said.len());
            assert!(own.iter().zip(&said).all(|(own, said)| own.abs_diff(*said) <= 1));
        }
    }
    let (status, body) = server.speak("Привет.");
    assert_eq!(status, 400, "{}", String::from_utf8_lossy(&body));
}

#[test]
fn a_client_that_is_killed_frees_its_place() {
    let Some(voice) = PublishedVoice::quiet() else { return };
    let server = Server::start(&voice);
    let long = "This sentence is spoken for somebody who has left already. ".repeat(40);
    for _ in 0..3 {
        drop(server.request(&long));
    }
    let began = std::time::Instant::now();
    assert_eq!(server.speak("Hello.").0, 200);
    // All of the long texts would be minutes of sound.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_signal_ends_the_server() {
    let Some(voice) = PublishedVoice::quiet() else { return };
    let mut server = Server::start(&voice);
    let _busy = server.request(&"A long text that takes a while. ".repeat(40));
    let process = nix::unistd::Pid::from_raw(server.child.id() as i32);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
    let status = server.child.wait().unwrap();
    assert!(status.code().is_some(), "{status}");
}
