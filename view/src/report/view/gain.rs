//! Models beside the untuned base, with the differences and their intervals.

use maud::{Markup, html};

use super::table::{Cell, HtmlTable};
use super::{Section, number, text};
use crate::report::gain::{GainFigure, GainModel, GainTable};

pub fn section(comparisons: &[GainTable]) -> Option<Section> {
    let body = html! { @for comparison in comparisons { (of(comparison)) } };
    (!comparisons.is_empty()).then_some(Section { id: "gain", title: "Gain", body })
}

fn of(comparison: &GainTable) -> Markup {
    let GainTable { stage, base, sentences, confidence, .. } = comparison;
    let caption = format!(
        "{stage}: models compared with {base} on {sentences} sentences, {} % intervals",
        number(confidence * 100.0)
    );
    let measures: Vec<String> =
        comparison.measures.iter().map(|measure| format!(">{}", text(measure))).collect();
    let mut headings = vec!["Model"];
    headings.extend(measures.iter().map(String::as_str));
    let is_rated = comparison.models.iter().any(|model| model.rank.is_some());
    headings.extend(is_rated.then_some(">Listener rank"));
    headings.extend(comparison.chosen.as_ref().map(|_| "Result"));
    let mut table = HtmlTable::new(text(&caption), &headings);
    for model in &comparison.models {
        let figures = model.figures.iter().map(|figure| match figure {
            Some(figure) => Cell::number(shown(figure, model.name == *base), figure.value),
            None => Cell::empty(),
        });
        let result = comparison.chosen.as_ref().map(|chosen| result(model, chosen, base));
        let rank = model.rank.map(|rank| rank as f64);
        let rank = is_rated.then(|| Cell::number_or_empty(rank, number));
        let name = std::iter::once(Cell::text(text(&model.name)));
        table.row(name.chain(figures).chain(rank).chain(result));
    }
    for ceiling in &comparison.ceilings {
        let figures = ceiling.figures.iter().map(|figure| match figure {
            Some(figure) => Cell::number(own(figure), figure.value),
            None => Cell::empty(),
        });
        let rank = is_rated.then(Cell::empty);
        let result = comparison.chosen.as_ref().map(|_| Cell::empty());
        let name = std::iter::once(Cell::text(html! { em { (text(&ceiling.name)) } }));
        table.row(name.chain(figures).chain(rank).chain(result));
    }
    html! {
        (table.render())
        @if let Some(lengths) = &comparison.lengths {
            p { "Median length: " (number(lengths.sentences)) " characters a sentence, "
                (number(lengths.recordings)) " a recording." }
        }
        @for warning in &comparison.warnings { p.note { (text(warning)) } }
    }
}

/// The figure of one model or of recordings, with its interval.
fn own(figure: &GainFigure) -> Markup {
    html! {
        (number(figure.value))
        @if let Some((low, high)) = figure.own {
            " " span.unit { "(" (number(low)) " to " (number(high)) ")" }
        }
    }
}

fn shown(figure: &GainFigure, is_base: bool) -> Markup {
    let signed =
        |value: f64| if value > 0.0 { format!("+{}", number(value)) } else { number(value) };
    html! {
        (own(figure))
        @if !is_base {
            br;
            span.unit {
                (signed(figure.difference)) " (" (signed(figure.low)) " to " (signed(figure.high)) ")"
                @if !figure.is_shown() { ", no difference shown" }
            }
        }
    }
}

fn result(model: &GainModel, chosen: &str, base: &str) -> Cell {
    match &model.out {
        _ if model.name == chosen => Cell::text(html! { strong { "chosen" } }),
        Some(reason) => Cell::prose(text(reason)),
        None if model.name == base => Cell::text("the base"),
        None => Cell::empty(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::gain::GainLengths;

    #[test]
    fn a_model_stands_beside_the_base_with_its_difference_and_the_reason() {
        let figure = |value: f64, difference: f64, low: f64, high: f64| {
            let own = Some((value - 0.05, value + 0.05));
            Some(GainFigure { value, own, base: 0.3, difference, low, high })
        };
        let model = |name: &str, figure, out: Option<&str>| GainModel {
            name: name.to_owned(),
            figures: vec![figure],
            out: out.map(str::to_owned),
            rank: (name == "step-4").then_some(1),
        };
        let comparison = GainTable {
            stage: "chosen".into(),
            base: "base".into(),
            sentences: 50,
            confidence: 0.9,
            measures: vec!["mean(cer)".into()],
            models: vec![
                model("base", figure(0.3, 0.0, 0.0, 0.0), None),
                model("step-2", figure(0.31, 0.01, -0.1, 0.1), Some("<not> good enough")),
                model("step-4", figure(0.1, -0.2, -0.3, -0.1), None),
            ],
            chosen: Some("step-4".into()),
            ceilings: vec![model("recordings", figure(0.25, 0.0, 0.0, 0.0), None)],
            lengths: Some(GainLengths { sentences: 40.0, recordings: 35.0 }),
            warnings: vec!["told".into()],
        };
        let html = section(&[comparison]).unwrap().render().into_string();
        for part in [
            "models compared with base on 50 sentences, 90 % intervals",
            "+0.01 (-0.1 to +0.1), no difference shown",
            "-0.2 (-0.3 to -0.1)</span>",
            "<strong>chosen</strong>",
            "&lt;not&gt; good enough",
            "told",
            "<em>recordings</em>",
            "(0.2 to 0.3)",
            "40 characters a sentence, 35 a recording",
            "Listener rank",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert!(section(&[]).is_none());
    }
}
