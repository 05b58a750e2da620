//! Voices as people ranked them, and the raters.

use engine::units;
use maud::{Markup, html};

use super::table::{Cell, HtmlTable};
use super::{Section, number, text};
use crate::report::rated::{Rater, Test, Voice};

pub fn section(tests: &[Test]) -> Option<Section> {
    let body = html! { @for test in tests { (of(test)) } };
    (!tests.is_empty()).then_some(Section { id: "listening", title: "Listening", body })
}

fn of(test: &Test) -> Markup {
    let (confidence, votes) = (number(test.confidence * 100.0), units::counted(test.votes, "vote"));
    let caption = format!("{}: {votes}, {confidence} % intervals", test.stage);
    let mut voices =
        HtmlTable::new(text(&caption), &["Voice", ">Rank", ">Strength", ">Wins", ">Votes"]);
    test.voices.iter().for_each(|voice| voices.row(cells(voice)));
    let headings =
        ["Rater", ">Votes", ">Chose left", ">Consistent repeats", ">Traps passed", "Result"];
    let mut raters = HtmlTable::new(text(&format!("{}: raters", test.stage)), &headings);
    test.raters.iter().for_each(|rater| raters.row(checks(rater)));
    html! {
        p { strong { (text(&test.summary)) } }
        (voices.render())
        @if !test.raters.is_empty() { (raters.render()) }
        @for warning in &test.warnings { p.note { (text(warning)) } }
    }
}

fn cells(voice: &Voice) -> [Cell; 5] {
    let strength = html! {
        (number(voice.strength))
        br;
        span.unit { "(" (number(voice.low)) " to " (number(voice.high)) ")" }
    };
    [
        Cell::text(text(&voice.name)),
        count(voice.rank),
        Cell::number(strength, voice.strength),
        Cell::number(number(voice.wins), voice.wins),
        count(voice.votes),
    ]
}

fn checks(rater: &Rater) -> [Cell; 6] {
    let of = |part: u64, all: u64| Cell::number(format!("{part} of {all}"), part as f64);
    let result = match &rater.out {
        Some(reason) => Cell::prose(text(&format!("left out: {reason}"))),
        None => Cell::text("counts"),
    };
    [
        Cell::text(text(&rater.name)),
        count(rater.votes),
        of(rater.left, rater.sided),
        of(rater.agreed, rater.repeats),
        of(rater.passed, rater.traps),
        result,
    ]
}

fn count(count: u64) -> Cell {
    Cell::number(count.to_string(), count as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn voices_and_raters_are_shown_with_the_reason_of_those_left_out() {
        let voice = Voice {
            name: "step-<2>".into(),
            rank: 1,
            strength: 0.5,
            low: 0.25,
            high: 0.75,
            wins: 12.5,
            votes: 20,
        };
        let rater = Rater {
            name: "anna".into(),
            left: 9,
            sided: 10,
            out: Some("prefers the left side".into()),
            ..Rater::default()
        };
        let test = Test {
            stage: "ranks".into(),
            summary: "undecided: about 22 more pairs".into(),
            confidence: 0.9,
            votes: 20,
            voices: vec![voice],
            raters: vec![rater],
            warnings: vec!["only one".into()],
        };
        let html = section(&[test]).unwrap().render().into_string();
        for part in [
            "undecided: about 22 more pairs",
            "ranks: 20 votes, 90 % intervals",
            "step-&lt;2&gt;",
            "(0.25 to 0.75)",
            "9 of 10",
            "left out: prefers the left side",
            "only one",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert!(section(&[]).is_none());
    }
}
