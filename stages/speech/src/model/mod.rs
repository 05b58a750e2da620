//! Models: published files of weights as artifacts, and artifacts as such files.

mod export;
mod family;
mod import;
mod layout;

use std::sync::Arc;

use stage_core::Stage;

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![import::stage(), export::stage()]
}
