//! Writes `docs/cli.md` from the help texts.
#![allow(clippy::disallowed_methods)]

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
    std::fs::write(path, cli::reference())
}
