//! Writes the pages of `docs/` that follow from the catalogue: the manual of the manifest and its
//! JSON Schema.
#![allow(clippy::disallowed_methods)]

use std::error::Error;

use camino::Utf8Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let catalogue = stage_speech::catalogue();
    std::fs::write(root.join("docs/manifest.md"), manifest::reference(&catalogue))?;
    std::fs::write(root.join("docs/schema.json"), manifest::schema_text(&catalogue))?;
    Ok(())
}
