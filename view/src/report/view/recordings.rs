//! A timeline of each long recording, and what was quarantined, with players.

use std::fmt::Write;

use engine::units;
use maud::{Markup, html};

use super::player::player;
use super::table::{Cell, HtmlTable};
use super::{Section, text};
use crate::report::audio::PageAudio;
use crate::report::quarantine::QuarantinedItem;
use crate::report::recordings::{Fate, LostSegment, RecordingSummary, Run, Timelines};

/// The most rows of a timeline, and the lengths that a row may have, in seconds.
const ROWS: f64 = 24.0;
const LENGTHS: [f64; 8] = [60.0, 300.0, 600.0, 1_800.0, 3_600.0, 7_200.0, 21_600.0, 86_400.0];
/// The cells of a row: two pixels each on a phone.
const CELLS: usize = 180;
/// The most recordings with a timeline, and the most rows of a table.
const DRAWN: usize = 50;
const LISTED: usize = 500;

const FATES: [(Fate, &str, &str); 4] = [
    (Fate::Kept, "kept", "kept"),
    (Fate::Rejected, "rejected", "quarantined"),
    (Fate::NoText, "no-text", "audio without text"),
    (Fate::Uncut, "uncut", "no segment"),
];

pub fn section(
    all: &[Timelines],
    aside: &[QuarantinedItem],
    page_audio: &mut PageAudio,
) -> Option<Section> {
    let recordings: Vec<&RecordingSummary> = all.iter().flat_map(|one| &one.recordings).collect();
    if all.is_empty() {
        return None;
    }
    let kept: f64 = recordings.iter().map(|recording| recording.kept.seconds).sum();
    let seconds: f64 = recordings.iter().map(|recording| recording.seconds).sum();
    let mut room = LISTED;
    let body = html! {
        p.lead {
            (units::seconds(kept)) " of " (units::seconds(seconds)) " kept, in "
            (units::count(recordings.len() as u64)) " recording" @if recordings.len() != 1 { "s" } "."
        }
        (overview(&recordings))
        (whole(all))
        @for recording in recordings.iter().take(DRAWN) { (of(recording, aside, page_audio, &mut room)) }
        @if recordings.len() > DRAWN {
            p.note { (units::count((recordings.len() - DRAWN) as u64)) " more recordings are not drawn." }
        }
    };
    Some(Section { id: "recordings", title: "Recordings", body })
}

fn overview(recordings: &[&RecordingSummary]) -> Markup {
    let headings = [
        "Recording",
        ">Length",
        ">Kept",
        ">Quarantined",
        ">Without text",
        ">No segment",
        ">Words not heard",
    ];
    let mut table = HtmlTable::new("Long recordings", &headings);
    let time = |seconds: f64| {
        if seconds > 0.0 { Cell::number(units::seconds(seconds), seconds) } else { Cell::empty() }
    };
    for recording in recordings.iter().take(LISTED) {
        let of = |is_wanted: &dyn Fn(&str) -> bool| -> f64 {
            let lost = recording.lost.iter().filter(|(code, _)| is_wanted(code));
            lost.map(|(_, total)| total.seconds).sum()
        };
        let words = recording.unheard_words;
        table.row([
            Cell::prose(text(&recording.name)),
            time(recording.seconds),
            time(recording.kept.seconds),
            time(of(&|code| code != "no-text")),
            time(of(&|code| code == "no-text")),
            time(recording.uncut),
            match words {
                0 => Cell::empty(),
                words => Cell::number(units::count(words), words as f64),
            },
        ]);
    }
    table.render()
}

/// Recordings that have no segment at all.
fn whole(all: &[Timelines]) -> Markup {
    let mut table = HtmlTable::new("Quarantined recordings", &["Recording", "Stage", "Reason"]);
    for whole in all.iter().flat_map(|one| &one.whole).take(LISTED) {
        table.row([
            Cell::prose(text(&whole.id)),
            Cell::text(text(&whole.stage)),
            Cell::prose(text(&whole.reason)),
        ]);
    }
    if table.is_empty() {
        html! {}
    } else {
        table.render()
    }
}

fn of(
    recording: &RecordingSummary,
    aside: &[QuarantinedItem],
    page_audio: &mut PageAudio,
    room: &mut usize,
) -> Markup {
    let row = LENGTHS.into_iter().find(|row| recording.seconds <= row * ROWS).unwrap_or(86_400.0);
    let listed = recording.rejected.len().min(*room);
    *room -= listed;
    let more = recording.more_rejected + (recording.rejected.len() - listed) as u64;
    html! {
        h3 { (text(&recording.name)) }
        figure.timeline {
            figcaption {
                @for (fate, class, name) in FATES {
                    @if recording.spans.iter().any(|span| span.2 == fate) {
                        span.fate.(class) { (name) } " "
                    }
                }
            }
            div role="img" aria-label=(in_words(recording)) {
                @for (at, runs) in recording.rows(row, CELLS).iter().enumerate() {
                    div.row { span.clock { (clock(at as f64 * row)) } (drawn(runs)) }
                }
            }
        }
        @if listed > 0 { (rejected(&recording.rejected[..listed], recording, aside, page_audio)) }
        @if more > 0 { p.note { (units::count(more)) " more segments are not listed." } }
        @if !recording.unheard.is_empty() { (unheard(recording)) }
    }
}

