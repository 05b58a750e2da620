//! `man`: manual pages, generated from the definitions of the help texts.

use std::io::{self, Write};

use cache::fs::{Fs, RealFs};
use clap::CommandFactory;
use clap_mangen::Man;

use crate::arguments::{self, Arguments};
use crate::error::{CliError, Exit};
use crate::named;

pub fn man(arguments: &arguments::Man, output: &mut dyn Write) -> Result<Exit, CliError> {
    let pages = pages()?;
    let Some(folder) = &arguments.to else {
        // The program's own page comes first.
        for (_, page) in pages.iter().take(1) {
            output.write_all(page)?;
        }
        return Ok(Exit::Done);
    };
    RealFs.create_dir_all(folder)?;
    for (name, page) in &pages {
        named::write(&folder.join(name), page)?;
    }
    writeln!(output, "wrote {} pages to `{folder}`", pages.len())?;
    Ok(Exit::Done)
}

/// File names and contents: the program, then its commands in the order of the help.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    Ok(pages)
}

fn add(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    command.get_subcommands().try_for_each(|inner| add(inner, pages))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_command_has_a_page_that_is_named_after_it() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "throstle.1");
        assert!(names.contains(&"throstle-run.1") && names.contains(&"throstle-cache-gc.1"));
        for (name, page) in &pages {
            let text = String::from_utf8_lossy(page);
            assert!(text.contains(".SH SYNOPSIS"), "{name}: {text}");
        }
    }
}
