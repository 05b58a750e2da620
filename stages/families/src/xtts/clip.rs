//! Training clips: their identity.

use cache::Digest;
use stage_core::{Fields, Parameters};

use super::LanguageCode;
use crate::clips::Identity;

/// For the draw of held-out clips.
pub const CLIP_SALT: &str = "xtts";

pub fn clip_identity(
    text: &str,
    language: &LanguageCode,
    tokens: &Digest,
    audio: &Digest,
) -> Digest {
    let language = Some(language.code());
    let (tokens, audio) = (Some(tokens), Some(audio));
    Identity { text, language, tokens, audio, speaker: None }.digest()
}

/// The same by the fields of a clip. The parameter `language` is that of clips without one.
pub(super) fn of_fields(parameters: &Parameters, fields: &Fields) -> Option<Digest> {
    let language = fields.text("language").or_else(|| parameters.text("language").ok())?;
    let (tokens, audio) = (fields.blob("tokens")?, fields.blob("audio")?);
    let text = fields.text("text")?;
    Some(clip_identity(text, &LanguageCode::of(language), &tokens.digest, &audio.digest))
}
