//! `serve`: voices for programs and for a page in the browser.

mod api;
mod metrics;
mod parts;
mod queue;
mod request;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::Builder;

use engine::engine::StopFlag;
use server::Service;

use super::local::{Local, wait};
use super::voice::{Manner, ReadingError, Voices};
use crate::arguments::{self, OnUnknown};
use crate::error::{CliError, Exit};
use crate::project::Program;
use crate::run::interrupt;
use api::SpeechApi;
use metrics::Metrics;
use queue::Queue;

pub fn serve(
    program: &Program,
    arguments: &arguments::Serve,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let stop = StopFlag::default();
    interrupt::on_signals(stop.clone(), interrupt::silent())
        .map_err(CliError::process("listen for signals"))?;
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    // A port that is taken is told before a model is loaded.
    let local = Local::at(arguments.listen.unwrap_or(here), arguments.token.clone())?;
    let mut voices = Voices::find(program, &arguments.voices, &arguments.options, &stop)?;
    warm_up(program, &mut voices)?;
    let metrics = Arc::new(Metrics::default());
    let queue = Arc::new(Queue::new(usize::from(arguments.queue), metrics.clone()));
    let service: Arc<dyn Service> = Arc::new(SpeechApi::new(&voices, queue.clone(), metrics));
    // In one piece: a program that reads only the address closes the pipe.
    let mut told = Vec::new();
    local.announce(&mut told)?;
    list(&voices, &mut told)?;
    output.write_all(&told)?;
    output.flush()?;
    local.start(service)?;
    let ending = (queue.clone(), stop.clone());
    let watch = move || {
        let (queue, stop) = ending;
        wait(&stop);
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

/// Opens all voices, and lets each speak once, which loads what is loaded late.
fn warm_up(program: &Program, voices: &mut Voices) -> Result<(), CliError> {
    voices.open()?;
    for at in 0..voices.voices.len() {
        let voice = &voices.voices[at];
        let name = voice.name.clone();
        let manner = Manner { speaker: None, speed: 1.0, on_unknown: Some(OnUnknown::Report) };
        let Ok(item) = voice.item("a", &manner) else { continue };
        let item = match voice.read(item, &manner) {
            Ok(sentence) => sentence.item,
            Err(ReadingError::Stage(error)) => return Err(super::voice::failed(&name, &error)),
            Err(ReadingError::Text(_) | ReadingError::Lost { .. }) => {
                program.tell(&format!("`{name}` is ready"));
                continue;
            }
        };
        let failure = voices.speak(at, &[item]).into_iter().find_map(Result::err);
        failure.map_or(Ok(()), |error| Err(super::voice::failed(&name, &error)))?;
        program.tell(&format!("`{name}` is ready"));
    }
    Ok(())
}

fn list(voices: &Voices, output: &mut dyn Write) -> Result<(), CliError> {
    for voice in &voices.voices {
        let license = voice.license.as_deref().map(|license| format!("  ({license})"));
        writeln!(output, "  {}{}", voice.name, license.unwrap_or_default())?;
    }
    output.flush()?;
    Ok(())
}
