//! Training clips: their identity.

use cache::Digest;
use stage_core::Fields;

use super::VitsConfig;
use crate::clips::Identity;

/// For the draw of held-out clips.
pub const CLIP_SALT: &str = "vits";

/// `speaker`: for a model with several.
pub fn clip_identity(text: &str, audio: &Digest, speaker: Option<&str>) -> Digest {
    Identity { text, audio: Some(audio), speaker, ..Identity::default() }.digest()
}

/// The same by the fields of a clip.
pub(super) fn of_fields(config: &VitsConfig, fields: &Fields) -> Option<Digest> {
    let speaker = fields.text("speaker").filter(|_| config.num_speakers > 1);
    Some(clip_identity(fields.text("text")?, &fields.blob("audio")?.digest, speaker))
}
