//! The frame of the page: head, menu, sections in their order, and the recordings at the end.

use cache::Digest;
use engine::units;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::Found;
use super::audio::Album;
use super::view::{self, Section, text};

/// The look of this page and of others.
pub const STYLE: &str = include_str!("page.css");
pub const SCRIPT: &str = include_str!("page.js");

pub fn render(found: &Found, album: &mut Album) -> String {
    let title = format!("{}, run {}", found.seen.pipeline.name, found.seen.run.run);
    frame(&title, &content(found, album))
}

/// A page that needs no other file.
pub fn frame(title: &str, content: &Markup) -> String {
    // A script inside a text cannot know a digest of the page around it.
    let nonce = Digest::of(content.0.as_bytes()).to_string();
    let rules = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; \
         media-src data:; base-uri 'none'; form-action 'none'"
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(rules);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (text(title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (content)
                script nonce=(nonce) { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn content(found: &Found, album: &mut Album) -> Markup {
    let sections = sections(found, album);
    html! {
        a.skip href="#run" { "Skip to the report" }
        nav aria-label="Sections" {
            ul { @for section in &sections { li { a href={ "#" (section.id) } { (section.title) } } } }
            button #theme type="button" { "Theme: auto" }
        }
        main {
            (view::overview::head(found))
            @for section in &sections { (section.render()) }
        }
        (foot(album))
        (view::player::sounds(album))
    }
}

/// Recordings are included in the order of their importance, which differs from that of the page.
fn sections(found: &Found, album: &mut Album) -> Vec<Section> {
    // The list of clips is of more use than any single recording.
    let lists: Vec<view::list::List> = found.corpora.iter().map(view::list::List::of).collect();
    album.give_up(lists.iter().map(view::list::List::bytes).sum());
    let samples = view::samples::section(&found.grids, &found.findings, album);
    let recordings = view::recordings::section(&found.timelines, &found.aside, album);
    let aside = view::quarantine::section(&found.aside, album);
    let data = view::clips::section(&found.corpora, &lists, album);
    let sections = [
        Some(view::stages::section(found.seen)),
        view::runs::section(&found.runs),
        data,
        recordings,
        aside,
        view::training::section(&found.trainings),
        samples,
        view::gain::section(&found.comparisons),
        view::rated::section(&found.ratings),
        Some(view::cost::section(&found.cost)),
        Some(view::provenance::section(&found.provenance)),
    ];
    sections.into_iter().flatten().collect()
}

fn foot(album: &Album) -> Markup {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (here, out) = (album.recordings().len(), album.left_out);
    html! {
        footer {
            p { "Written by throstle " (env!("CARGO_PKG_VERSION")) " from its cache. This file needs nothing else, and no network." }
            @if here > 0 { p { (here) " recording" (plural(here)) ", as FLAC without loss." } }
            @if out > 0 { p { "There was no room for " (units::count(out as u64)) " more: " code { "export" } " writes them as files." } }
        }
    }
}
