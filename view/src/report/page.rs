//! The frame of the page: head, menu, sections in their order, and the recordings at the end.

use cache::Digest;
use engine::units;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::PageContents;
use super::audio::PageAudio;
use super::view::{self, Section, text};

/// The look of this page and of others.
pub const STYLE: &str = include_str!("page.css");
pub const SCRIPT: &str = include_str!("page.js");

pub fn render(found: &PageContents, page_audio: &mut PageAudio) -> String {
    let title = format!("{}, run {}", found.seen.pipeline.name, found.seen.run.run);
    frame(&title, &content(found, page_audio))
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

fn content(found: &PageContents, page_audio: &mut PageAudio) -> Markup {
    let sections = sections(found, page_audio);
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
        (foot(page_audio))
        (view::player::sounds(page_audio))
    }
}

/// Recordings are included in the order of their importance, which differs from that of the page.
fn sections(found: &PageContents, page_audio: &mut PageAudio) -> Vec<Section> {
    // The list of clips is of more use than any single recording.
    let lists: Vec<view::list::List> = found.corpora.iter().map(view::list::List::of).collect();
    page_audio.give_up(lists.iter().map(view::list::List::bytes).sum());
    let samples = view::samples::section(&found.grids, &found.findings, page_audio);
    let recordings = view::recordings::section(&found.timelines, &found.aside, page_audio);
    let aside = view::quarantine::section(&found.aside, page_audio);
    let data = view::clips::section(&found.corpora, &lists, page_audio);
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

fn foot(page_audio: &PageAudio) -> Markup {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (here, out) = (page_audio.recordings().len(), page_audio.left_out);
    html! {
        footer {
            p { "Written by throstle " (env!(
                "CARGO_PKG_VERSION"
            )) " from its cache. This file works offline and needs no other files." }
            @if here > 0 { p { (here) " recording" (plural(here)) ", as lossless FLAC." } }
            @if out > 0 { p { "Left out for size: " (units::count(out as u64)) " more: " code { "export" } " writes them as files." } }
        }
    }
}