/// One path for each fate, with a box for each run.
fn drawn(runs: &[Run]) -> Markup {
    let path = |fate: Fate| {
        let mut path = String::new();
        for (from, to, _) in runs.iter().filter(|run| run.2 == fate) {
            let width = to - from;
            let _ = write!(path, "M{from} 0h{width}v1h-{width}z");
        }
        path
    };
    html! {
        svg viewBox={ "0 0 " (CELLS) " 1" } preserveAspectRatio="none" aria-hidden="true" {
            @for (fate, class, _) in FATES {
                @let path = path(fate);
                @if !path.is_empty() { path.(class) d=(path) {} }
            }
        }
    }
}

/// The timeline for readers who cannot see it.
fn in_words(recording: &RecordingSummary) -> String {
    let mut words = format!(
        "Timeline of {}: {} of {} kept",
        text(&recording.name),
        units::seconds(recording.kept.seconds),
        units::seconds(recording.seconds)
    );
    for (code, total) in &recording.lost {
        let _ = write!(words, ", {} {}", units::seconds(total.seconds), text(code));
    }
    words
}

fn rejected(
    listed: &[LostSegment],
    recording: &RecordingSummary,
    aside: &[QuarantinedItem],
    page_audio: &mut PageAudio,
) -> Markup {
    let caption = format!("Quarantined segments of {}", text(&recording.name));
    let mut table = HtmlTable::new(caption, &[">Start", ">Length", "Stage", "Reason", "-Listen"]);
    for lost in listed {
        let found = aside.iter().find(|aside| aside.stage == lost.stage && aside.item == lost.id);
        let heard = found.and_then(|found| found.hear(page_audio));
        table.row([
            Cell::number(clock(lost.start), lost.start),
            Cell::number(units::seconds(lost.seconds), lost.seconds),
            Cell::text(text(&lost.stage)),
            Cell::prose(text(&lost.reason)),
            Cell::text(html! {
                @if let Some(heard) = heard { (player(&heard, &format!("segment at {}", clock(lost.start)))) }
            }),
        ]);
    }
    table.render()
}

fn unheard(recording: &RecordingSummary) -> Markup {
    let caption = format!("Text of {} that was not heard", text(&recording.name));
    let mut table = HtmlTable::new(caption, &[">Words", "Beginning"]);
    for part in &recording.unheard {
        table.row([
            Cell::number(units::count(part.words), part.words as f64),
            Cell::prose(text(&part.text)),
        ]);
    }
    table.render()
}

/// `1:02:03`, or `2:03` in the first hour.
fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_are_those_of_a_player() {
        assert_eq!([0.0, 65.9, 3_725.0].map(clock), ["0:00", "1:05", "1:02:05"]);
    }

    #[test]
    fn each_fate_is_one_path_of_boxes() {
        let html = drawn(&[(0, 3, Fate::Kept), (3, 4, Fate::Rejected), (4, 6, Fate::Kept)]);
        let html = html.into_string();
        assert!(html.contains("class=\"kept\" d=\"M0 0h3v1h-3zM4 0h2v1h-2z\""), "{html}");
        assert!(html.contains("class=\"rejected\" d=\"M3 0h1v1h-1z\""), "{html}");
    }

    #[test]
    fn a_day_with_a_fault_every_ten_seconds_is_drawn_in_a_hundred_kilobytes() {
        let spans = (0..8_640).map(|at| {
            let start = f64::from(at) * 10.0;
            (start, start + 10.0, if at % 2 == 0 { Fate::Kept } else { Fate::Rejected })
        });
        let recording = RecordingSummary {
            name: "<b>".to_owned(),
            seconds: 86_400.0,
            spans: spans.collect(),
            ..RecordingSummary::default()
        };
        let rows: Vec<Markup> =
            recording.rows(3_600.0, CELLS).iter().map(|row| drawn(row)).collect();
        let size: usize = rows.iter().map(|row| row.0.len()).sum();
        assert!(rows.len() == 24 && size < 100_000, "{} rows, {size} bytes", rows.len());
        assert!(in_words(&recording).contains("Timeline of"));
    }
}
