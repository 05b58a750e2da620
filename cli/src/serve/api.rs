//! The answers of the server: the speech interface of OpenAI, lists, figures and the page.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::{Value, json};
use server::{Method, Peer, Refusal, Request, Response, Service};

use super::metrics::Metrics;
use super::parts::Sending;
use super::queue::{Place, Queue, Silence};
use crate::local;
use crate::voice::{Manner, Sound, Voice, Voices, sentences};

/// The longest text in characters, as OpenAI has it.
const LONGEST: usize = 4096;
const SPEEDS: std::ops::RangeInclusive<f64> = 0.25..=4.0;
/// The interval between checks if the client is still there.
const LOOK: Duration = Duration::from_millis(100);
/// The time after which a refused client may try again, in seconds.
const RETRY: u64 = 2;

pub struct Api {
    voices: Vec<Voice>,
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    page: view::local::Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Wav,
    Flac,
    Pcm,
}

impl Format {
    fn media_type(self, rate: u32) -> String {
        match self {
            Format::Wav => "audio/wav".to_owned(),
            Format::Flac => "audio/flac".to_owned(),
            Format::Pcm => format!("audio/pcm;rate={rate};channels=1;bits=16"),
        }
    }
}

/// A valid request for speech.
#[derive(Debug)]
struct Wish {
    voice: usize,
    manner: Manner,
    text: String,
    format: Format,
    sending: Sending,
}

