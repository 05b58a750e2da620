//! Starts a local server: its address, its token, and the line that shows both.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use engine::engine::StopFlag;
use server::{Limits, Listener, Refusal, Response, Rules, Service, new_token};
use view::local::Page;

use crate::error::CliError;

/// The interval between checks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A server that has an address and does not answer yet.
pub struct Local {
    listener: Listener,
    rules: Rules,
    token: Option<String>,
}

impl Local {
    /// On this machine only. Other users of the machine need the token, which is new.
    pub fn with_token(port: u16) -> Result<Local, CliError> {
        let token = new_token().map_err(CliError::process("make a token"))?;
        Local::at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Some(token))
    }

    /// At any address. A server for other machines gets a new token if none is given.
    pub fn at(address: SocketAddr, token: Option<String>) -> Result<Local, CliError> {
        let listener = Listener::bind(address, Limits::default()).map_err(|error| {
            let message = format!("cannot listen at `{address}`: {error}");
            CliError::failed(message, "choose another port")
        })?;
        let token = match (token, listener.address().ip().is_loopback()) {
            (None, false) => Some(new_token().map_err(CliError::process("make a token"))?),
            (given, _) => given,
        };
        let refused = |refusal: Refusal| CliError::usage(refusal.reason, "pass `--token`");
        let rules = Rules::new(listener.address(), token.clone()).map_err(refused)?;
        Ok(Local { listener, rules, token })
    }

    /// Prints the address of the page, which has the token, as a line.
    pub fn announce(&self, output: &mut dyn Write) -> Result<(), CliError> {
        let address = self.listener.address();
        let fragment = self.token.as_ref().map(|token| format!("/#{token}"));
        writeln!(output, "http://{address}{}", fragment.unwrap_or_default())?;
        output.flush()?;
        Ok(())
    }

    /// Answers in threads of its own for as long as the process lives.
    pub fn start(self, service: Arc<dyn Service>) -> Result<(), CliError> {
        let Local { listener, rules, .. } = self;
        let listen = move || listener.serve(&rules, &service);
        let started = Builder::new().name("listener".into()).spawn(listen);
        started.map(drop).map_err(CliError::process("start a thread"))
    }
}

/// Waits for a request to stop.
pub fn wait(stop: &StopFlag) {
    while !stop.is_requested() {
        std::thread::sleep(LOOK);
    }
}

/// The answer with a page.
pub fn answer(page: &Page) -> Response {
    Response::new(200, "text/html; charset=utf-8", page.html())
        .with("Content-Security-Policy", page.rules())
}
