//! The data set: its size, its distributions, and the list of its clips.

use engine::units;
use maud::{Markup, html};

use super::list::List;
use super::table::{Cell, HtmlTable};
use super::{Section, bar, chart, number, text};
use crate::report::audio::PageAudio;
use crate::report::chart::histogram;
use crate::report::clips::{ClipMeasure, Corpus};

/// The number of speakers that are named.
const SPEAKERS: usize = 100;

pub fn section(corpora: &[Corpus], lists: &[List], page_audio: &mut PageAudio) -> Option<Section> {
    if corpora.is_empty() {
        return None;
    }
    let body = html! {
        @for (corpus, list) in corpora.iter().zip(lists) { (of(corpus, corpora.len() > 1, list, page_audio)) }
    };
    Some(Section { id: "data", title: "The data set", body })
}

fn of(corpus: &Corpus, named: bool, list: &List, page_audio: &mut PageAudio) -> Markup {
    html! {
        @if named { h3 { "From " (text(&corpus.source)) } }
        p.lead { (lead(corpus)) }
        @if let Some(hertz) = corpus.telephone() {
            p.note {
                "Half of the clips have no sound above " (number(hertz))
                    " Hz, like telephone recordings. A voice trained on them sounds like a telephone, "
                    "whatever its sample rate."
            }
        }
        div.charts { @for measure in ClipMeasure::ALL { (spread(corpus, measure)) } }
        (table(corpus))
        (speakers(corpus))
        (list.render(page_audio))
    }
}

fn lead(corpus: &Corpus) -> Markup {
    let mut lead = units::counted(corpus.clips.len() as u64, "clip");
    let seconds = corpus.spread(ClipMeasure::Seconds);
    if let Some(seconds) = seconds {
        lead.push_str(&format!(", {}", units::seconds(seconds.total)));
    }
    match corpus.speakers().len() {
        0 => {}
        1 => lead.push_str(", one speaker"),
        many => lead.push_str(&format!(", {} speakers", units::count(many as u64))),
    }
    html! {
        (lead) "."
        @if seconds.is_none() {
            " No stage has measured them: " code { "audio.check" } " gives their total duration, levels and noise."
        }
    }
}

fn spread(corpus: &Corpus, measure: ClipMeasure) -> Markup {
    let Some(spread) = corpus.spread(measure) else { return html! {} };
    let (least, median, most) = (number(spread.least), number(spread.median), number(spread.most));
    let unit = measure.unit();
    let in_words = format!(
        "{} of {} clips: from {least} to {most} {unit}, median {median}",
        measure.name(),
        spread.clips
    );
    let facts = html! { span.facts { (least) " – " (most) ", median " (median) } };
    chart(measure.name(), unit, histogram(&corpus.values(measure)), &in_words, facts)
}

fn table(corpus: &Corpus) -> Markup {
    let headings =
        ["Measure", ">Clips", ">Least", ">10 %", ">Median", ">90 %", ">Most", ">Total", "-Unit"];
    let mut table = HtmlTable::new("Distributions", &headings);
    for measure in ClipMeasure::ALL {
        let Some(spread) = corpus.spread(measure) else { continue };
        let figure = |value: f64| Cell::number(number(value), value);
        let adds_up = matches!(measure, ClipMeasure::Seconds | ClipMeasure::Characters);
        table.row([
            Cell::text(measure.name()),
            Cell::number(units::count(spread.clips as u64), spread.clips as f64),
            figure(spread.least),
            figure(spread.tenth),
            figure(spread.median),
            figure(spread.ninetieth),
            figure(spread.most),
            if adds_up { figure(spread.total) } else { Cell::empty() },
            Cell::text(measure.unit()),
        ]);
    }
    if table.is_empty() {
        html! {}
    } else {
        table.render()
    }
}

fn speakers(corpus: &Corpus) -> Markup {
    let all = corpus.speakers();
    let most = all.iter().map(|(_, _, seconds)| *seconds).fold(0.0, f64::max);
    let most_clips = all.iter().map(|(_, clips, _)| *clips).max().unwrap_or(1) as f64;
    let share = |clips: u64, seconds: f64| {
        if most > 0.0 { seconds / most } else { clips as f64 / most_clips }
    };
    let mut table = HtmlTable::new("Speakers", &["Speaker", ">Clips", ">Time", "-"]);
    for (name, clips, seconds) in all.iter().take(SPEAKERS) {
        table.row([
            Cell::text(text(name)),
            Cell::number(units::count(*clips), *clips as f64),
            Cell::number(units::seconds(*seconds), *seconds),
            Cell::text(bar(share(*clips, *seconds))),
        ]);
    }
    html! {
        @if !table.is_empty() { (table.render()) }
        @if all.len() > SPEAKERS { p.note { (units::count((all.len() - SPEAKERS) as u64)) " more speakers with less time are not listed." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::clips::Clip;

    #[test]
    fn clips_that_no_stage_has_measured_are_told_without_a_contradiction() {
        let corpus = Corpus { source: "clips".into(), clips: vec![Clip::default(); 2] };
        assert_eq!(
            lead(&corpus).into_string(),
            "2 clips. No stage has measured them: <code>audio.check</code> gives their total \
             duration, levels and noise."
        );
    }
}