impl Api {
    pub fn new(voices: &Voices, queue: Arc<Queue>, metrics: Arc<Metrics>) -> Api {
        Api { voices: voices.voices.clone(), queue, metrics, page: view::voices::page() }
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

    /// Every voice, and every speaker of it with a name.
    fn listed(&self) -> Vec<String> {
        let names = self.voices.iter().flat_map(|voice| {
            let speakers = voice.speakers.iter().map(|name| format!("{}:{name}", voice.name));
            std::iter::once(voice.name.clone()).chain(speakers)
        });
        names.collect()
    }

    fn speak(&self, request: &Request, peer: &mut Peer) -> Result<(), Refusal> {
        let wish = self.wish(&request.body)?;
        let voice = &self.voices[wish.voice];
        let items = sentences(&wish.text).into_iter();
        let items = items.map(|sentence| voice.item(&sentence, &wish.manner));
        let items = items.collect::<Result<Vec<_>, _>>().map_err(bad)?;
        let place = self.queue.enter(wish.voice, items.clone()).ok_or_else(|| {
            let reason = "too many requests wait; try again in a moment";
            Refusal { retry_after: Some(RETRY), ..Refusal::new(429, reason) }
        })?;
        match wish.sending {
            Sending::Whole => self.whole(&place, items.len(), wish.format, peer),
            Sending::Parts | Sending::Events => self.stream(&place, items.len(), &wish, peer),
        }
    }

    fn whole(
        &self,
        place: &Place,
        count: usize,
        format: Format,
        peer: &mut Peer,
    ) -> Result<(), Refusal> {
        let mut whole = Sound::default();
        for _ in 0..count {
            let Some(sound) = self.next(place, || peer.is_gone())? else { return Ok(()) };
            whole.append(&sound);
        }
        let media_type = format.media_type(whole.rate);
        let body = match format {
            Format::Wav => whole.wav(),
            Format::Flac => whole.flac(),
            Format::Pcm => Ok(Sound::pcm(&whole.samples)),
        };
        let body = body.map_err(|why| Refusal::new(500, why))?;
        self.sent(peer.send(&Response::new(200, &media_type, body)));
        Ok(())
    }

    /// Sends each sentence as soon as it is spoken. A failure in the middle cuts the answer off.
    fn stream(
        &self,
        place: &Place,
        count: usize,
        wish: &Wish,
        peer: &mut Peer,
    ) -> Result<(), Refusal> {
        // Until the first sentence is spoken, a refusal can still be told.
        let Some(first) = self.next(place, || peer.is_gone())? else { return Ok(()) };
        let Wish { format, sending, .. } = wish;
        let media_type = sending.media_type(format.media_type(first.rate));
        let sent = peer.stream(200, &[("Content-Type", media_type)]).and_then(|mut body| {
            let mut begun = match format {
                Format::Wav => Sound::endless_head(first.rate),
                Format::Flac | Format::Pcm => Vec::new(),
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
            body.write(&sending.end(wish.text.chars().count()))?;
            body.finish()
        });
        self.sent(sent);
        Ok(())
    }

    /// The next sentence; None if the client is gone.
    fn next(&self, place: &Place, is_gone: impl Fn() -> bool) -> Result<Option<Sound>, Refusal> {
        loop {
            match place.sounds.recv_timeout(LOOK) {
                Ok(Ok(sound)) => return Ok(Some(sound)),
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

    fn wish(&self, body: &[u8]) -> Result<Wish, Refusal> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| bad(format!("the body is not JSON: {error}")))?;
        let Value::Object(body) = body else { return Err(bad("the body is not a JSON object")) };
        let text = match body.get("input") {
            Some(Value::String(text)) => text.clone(),
            _ => return Err(bad("`input` must be a string")),
        };
        let length = text.chars().count();
        if length > LONGEST {
            return Err(bad(format!(
                "`input` has {length} characters, expected {LONGEST} at most"
            )));
        }
        if text.trim().is_empty() {
            return Err(bad("`input` is empty"));
        }
        let format = match body.get("response_format") {
            None | Some(Value::Null) => Format::Wav,
            Some(Value::String(name)) if name == "wav" => Format::Wav,
            Some(Value::String(name)) if name == "flac" => Format::Flac,
            Some(Value::String(name)) if name == "pcm" => Format::Pcm,
            Some(other) => {
                return Err(bad(format!(
                    "`response_format` is {other}, expected wav, flac or pcm"
                )));
            }
        };
        let speed = match body.get("speed") {
            None | Some(Value::Null) => 1.0,
            Some(value) => {
                value.as_f64().filter(|speed| SPEEDS.contains(speed)).ok_or_else(|| {
                    bad(format!(
                        "`speed` is {value}, expected {} to {}",
                        SPEEDS.start(),
                        SPEEDS.end()
                    ))
                })?
            }
        };
        let sending = sending(&body)?;
        if sending != Sending::Whole && format == Format::Flac {
            return Err(bad("flac cannot be streamed: use wav or pcm"));
        }
        let (voice, speaker) = self.chosen(&body)?;
        let manner = Manner { speaker, speed };
        Ok(Wish { voice, manner, text, format, sending })
    }

    /// The voice and its speaker: `voice` is a voice, `VOICE:SPEAKER`, or a speaker of `model`.
    fn chosen(
        &self,
        body: &serde_json::Map<String, Value>,
    ) -> Result<(usize, Option<String>), Refusal> {
        let voice = match body.get("voice") {
            Some(Value::Object(voice)) => voice.get("id"),
            other => other,
        };
        let name = |value: Option<&Value>, field: &str| match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(name)) => Ok(Some(name.clone())),
            Some(other) => Err(bad(format!("`{field}` is {other}, expected a name"))),
        };
        let (model, voice) = (name(body.get("model"), "model")?, name(voice, "voice")?);
        let find = |name: &str| self.voices.iter().position(|known| known.name == name);
        let of_model = model.as_deref().and_then(find);
        let speaks = |at: usize, speaker: &str| {
            self.voices[at].speakers.iter().any(|own| own == speaker).then(|| speaker.to_owned())
        };
        let Some(voice) = voice else {
            let only = (self.voices.len() == 1).then_some(0);
            return of_model
                .or(only)
                .map(|at| (at, None))
                .ok_or_else(|| self.unknown("model", model));
        };
        if let Some(at) = find(&voice) {
            return Ok((at, None));
        }
        if let Some((name, speaker)) = voice.rsplit_once(':')
            && let Some(at) = find(name)
            && let Some(speaker) = speaks(at, speaker)
        {
            return Ok((at, Some(speaker)));
        }
        let found = of_model.and_then(|at| Some((at, Some(speaks(at, &voice)?))));
        found.ok_or_else(|| self.unknown("voice", Some(voice)))
    }

    fn unknown(&self, field: &str, given: Option<String>) -> Refusal {
        let listed = self.listed().join(", ");
        match given {
            Some(given) => bad(format!("unknown `{field}` {given:?}; {listed}")),
            None => bad(format!("give a `voice`: {listed}")),
        }
    }
}

/// Events are always sent in parts, as OpenAI does.
fn sending(body: &serde_json::Map<String, Value>) -> Result<Sending, Refusal> {
    let is_streamed = match body.get("stream") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_streamed)) => *is_streamed,
        Some(other) => return Err(bad(format!("`stream` is {other}, expected true or false"))),
    };
    match body.get("stream_format") {
        Some(Value::String(name)) if name == "sse" => Ok(Sending::Events),
        Some(Value::String(name)) if name != "audio" => {
            Err(bad(format!("`stream_format` is {name:?}, expected audio or sse")))
        }
        None | Some(Value::Null | Value::String(_)) if is_streamed => Ok(Sending::Parts),
        None | Some(Value::Null | Value::String(_)) => Ok(Sending::Whole),
        Some(other) => Err(bad(format!("`stream_format` is {other}, expected audio or sse"))),
    }
}

