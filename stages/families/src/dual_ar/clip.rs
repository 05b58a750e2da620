//! Training clips: their identity.

use cache::Digest;
use stage_core::Fields;

use crate::clips::Identity;

/// For the draw of held-out clips.
pub const CLIP_SALT: &str = "fish";

pub fn clip_identity(text: &str, tokens: &Digest) -> Digest {
    Identity { text, tokens: Some(tokens), ..Identity::default() }.digest()
}

/// The same by the fields of a clip.
pub(super) fn of_fields(fields: &Fields) -> Option<Digest> {
    Some(clip_identity(fields.text("text")?, &fields.blob("tokens")?.digest))
}
