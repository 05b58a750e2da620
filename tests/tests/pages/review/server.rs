//! A running review, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use throstle_tests::Project;

pub struct Server {
    child: Child,
    pub address: String,
    pub token: String,
}

impl Server {
    pub fn start(project: &Project) -> Server {
        let mut command = project.throstle(&["review", "aligned", "--port", "0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line}"));
        let (address, token) = address.split_once("/#").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(token.len(), 32);
        Server { address: address.to_owned(), token: token.to_owned(), child }
    }

    pub fn url(&self) -> String {
        format!("http://{}/#{}", self.address, self.token)
    }

    /// The status and the body for a head without `Host`, and a body. The status is 0 if a review that
    /// was killed does not answer.
    pub fn raw(&self, line: &str, headers: &str, body: &str) -> (u16, Vec<u8>) {
        let Ok(mut stream) = TcpStream::connect(&self.address) else { return (0, Vec::new()) };
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut bytes = Vec::new();
        // A refusal may come before all is sent.
        let _ = stream.write_all(head.as_bytes());
        stream.read_to_end(&mut bytes).unwrap_or_default();
        let status = bytes.get(9..12).and_then(|status| std::str::from_utf8(status).ok());
        let status = status.and_then(|status| status.parse().ok()).unwrap_or(0);
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
        (status, end.map(|end| bytes.split_off(end + 4)).unwrap_or_default())
    }

    fn headers(&self) -> String {
        format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.token)
    }

    pub fn get(&self, path: &str) -> (u16, Vec<u8>) {
        self.raw(&format!("GET {path}"), &self.headers(), "")
    }

    pub fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}");
        serde_json::from_slice(&body).unwrap()
    }

    pub fn post(&self, wish: &Value) -> (u16, Value) {
        let (status, body) = self.raw("POST /correct", &self.headers(), &wish.to_string());
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// A correction that is taken.
    pub fn correct(&self, wish: &Value) -> Value {
        let (status, answer) = self.post(wish);
        assert_eq!(status, 200, "{wish}: {answer}");
        answer
    }

    /// The reason for which a correction is refused.
    pub fn refused(&self, wish: &Value) -> String {
        let (status, answer) = self.post(wish);
        assert_ne!(status, 200, "{wish}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    }

    pub fn rows(&self) -> Vec<Value> {
        self.json("/clips")["rows"].as_array().unwrap().clone()
    }

    pub fn drop_clip(&self, row: &Value) -> Value {
        self.correct(&json!({"action": "drop", "key": row["key"]}))
    }

    /// Kills it without a warning.
    pub fn kill_now(&self) {
        let process = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The row of a clip.
pub fn row<'a>(rows: &'a [Value], id: &str) -> &'a Value {
    rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no clip `{id}`"))
}