fn bad(reason: impl Into<String>) -> Refusal {
    Refusal::new(400, reason)
}

impl Service for Api {
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
                let voices: Vec<Value> = self.listed().into_iter().map(voice).collect();
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

    fn api() -> Api {
        let voice = |name: &str, speakers: &[&str]| Voice::for_tests(name, speakers);
        let voices = vec![voice("one", &[]), voice("many", &["aino", "eero"])];
        let metrics = Arc::new(Metrics::default());
        let queue = Arc::new(Queue::new(1, metrics.clone()));
        Api { voices, queue, metrics, page: view::voices::page() }
    }

    fn wish(body: Value) -> Result<Wish, String> {
        api().wish(body.to_string().as_bytes()).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn a_voice_is_named_in_several_ways() {
        let chosen = |model: &str, voice: &str| {
            let wish = wish(json!({"model": model, "voice": voice, "input": "a"})).unwrap();
            (wish.voice, wish.manner.speaker)
        };
        assert_eq!(chosen("tts-1", "one"), (0, None));
        assert_eq!(chosen("many", "eero"), (1, Some("eero".into())));
        assert_eq!(chosen("tts-1", "many:aino"), (1, Some("aino".into())));
        let object = wish(json!({"model": "x", "voice": {"id": "many"}, "input": "a"})).unwrap();
        assert_eq!(object.voice, 1);
        let error = wish(json!({"model": "one", "voice": "alloy", "input": "a"})).unwrap_err();
        let expected = "unknown `voice` \"alloy\"; one, many, many:aino, many:eero";
        assert_eq!(error, expected);
    }

    #[test]
    fn what_is_not_said_is_as_in_the_first_example_of_a_client() {
        let wish = wish(json!({"model": "one", "input": "Hei."})).unwrap();
        let chosen = (wish.format, wish.manner.speed, wish.sending);
        assert_eq!(chosen, (Format::Wav, 1.0, Sending::Whole));
    }

    #[test]
    fn a_stream_is_asked_for_in_two_ways() {
        let sending = |more: Value| {
            let mut body = json!({"model": "one", "input": "Hei."});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            wish(body).unwrap().sending
        };
        assert_eq!(sending(json!({"stream_format": "audio"})), Sending::Whole);
        assert_eq!(sending(json!({"stream_format": "audio", "stream": true})), Sending::Parts);
        assert_eq!(sending(json!({"stream_format": "sse"})), Sending::Events);
    }

    #[test]
    fn wrong_wishes_are_refused_with_what_was_expected() {
        let with = |field: &str, value: Value| {
            let mut body = json!({"model": "one", "input": "Hei."});
            body[field] = value;
            wish(body).unwrap_err()
        };
        for (field, value, told) in [
            ("input", json!(5), "`input` must be a string"),
            ("input", json!(" "), "`input` is empty"),
            ("input", json!("a".repeat(4097)), "has 4097 characters, expected 4096 at most"),
            ("response_format", json!("mp3"), "is \"mp3\", expected wav, flac or pcm"),
            ("speed", json!(5), "`speed` is 5, expected 0.25 to 4"),
            ("speed", json!("fast"), "`speed` is \"fast\""),
            ("stream", json!("yes"), "`stream` is \"yes\""),
            ("stream_format", json!("mp4"), "is \"mp4\", expected audio or sse"),
            ("stream_format", json!(1), "is 1, expected audio or sse"),
            ("voice", json!(["one"]), "expected a name"),
        ] {
            let error = with(field, value);
            assert!(error.contains(told), "{field}: {error}");
        }
        assert!(api().wish(b"{").unwrap_err().reason.contains("not JSON"));
        assert!(api().wish(b"[]").unwrap_err().reason.contains("not a JSON object"));
    }
}
