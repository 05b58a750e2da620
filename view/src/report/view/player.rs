//! Buttons that play recordings. The recordings themselves are at the end of the page, each once.

use std::fmt::Write;

use engine::units;
use maud::{Markup, html};

use super::text;
use crate::report::audio::{AudioLookup, EmbeddedAudio, PageAudio};

const STEP: f32 = 2.0;
const HEIGHT: f32 = 24.0;

/// The button for a recording; `name` describes it for screen readers.
pub fn player(heard: &AudioLookup, name: &str) -> Markup {
    match heard {
        AudioLookup::Here(recording) => button(recording, name),
        AudioLookup::NoRoom => {
            html! { span.unheard title=
            "left out: the page has its largest size" { "not on this page" } }
        }
        AudioLookup::Not(why) => html! { span.unheard title=(text(why)) { "cannot be played" } },
    }
}

fn button(recording: &EmbeddedAudio, name: &str) -> Markup {
    let length = units::seconds(recording.seconds);
    let width = recording.peaks.len() as f32 * STEP;
    let wave = wave(&recording.peaks);
    html! {
        span.player data-sound=(sound(recording)) {
            button type="button" aria-label={ "Play " (text(name)) ", " (length) } {
                svg.play viewBox="0 0 10 10" aria-hidden="true" { path d="M2 0.8 L9 5 L2 9.2 Z" {} }
                svg.pause viewBox="0 0 10 10" aria-hidden="true" { path d="M1.5 1h2.4v8h-2.4z M6.1 1h2.4v8h-2.4z" {} }
            }
            svg.wave viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                path.all d=(wave) {}
                path.done d=(wave) {}
            }
            span.length { (length) }
        }
    }
}

/// The peaks as upright lines around the middle.
fn wave(peaks: &[f32]) -> String {
    let mut path = String::with_capacity(peaks.len() * 16);
    for (at, peak) in peaks.iter().enumerate() {
        // Compresses the range: the ear hears more of quiet sound than the eye would see.
        let half = (peak.clamp(0.0, 1.0).sqrt() * HEIGHT / 2.0).max(0.5);
        let x = at as f32 * STEP + STEP / 2.0;
        let _ = write!(path, "M{x:.0} {:.1}V{:.1}", HEIGHT / 2.0 - half, HEIGHT / 2.0 + half);
    }
    path
}

fn sound(recording: &EmbeddedAudio) -> String {
    format!("sound-{}", recording.number)
}

/// The recordings of the page. Without scripts they are a list of players.
pub fn sounds(page_audio: &PageAudio) -> Markup {
    html! {
        section #sounds aria-label="Recordings" {
            @for recording in page_audio.recordings() {
                audio #(sound(recording)) controls preload="none"
                    src={ "data:audio/flac;base64," (recording.data) } {}
            }
        }
    }
}
