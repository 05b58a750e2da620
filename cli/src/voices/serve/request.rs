//! A request for speech as OpenAI's clients send it.

use serde_json::Value;
use server::Refusal;

use super::parts::Sending;
use crate::arguments::OnUnknown;
use crate::voices::voice::{CompressedFormat, Manner, ON_UNKNOWN, Voice};

/// The longest text in characters, as OpenAI has it.
const MAX_INPUT_CHARACTERS: usize = 4096;
const SPEEDS: std::ops::RangeInclusive<f64> = 0.25..=4.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoundFormat {
    Wav,
    Flac,
    Pcm,
    Compressed(CompressedFormat),
}

impl SoundFormat {
    const NAMES: &str = "wav, flac, pcm, mp3, opus or aac";

    pub fn of(name: &str) -> Option<SoundFormat> {
        match name {
            "wav" => Some(SoundFormat::Wav),
            "flac" => Some(SoundFormat::Flac),
            "pcm" => Some(SoundFormat::Pcm),
            "mp3" => Some(SoundFormat::Compressed(CompressedFormat::Mp3)),
            "opus" => Some(SoundFormat::Compressed(CompressedFormat::Opus)),
            "aac" => Some(SoundFormat::Compressed(CompressedFormat::Aac)),
            _ => None,
        }
    }

    fn is_streamed(self) -> bool {
        matches!(self, SoundFormat::Wav | SoundFormat::Pcm)
    }

    pub fn media_type(self, rate: u32) -> String {
        match self {
            SoundFormat::Wav => "audio/wav".to_owned(),
            SoundFormat::Flac => "audio/flac".to_owned(),
            SoundFormat::Pcm => format!("audio/pcm;rate={rate};channels=1;bits=16"),
            SoundFormat::Compressed(format) => format.media_type().to_owned(),
        }
    }
}

/// A valid request for speech.
#[derive(Debug)]
pub struct SpeechRequest {
    pub voice: usize,
    pub manner: Manner,
    pub text: String,
    pub format: SoundFormat,
    pub sending: Sending,
    /// The requested name, if no voice has it and another voice speaks.
    pub stands_for: Option<String>,
}

/// The voice of a request.
struct VoiceChoice {
    voice: usize,
    speaker: Option<String>,
    stands_for: Option<String>,
}

impl VoiceChoice {
    fn of(voice: usize) -> VoiceChoice {
        VoiceChoice { voice, speaker: None, stands_for: None }
    }
}

/// Every voice, and every speaker of it with a name.
pub fn listed(voices: &[Voice]) -> Vec<String> {
    let names = voices.iter().flat_map(|voice| {
        let speakers = voice.speakers.iter().map(|name| format!("{}:{name}", voice.name));
        std::iter::once(voice.name.clone()).chain(speakers)
    });
    names.collect()
}

/// A request with the voices that it may name.
pub fn read(voices: &[Voice], body: &[u8]) -> Result<SpeechRequest, Refusal> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the body is not JSON: {error}")))?;
    let Value::Object(body) = body else { return Err(bad("the body is not a JSON object")) };
    let text = match body.get("input") {
        Some(Value::String(text)) => text.clone(),
        _ => return Err(bad("`input` must be a string")),
    };
    let length = text.chars().count();
    if length > MAX_INPUT_CHARACTERS {
        return Err(bad(format!(
            "`input` has {length} characters, expected {MAX_INPUT_CHARACTERS} at most"
        )));
    }
    if text.trim().is_empty() {
        return Err(bad("`input` is empty"));
    }
    let format = match body.get("response_format") {
        None | Some(Value::Null) => SoundFormat::Wav,
        Some(other) => other.as_str().and_then(SoundFormat::of).ok_or_else(|| {
            bad(format!("`response_format` is {other}, expected {}", SoundFormat::NAMES))
        })?,
    };
    let speed = match body.get("speed") {
        None | Some(Value::Null) => 1.0,
        Some(value) => value.as_f64().filter(|speed| SPEEDS.contains(speed)).ok_or_else(|| {
            bad(format!("`speed` is {value}, expected {} to {}", SPEEDS.start(), SPEEDS.end()))
        })?,
    };
    let sending = sending(&body)?;
    if sending != Sending::Whole && !format.is_streamed() {
        return Err(bad("only wav and pcm can be streamed"));
    }
    let on_unknown = match body.get(ON_UNKNOWN) {
        None | Some(Value::Null) => None,
        Some(other) => {
            let read = other.as_str().and_then(OnUnknown::read).ok_or_else(|| {
                bad(format!("`{ON_UNKNOWN}` is {other}, expected fail or report"))
            })?;
            Some(read)
        }
    };
    let VoiceChoice { voice, speaker, stands_for } = chosen(voices, &body)?;
    let manner = Manner { speaker, speed, on_unknown };
    Ok(SpeechRequest { voice, manner, text, format, sending, stands_for })
}

