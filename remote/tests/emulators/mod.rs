//! Servers for remotes: emulators of S3 (moto) and of Azure (Azurite) where they can be installed, and a
//! web server of a folder.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An emulator of a service, ended when it is dropped.
pub struct Emulator {
    child: Child,
    pub port: u16,
}

impl Emulator {
    /// None if it cannot be installed; the reason is printed.
    fn start(name: &str, arguments: &dyn Fn(u16) -> Vec<String>) -> Option<Emulator> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/stores.sh");
        let found = Command::new("bash").arg(script).arg(name).stderr(Stdio::inherit()).output();
        let found = found.unwrap();
        if !found.status.success() {
            eprintln!("left out: there is no {name}");
            return None;
        }
        let program = String::from_utf8(found.stdout).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program.trim());
        command.args(arguments(port)).stdout(Stdio::null()).stderr(Stdio::null());
        let emulator = Emulator { child: command.spawn().unwrap(), port };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(120), "{name} does not listen");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(emulator)
    }

    pub fn moto() -> Option<Emulator> {
        let arguments = |port: u16| ["-H", "127.0.0.1", "-p", &port.to_string()].map(String::from);
        let moto = Emulator::start("moto", &|port| arguments(port).to_vec())?;
        let mut stream = TcpStream::connect(("127.0.0.1", moto.port)).unwrap();
        let head = "Host: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n";
        write!(stream, "PUT /team HTTP/1.1\r\n{head}\r\n").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.contains("200"), "{answer}");
        Some(moto)
    }

    pub fn azurite() -> Option<Emulator> {
        // Without the second one, it reports its use to its makers.
        let flags = ["--silent", "--disableTelemetry", "--inMemoryPersistence", "--blobPort"];
        let arguments = |port: u16| {
            let flags = flags.into_iter().map(String::from);
            flags.chain([port.to_string(), "--skipApiVersionCheck".into()]).collect()
        };
        let azurite = Emulator::start("azurite", &arguments)?;
        let made = Command::new("node")
            .args(["-e", MAKE_CONTAINER, &azurite.port.to_string()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(azurite)
    }

    /// The variables of clients of moto; the container or bucket of both is `team`.
    pub fn s3_variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "me".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "hunter2-hunter2".to_owned()),
        ]
    }

    /// The variables of clients of Azurite.
    pub fn azure_variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AZURE_STORAGE_USE_EMULATOR", "true".to_owned()),
            ("AZURITE_BLOB_STORAGE_URL", format!("http://127.0.0.1:{}", self.port)),
        ]
    }
}

/// Signs the request that makes the container `team`: the client has no operation for it. The account and
/// its key are those of every emulator.
const MAKE_CONTAINER: &str = r#"
const crypto = require("crypto"), http = require("http"), port = process.argv[1];
const account = "devstoreaccount1", date = new Date().toUTCString(), version = "2021-12-02";
const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const text = "PUT" + "\n".repeat(12) + `x-ms-date:${date}\nx-ms-version:${version}\n`
    + `/${account}/${account}/team\nrestype:container`;
const signature = crypto.createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
const headers = { "x-ms-date": date, "x-ms-version": version, "content-length": 0,
    authorization: `SharedKey ${account}:${signature}` };
const path = `/${account}/team?restype=container`;
http.request({ host: "127.0.0.1", port, path, method: "PUT", headers }, (answer) => {
    if (answer.statusCode !== 201) { console.error(answer.statusCode); process.exit(1); }
}).end();
"#;

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request for the bytes of a file, and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub name: String,
    /// The first byte that was asked for; none for the whole file.
    pub from: Option<u64>,
    pub is_cut_off: bool,
}

/// Breaks off the answer to a request for this file from this byte on.
type Cut = dyn Fn(&str, Option<u64>) -> bool + Send + Sync;

/// A web server of a folder with ranges, as nginx is one. It ends with the process.
pub struct Web {
    pub port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    cut: Arc<Mutex<Box<Cut>>>,
}

impl Web {
    pub fn start(root: &Path) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let never: Box<Cut> = Box::new(|_, _| false);
        let web = Web { port, asked: Arc::default(), cut: Arc::new(Mutex::new(never)) };
        let (asked, cut) = (Arc::clone(&web.asked), Arc::clone(&web.cut));
        let root = root.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (root, asked, cut) = (root.clone(), Arc::clone(&asked), Arc::clone(&cut));
                // The client may hang up in the middle.
                std::thread::spawn(move || answer(stream, &root, &asked, &cut));
            }
        });
        web
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on, these answers end in the middle.
    pub fn cut(&self, cut: impl Fn(&str, Option<u64>) -> bool + Send + Sync + 'static) {
        *self.cut.lock().unwrap() = Box::new(cut);
    }

    /// The requests since the last call.
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

fn answer(
    mut stream: TcpStream,
    root: &Path,
    asked: &Mutex<Vec<Asked>>,
    cut: &Mutex<Box<Cut>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while reader.read_line(&mut head)? > 0 && !head.ends_with("\r\n\r\n") {}
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let name = path.trim_start_matches('/').to_owned();
    let file: PathBuf = root.join(&name);
    let end = "Last-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\nConnection: close\r\n\r\n";
    if !["GET", "HEAD"].contains(&method) {
        return write!(stream, "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n{end}");
    }
    let Ok(whole) = std::fs::read(file) else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n{end}");
    };
    let range = head.lines().find_map(|line| {
        let (field, range) = line.split_once(": ")?;
        field.eq_ignore_ascii_case("range").then_some(range.strip_prefix("bytes=")?)
    });
    let range = range.and_then(|range| {
        let (from, to) = range.split_once('-')?;
        Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()?))
    });
    let (body, status) = match range {
        None => (&whole[..], "200 OK".to_owned()),
        Some((from, _)) if from >= whole.len() => (
            &whole[..0],
            format!("416 Range Not Satisfiable\r\nContent-Range: bytes */{}", whole.len()),
        ),
        Some((from, to)) => {
            let to = to.min(whole.len() - 1);
            let status = "206 Partial Content\r\nContent-Range: bytes";
            (&whole[from..=to], format!("{status} {from}-{to}/{}", whole.len()))
        }
    };
    let from = range.map(|(from, _)| from as u64);
    let is_cut_off = method == "GET" && (cut.lock().unwrap())(&name, from);
    if method == "GET" {
        asked.lock().unwrap().push(Asked { name, from, is_cut_off });
    }
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{end}", body.len())?;
    match (method, is_cut_off) {
        ("HEAD", _) => Ok(()),
        (_, true) => stream.write_all(&body[..body.len() / 2]),
        (_, false) => stream.write_all(body),
    }
}
