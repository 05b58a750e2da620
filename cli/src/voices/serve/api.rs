//! The answers of the server: the speech interface of OpenAI, lists, figures and the page.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::{Value, json};
use server::{Method, Peer, Refusal, Request, Response, Service};
use stage_families::dropped::code_point;

use super::metrics::Metrics;
use super::parts::Sending;
use super::queue::{PendingRequest, Queue, Silence};
use super::request::{self, SoundFormat, SpeechRequest, bad};
use crate::voices::local;
use crate::voices::voice::{
    Manner, ON_UNKNOWN, ReadingError, Sentence, Sound, Voice, Voices, all_dropped, sentences,
};

/// The interval between checks if the client is still there.
const LOOK: Duration = Duration::from_millis(100);
/// The time after which a refused client may try again, in seconds.
const RETRY: u64 = 2;

pub struct SpeechApi {
    voices: Vec<Voice>,
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    page: view::local::Page,
}

/// Headers of an answer that has a sound.
type Notes = Vec<(&'static str, String)>;

/// Characters that were left out, such as `U+0033=2, U+002C=1`. Headers are ASCII.
const DROPPED: &str = "Throstle-Dropped";
const NOTE: &str = "Throstle-Note";
/// Clients limit the size of headers.
const MAX_NAMED_CHARACTERS: usize = 300;

impl SpeechApi {
    pub fn new(voices: &Voices, queue: Arc<Queue>, metrics: Arc<Metrics>) -> SpeechApi {
        SpeechApi { voices: voices.voices.clone(), queue, metrics, page: view::voices::page() }
    }

    fn models(&self) -> Value {
        let model = |voice: &Voice| {
            json!({
                "id": voice.name, "object": "model", "created": 0, "owned_by": "throstle",
                "license": voice.license,
            })
        };
        let models: Vec<Value> = self.voices.iter().map(model).collect();
        json!({"object": "list", "data": models})
    }

    fn speak(&self, request: &Request, peer: &mut Peer) -> Result<(), Refusal> {
        let request = request::read(&self.voices, &request.body)?;
        let voice = &self.voices[request.voice];
        let read = sentences(&request.text).into_iter();
        let read = read.map(|sentence| read_sentence(voice, &sentence, &request.manner));
        let read = read.collect::<Result<Vec<Sentence>, Refusal>>()?;
        let notes = notes(&request, voice, &read);
        let count = read.len();
        let items = read.into_iter().map(|sentence| sentence.item).collect();
        let place = self.queue.enter(request.voice, items).ok_or_else(|| {
            let reason = "too many requests wait; try again in a moment";
            Refusal { retry_after: Some(RETRY), ..Refusal::new(429, reason) }
        })?;
        match request.sending {
            Sending::Whole => self.whole(&place, count, request.format, notes, peer),
            Sending::Parts | Sending::Events => self.stream(&place, count, &request, notes, peer),
        }
    }

    fn whole(
        &self,
        place: &PendingRequest,
        count: usize,
        format: SoundFormat,
        notes: Notes,
        peer: &mut Peer,
    ) -> Result<(), Refusal> {
        let mut whole = Sound::default();
        for _ in 0..count {
            let Some(sound) = self.next(place, || peer.is_gone())? else { return Ok(()) };
            whole.append(&sound);
        }
        let media_type = format.media_type(whole.rate);
        let body = match format {
            SoundFormat::Wav => whole.wav(),
            SoundFormat::Flac => whole.flac(),
            SoundFormat::Pcm => Ok(Sound::pcm(&whole.samples)),
            // Clients try again after 500, which helps nothing here.
            SoundFormat::Compressed(format) => Ok(format.write(&whole).map_err(bad)?),
        };
        let body = body.map_err(|why: String| Refusal::new(500, why))?;
        let mut response = Response::new(200, &media_type, body);
        response.headers.extend(notes);
        self.sent(peer.send(&response));
        Ok(())
    }

    /// Sends each sentence as soon as it is spoken. A failure in the middle cuts the answer off.
    fn stream(
        &self,
        place: &PendingRequest,
        count: usize,
        request: &SpeechRequest,
        notes: Notes,
        peer: &mut Peer,
    ) -> Result<(), Refusal> {
        // Until the first sentence is spoken, a refusal can still be told.
        let Some(first) = self.next(place, || peer.is_gone())? else { return Ok(()) };
        let SpeechRequest { format, sending, .. } = request;
        let media_type = sending.media_type(format.media_type(first.rate));
        let headers = [vec![("Content-Type", media_type)], notes].concat();
        let sent = peer.stream(200, &headers).and_then(|mut body| {
            let mut begun = match format {
                SoundFormat::Wav => Sound::endless_head(first.rate),
                SoundFormat::Flac | SoundFormat::Pcm | SoundFormat::Compressed(_) => Vec::new(),
            };
            begun.extend(Sound::pcm(&first.samples));
            body.write(&sending.part(begun))?;
            for _ in 1..count {
                let next = self.next(place, || body.is_gone());
                let Some(sound) = next.map_err(|refusal| io::Error::other(refusal.reason))? else {
                    return Ok(());
                };
                let mut part = Sound::pcm(&sound.pause());
                part.extend(Sound::pcm(&sound.samples));
                body.write(&sending.part(part))?;
            }
            body.write(&sending.end(request.text.chars().count()))?;
            body.finish()
        });
        self.sent(sent);
        Ok(())
    }

    /// The next sentence; None if the client is gone.
    fn next(
        &self,
        place: &PendingRequest,
        is_gone: impl Fn() -> bool,
    ) -> Result<Option<Sound>, Refusal> {
        loop {
            match place.sounds.recv_timeout(LOOK) {
                Ok(Ok(sound)) if !is_gone() => return Ok(Some(sound)),
                Ok(Ok(_)) => {
                    self.metrics.abandoned();
                    return Ok(None);
                }
                Ok(Err(Silence::Text(why))) => return Err(bad(why)),
                Ok(Err(Silence::Server(why))) => return Err(Refusal::new(500, why)),
                Err(RecvTimeoutError::Timeout) if is_gone() => {
                    self.metrics.abandoned();
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Refusal::new(503, "the server is shutting down"));
                }
            }
        }
    }

    fn sent(&self, sent: io::Result<()>) {
        if sent.is_err() {
            self.metrics.abandoned();
        }
    }
}

