//! A sound that is sent in parts: plain audio, or the events of OpenAI's interface.

use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

/// The way in which an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    Whole,
    /// Each sentence as soon as it is spoken.
    Parts,
    /// The same as server-sent events, the audio in base64.
    Events,
}

impl Sending {
    /// The type of an answer with this audio.
    pub fn media_type(self, audio: String) -> String {
        match self {
            Sending::Events => "text/event-stream".to_owned(),
            Sending::Whole | Sending::Parts => audio,
        }
    }

    /// A part of the audio as it is sent.
    pub fn part(self, audio: Vec<u8>) -> Vec<u8> {
        match self {
            Sending::Events if audio.is_empty() => audio,
            Sending::Events => {
                let audio = Base64::encode_string(&audio);
                event(&json!({"type": "speech.audio.delta", "audio": audio}))
            }
            Sending::Whole | Sending::Parts => audio,
        }
    }

    /// The last part. The number of characters of the text is given as its number of tokens.
    pub fn end(self, characters: usize) -> Vec<u8> {
        match self {
            Sending::Events => {
                let usage = json!({
                    "input_tokens": characters, "output_tokens": 0, "total_tokens": characters,
                });
                event(&json!({"type": "speech.audio.done", "usage": usage}))
            }
            Sending::Whole | Sending::Parts => Vec::new(),
        }
    }
}

fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}
