//! Writes `docs/cli.md` from the help texts, and `docs/llms.txt` from these and the stage kinds.
#![allow(clippy::disallowed_methods)]

fn main() -> std::io::Result<()> {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    std::fs::write(format!("{docs}/cli.md"), cli::reference())?;
    std::fs::write(format!("{docs}/llms.txt"), cli::agents_reference())
}