/// A sentence as it arrives at the model.
fn read_sentence(voice: &Voice, text: &str, manner: &Manner) -> Result<Sentence, Refusal> {
    let item = voice.item(text, manner).map_err(bad)?;
    voice.read(item, manner).map_err(|unread| match unread {
        ReadingError::Text(why) => bad(why),
        ReadingError::Lost { why, advice } => {
            bad(format!("{why}: {advice}; `\"{ON_UNKNOWN}\": \"report\"` speaks without them"))
        }
        ReadingError::Stage(error) => Refusal::new(500, error.to_string()),
    })
}

/// The headers about characters that are left out, and about the voice.
fn notes(request: &SpeechRequest, voice: &Voice, read: &[Sentence]) -> Notes {
    let mut notes = Notes::new();
    let dropped = all_dropped(read);
    if !dropped.is_empty() {
        let one = |(own, count): (&char, &u64)| format!("{}={count}", code_point(*own));
        let named: Vec<String> = dropped.iter().take(MAX_NAMED_CHARACTERS).map(one).collect();
        notes.push((DROPPED, named.join(", ")));
        if let Some(more) = dropped.len().checked_sub(MAX_NAMED_CHARACTERS).filter(|more| *more > 0)
        {
            notes.push((NOTE, format!("{more} more characters were left out")));
        }
    }
    if let Some(name) = &request.stands_for {
        let (name, own) = (name.escape_default(), voice.name.escape_default());
        notes.push((NOTE, format!("no voice \"{name}\": spoken by \"{own}\"")));
    }
    notes
}

impl Service for SpeechApi {
    /// The page shows nothing by itself, and whether the server lives is no secret.
    fn is_public(&self, path: &str) -> bool {
        ["/", "/health"].contains(&path)
    }

    fn answer(&self, request: &Request, peer: &mut Peer) -> Result<(), Refusal> {
        let response = match (request.method, request.path.as_str()) {
            (Method::Post, "/v1/audio/speech") => return self.speak(request, peer),
            (Method::Get, "/") => local::answer(&self.page),
            (Method::Get, "/v1/models") => Response::json(200, &self.models()),
            (Method::Get, "/v1/audio/voices") => {
                let voice = |name: String| json!({"id": name, "name": name});
                let voices: Vec<Value> =
                    request::listed(&self.voices).into_iter().map(voice).collect();
                Response::json(200, &json!({"voices": voices}))
            }
            (Method::Get, "/health") => {
                let waiting = self.queue.waiting();
                Response::json(200, &json!({"status": "ok", "waiting": waiting}))
            }
            (Method::Get, "/metrics") => {
                let text = self.metrics.text(self.queue.waiting());
                Response::new(200, "text/plain; version=0.0.4", text)
            }
            _ => {
                let (method, path) = (request.method, &request.path);
                return Err(Refusal::new(404, format!("not found: {method:?} {path}")));
            }
        };
        self.sent(peer.send(&response));
        Ok(())
    }

    fn answered(&self, status: u16) {
        self.metrics.answered(status);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn voices() -> Vec<Voice> {
        vec![Voice::for_tests("one", &[]), Voice::for_tests("many", &["aino", "eero"])]
    }

    fn request(body: Value) -> Result<SpeechRequest, String> {
        let read = request::read(&voices(), body.to_string().as_bytes());
        read.map_err(|refusal| refusal.reason)
    }

    #[test]
    fn the_names_of_other_voices_stand_for_the_first_one_with_a_note() {
        let asked = |model: &str, voice: &str| {
            request(json!({"model": model, "voice": voice, "input": "a"})).unwrap()
        };
        let (first, of_model) = (asked("tts-1", "alloy"), asked("many", "nova\u{e4}\r\nA: b"));
        assert_eq!((first.voice, of_model.voice), (0, 1));
        assert_eq!(asked("tts-1", "one").stands_for, None);
        let voices = voices();
        let told = |request: &SpeechRequest| notes(request, &voices[request.voice], &[]);
        assert_eq!(told(&first), [(NOTE, "no voice \"alloy\": spoken by \"one\"".to_owned())]);
        let note = &told(&of_model)[0].1;
        assert!(note.is_ascii() && !note.contains(['\r', '\n']), "{note}");
    }

    #[test]
    fn characters_that_are_left_out_are_in_a_header() {
        let item = stage_core::Item::new("", stage_core::Fields::new());
        let sentence = |dropped: &[(char, u64)]| Sentence {
            item: item.clone(),
            dropped: dropped.iter().copied().collect(),
        };
        let read = [sentence(&[('3', 2)]), sentence(&[('3', 1), ('ж', 1)]), sentence(&[])];
        let request = request(json!({"model": "one", "input": "a"})).unwrap();
        let told = notes(&request, &voices()[0], &read);
        assert_eq!(told, [(DROPPED, "U+0033=3, U+0436=1".to_owned())]);
    }
}