/// The voice and its speaker: `voice` is a voice, `VOICE:SPEAKER`, or a speaker of `model`. Any other
/// name, such as those of OpenAI that clients send, stands for the voice of `model`, or else the
/// first one.
fn chosen(voices: &[Voice], body: &serde_json::Map<String, Value>) -> Result<VoiceChoice, Refusal> {
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
    let find = |name: &str| voices.iter().position(|known| known.name == name);
    let of_model = model.as_deref().and_then(find);
    let speaks = |at: usize, speaker: &str| {
        voices[at].speakers.iter().any(|own| own == speaker).then(|| speaker.to_owned())
    };
    let Some(voice) = voice else {
        let only = (voices.len() == 1).then_some(0);
        return of_model
            .or(only)
            .map(VoiceChoice::of)
            .ok_or_else(|| unknown(voices, "model", model));
    };
    if let Some(at) = find(&voice) {
        return Ok(VoiceChoice::of(at));
    }
    if let Some((name, speaker)) = voice.rsplit_once(':')
        && let Some(at) = find(name)
    {
        let speaker = speaks(at, speaker);
        return match speaker {
            Some(_) => Ok(VoiceChoice { speaker, ..VoiceChoice::of(at) }),
            None => Err(unknown(voices, "voice", Some(voice))),
        };
    }
    let speaker = of_model.and_then(|at| speaks(at, &voice));
    let stands_for = speaker.is_none().then_some(voice);
    Ok(VoiceChoice { speaker, stands_for, ..VoiceChoice::of(of_model.unwrap_or_default()) })
}

fn unknown(voices: &[Voice], field: &str, given: Option<String>) -> Refusal {
    let listed = listed(voices).join(", ");
    match given {
        Some(given) => bad(format!("unknown `{field}` {given:?}, expected one of {listed}")),
        None => bad(format!("give a `voice`: {listed}")),
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

pub fn bad(reason: impl Into<String>) -> Refusal {
    Refusal::new(400, reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn voices() -> Vec<Voice> {
        vec![Voice::for_tests("one", &[]), Voice::for_tests("many", &["aino", "eero"])]
    }

    fn request(body: Value) -> Result<SpeechRequest, String> {
        let read = read(&voices(), body.to_string().as_bytes());
        read.map_err(|refusal| refusal.reason)
    }

    #[test]
    fn a_voice_is_named_in_several_ways() {
        let chosen = |model: &str, voice: &str| {
            let request = request(json!({"model": model, "voice": voice, "input": "a"})).unwrap();
            (request.voice, request.manner.speaker)
        };
        assert_eq!(chosen("tts-1", "one"), (0, None));
        assert_eq!(chosen("many", "eero"), (1, Some("eero".into())));
        assert_eq!(chosen("tts-1", "many:aino"), (1, Some("aino".into())));
        let object = request(json!({"model": "x", "voice": {"id": "many"}, "input": "a"})).unwrap();
        assert_eq!(object.voice, 1);
        let error =
            request(json!({"model": "one", "voice": "many:olli", "input": "a"})).unwrap_err();
        let expected =
            "unknown `voice` \"many:olli\", expected one of one, many, many:aino, many:eero";
        assert_eq!(error, expected);
    }

    #[test]
    fn every_format_of_the_clients_is_known_and_only_plain_ones_are_streamed() {
        for name in ["wav", "flac", "pcm", "mp3", "opus", "aac"] {
            let body = json!({"model": "one", "input": "a", "response_format": name});
            let mut streamed = body.clone();
            streamed["stream"] = true.into();
            assert!(request(body).is_ok(), "{name}");
            assert_eq!(request(streamed).is_ok(), ["wav", "pcm"].contains(&name), "{name}");
        }
        let body = json!({"model": "one", "input": "a", "on_unknown": "report"});
        assert_eq!(request(body).unwrap().manner.on_unknown, Some(OnUnknown::Report));
    }

    #[test]
    fn what_is_not_said_is_as_in_the_first_example_of_a_client() {
        let request = request(json!({"model": "one", "input": "Hei."})).unwrap();
        let chosen = (request.format, request.manner.speed, request.sending);
        assert_eq!(chosen, (SoundFormat::Wav, 1.0, Sending::Whole));
    }

    #[test]
    fn a_stream_is_asked_for_in_two_ways() {
        let sending = |more: Value| {
            let mut body = json!({"model": "one", "input": "Hei."});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            request(body).unwrap().sending
        };
        assert_eq!(sending(json!({"stream_format": "audio"})), Sending::Whole);
        assert_eq!(sending(json!({"stream_format": "audio", "stream": true})), Sending::Parts);
        assert_eq!(sending(json!({"stream_format": "sse"})), Sending::Events);
    }

    #[test]
    fn wrong_requests_are_refused_with_what_was_expected() {
        let with = |field: &str, value: Value| {
            let mut body = json!({"model": "one", "input": "Hei."});
            body[field] = value;
            request(body).unwrap_err()
        };
        for (field, value, told) in [
            ("input", json!(5), "`input` must be a string"),
            ("input", json!(" "), "`input` is empty"),
            ("input", json!("a".repeat(4097)), "has 4097 characters, expected 4096 at most"),
            (
                "response_format",
                json!("mp4"),
                "is \"mp4\", expected wav, flac, pcm, mp3, opus or aac",
            ),
            ("on_unknown", json!("drop"), "is \"drop\", expected fail or report"),
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
        assert!(read(&voices(), b"{").unwrap_err().reason.contains("not JSON"));
        assert!(read(&voices(), b"[]").unwrap_err().reason.contains("not a JSON object"));
    }
}
