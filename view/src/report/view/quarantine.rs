//! Quarantined items and their reasons.

use std::collections::BTreeSet;

use engine::units;
use maud::html;

use super::player::player;
use super::table::{Cell, HtmlTable};
use super::{Section, text};
use crate::report::audio::PageAudio;
use crate::report::quarantine::{QuarantinedItem, codes};

/// The number of items that are listed; the others are counted by their reasons.
const LISTED: usize = 200;

/// The fate of the other items.
fn lead(all: &[QuarantinedItem]) -> String {
    let fatal = all.iter().filter(|aside| aside.is_fatal).map(|aside| aside.stage);
    let fatal: BTreeSet<&str> = fatal.collect();
    if fatal.is_empty() {
        " quarantined; the others were processed.".to_owned()
    } else {
        let stages: Vec<String> = fatal.into_iter().map(|stage| text(stage).into_owned()).collect();
        format!(" quarantined; {} failed.", stages.join(", "))
    }
}

pub fn section(all: &[QuarantinedItem], page_audio: &mut PageAudio) -> Option<Section> {
    if all.is_empty() {
        return None;
    }
    let mut reasons = HtmlTable::new("Counts by reason", &["Reason", ">Items"]);
    for (code, count) in codes(all) {
        reasons.row([
            Cell::text(html! { code { (text(code)) } }),
            Cell::number(units::count(count as u64), count as f64),
        ]);
    }
    let headings = ["Stage", "Item", "Reason", "Text", "-Listen"];
    let mut items = HtmlTable::new("Quarantined items", &headings);
    for aside in all.iter().take(LISTED) {
        let heard = aside.hear(page_audio);
        items.row([
            Cell::text(text(aside.stage)),
            Cell::text(html! { code { (text(aside.item)) } }),
            Cell::prose(text(&aside.reject.reason)),
            Cell::prose(text(aside.text.as_deref().unwrap_or(""))),
            Cell::text(html! {
                @if let Some(heard) = heard { (player(&heard, &format!("quarantined {}", aside.item))) }
            }),
        ]);
    }
    let body = html! {
        p.lead { (units::items(all.len() as u64)) (lead(all)) }
        @if codes(all).len() > 1 { (reasons.render()) }
        (items.render())
        @if all.len() > LISTED {
            p.note { (units::count((all.len() - LISTED) as u64)) " more are not listed: " code { "throstle items STAGE --quarantined" } " lists all." }
        }
    };
    Some(Section { id: "quarantine", title: "Quarantined", body })
}
