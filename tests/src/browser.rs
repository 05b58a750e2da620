//! A real headless browser, controlled through its pipe in the protocol of its developer tools:
//! JSON messages, each ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

/// Beyond this the browser hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    answers: Receiver<Value>,
    /// Events of the browser since the page was opened.
    told: Vec<Value>,
    last: u64,
    session: Option<String>,
    _profile: tempfile::TempDir,
}

/// The display settings of the page.
#[derive(Clone, Copy)]
pub struct Look {
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

impl Browser {
    /// Starts it and opens a file.
    pub fn open(file: &Path) -> Browser {
        let mut browser = Browser::new();
        browser.visit(file);
        browser
    }

    /// Starts it with an empty page.
    pub fn new() -> Browser {
        let mut browser = Browser::start();
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a file and waits until it is loaded and drawn.
    pub fn visit(&mut self, file: &Path) {
        self.go_to(&format!("file://{}", file.display()));
    }

    /// The same for an address.
    pub fn go_to(&mut self, url: &str) {
        self.told.clear();
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for("Page.loadEventFired");
        self.evaluate("new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn)))");
    }

    fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // The browser uses its descriptors 3 and 4, which only a shell can pass on.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(program().unwrap_or_else(|advice| panic!("{advice}")))
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--autoplay-policy=no-user-gesture-required", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(output).split(0);
            let values = messages.map_while(|message| serde_json::from_slice(&message.ok()?).ok());
            for value in values {
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let (told, last, session, _profile) = (Vec::new(), 0, None, profile);
        Browser { child, input, answers, told, last, session, _profile }
    }

    /// One command of the protocol, and its answer.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.next();
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.told.push(answer);
        }
    }

    fn next(&self) -> Value {
        self.answers.recv_timeout(PATIENCE).expect("the browser answers no more")
    }

    fn wait_for(&mut self, event: &str) {
        while !self.told.iter().any(|told| told["method"] == event) {
            let next = self.next();
            self.told.push(next);
        }
    }

    /// The value of an expression in the page; a promise is awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Errors of the page, and its requests to a network.
    pub fn complaints(&self) -> Vec<String> {
        let complaint = |told: &Value| {
            let parameters = &told["params"];
            match told["method"].as_str()? {
                "Log.entryAdded" => Some(parameters["entry"].to_string()),
                "Runtime.exceptionThrown" => Some(parameters["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" => Some(parameters.to_string()),
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str()?;
                    let is_local = url.starts_with("file:") || url.starts_with("data:");
                    (!is_local).then(|| format!("wants {url}"))
                }
                _ => None,
            }
        };
        self.told.iter().filter_map(complaint).collect()
    }

    pub fn look(&mut self, look: Look) {
        let metrics = json!({
            "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if look.dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media);
    }

    /// The page from top to bottom, as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        self.bytes("Page.captureScreenshot", json!({ "captureBeyondViewport": true }))
    }

    /// The page in print, as PDF.
    pub fn print(&mut self) -> Vec<u8> {
        self.bytes("Page.printToPDF", json!({ "printBackground": true }))
    }

    fn bytes(&mut self, method: &str, parameters: Value) -> Vec<u8> {
        let answer = self.call(method, parameters);
        Base64::decode_vec(answer["data"].as_str().unwrap()).unwrap()
    }
}

impl Default for Browser {
    fn default() -> Browser {
        Browser::new()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The browser that `tools/chromium.sh` finds, without installing one; or advice.
pub fn program() -> Result<PathBuf, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/chromium.sh");
    let found = Command::new("bash").args([script, "--check"]).output().unwrap();
    if found.status.success() {
        Ok(PathBuf::from(String::from_utf8(found.stdout).unwrap().trim()))
    } else {
        Err(format!(
            "{}run tools/chromium.sh, as `make test` does",
            String::from_utf8_lossy(&found.stderr)
        ))
    }
}
