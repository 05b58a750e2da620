//! `serve`: voices for programs and for a page in the browser.

mod api;
mod metrics;
mod queue;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use engine::engine::StopFlag;
use server::{Limits, Listener, Refusal, Rules, Service, new_token};

use super::arguments;
use super::error::{CliError, Exit};
use super::interrupt;
use super::project::Program;
use super::voice::{Manner, Voices};
use api::Api;
use metrics::Metrics;
use queue::Queue;

/// The interval between checks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

pub fn serve(
    program: &Program,
    arguments: &arguments::Serve,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let stop = StopFlag::default();
    interrupt::on_signals(stop.clone(), interrupt::silent())
        .map_err(CliError::process("listen for signals"))?;
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let address = arguments.listen.unwrap_or(local);
    // A port that is taken is told before a model is loaded.
    let listener = Listener::bind(address, Limits::default()).map_err(|error| {
        CliError::failed(format!("cannot listen at `{address}`: {error}"), "choose another port")
    })?;
    let token = token(arguments, listener.address())?;
    let rules = Rules::new(listener.address(), token.clone()).map_err(refused)?;
    let mut voices = Voices::find(program, &arguments.voices, &arguments.options, &stop)?;
    warm_up(program, &mut voices)?;
    let metrics = Arc::new(Metrics::default());
    let queue = Arc::new(Queue::new(usize::from(arguments.queue), metrics.clone()));
    let service: Arc<dyn Service> = Arc::new(Api::new(&voices, queue.clone(), metrics));
    announce(&listener, token.as_deref(), &voices, output)?;
    let listen = move || listener.serve(&rules, &service);
    Builder::new()
        .name("listener".into())
        .spawn(listen)
        .map_err(CliError::process("start a thread"))?;
    let ending = (queue.clone(), stop.clone());
    let watch = move || {
        let (queue, stop) = ending;
        while !stop.is_requested() {
            std::thread::sleep(LOOK);
        }
        queue.close();
    };
    Builder::new()
        .name("ending".into())
        .spawn(watch)
        .map_err(CliError::process("start a thread"))?;
    queue.work(&mut voices);
    voices.end();
    Ok(Exit::Done)
}

fn refused(refusal: Refusal) -> CliError {
    CliError::usage(refusal.reason, "give `--token`")
}

/// The token that clients have to know.
fn token(arguments: &arguments::Serve, address: SocketAddr) -> Result<Option<String>, CliError> {
    match (&arguments.token, address.ip().is_loopback()) {
        (Some(token), _) => Ok(Some(token.clone())),
        (None, true) => Ok(None),
        (None, false) => new_token().map(Some).map_err(CliError::process("make a token")),
    }
}

/// Opens all voices, and lets each speak once, which loads what is loaded late.
fn warm_up(program: &Program, voices: &mut Voices) -> Result<(), CliError> {
    voices.open()?;
    for at in 0..voices.voices.len() {
        let voice = &voices.voices[at];
        let name = voice.name.clone();
        let Ok(item) = voice.item("a", &Manner { speaker: None, speed: 1.0 }) else { continue };
        match voices.speak(at, &[item]) {
            Ok(_) => program.tell(&format!("`{name}` is ready")),
            Err(error) => return Err(super::voice::failed(&name, &error)),
        }
    }
    Ok(())
}

/// The address of the page, in the first line of the output.
fn announce(
    listener: &Listener,
    token: Option<&str>,
    voices: &Voices,
    output: &mut dyn Write,
) -> Result<(), CliError> {
    let address = listener.address();
    let fragment = token.map(|token| format!("/#{token}")).unwrap_or_default();
    writeln!(output, "http://{address}{fragment}")?;
    for voice in &voices.voices {
        let license = voice.license.as_deref().map(|license| format!("  ({license})"));
        writeln!(output, "  {}{}", voice.name, license.unwrap_or_default())?;
    }
    output.flush()?;
    Ok(())
}
