//! Building blocks of the page, as HTML. External text goes through [`text`].

pub mod clips;
pub mod cost;
pub mod gain;
pub mod list;
pub mod overview;
pub mod player;
pub mod provenance;
pub mod quarantine;
pub mod rated;
pub mod recordings;
pub mod runs;
pub mod samples;
pub mod stages;
pub mod table;
pub mod training;

use std::borrow::Cow;

use maud::{Markup, PreEscaped, html};

use crate::escape::clean;
pub use engine::units::number;

/// External text, safe for a page: bounded, on one line, and without characters that reorder the
/// text around it. Markup is escaped when it is written.
pub fn text(text: &str) -> Cow<'_, str> {
    clean(text)
}

/// A part of the page that the menu leads to.
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub body: Markup,
}

impl Section {
    pub fn render(&self) -> Markup {
        html! {
            section id=(self.id) aria-labelledby={ (self.id) "-title" } {
                h2 id={ (self.id) "-title" } { (self.title) }
                (self.body)
            }
        }
    }
}

/// A chart with a description in words for readers who cannot see it.
pub fn chart(
    title: &str,
    unit: &str,
    svg: Option<String>,
    in_words: &str,
    legend: Markup,
) -> Markup {
    html! {
        @if let Some(svg) = svg {
            figure.chart {
                figcaption { strong { (text(title)) } @if !unit.is_empty() { " " span.unit { (unit) } } (legend) }
                div role="img" aria-label=(text(in_words)) { (PreEscaped(svg)) }
            }
        }
    }
}

/// A bar of a length from 0 to 1, beside a figure.
pub fn bar(share: f64) -> Markup {
    let percent = format!("{:.1}%", share.clamp(0.0, 1.0) * 100.0);
    html! { span.bar aria-hidden="true" { span style={ "width:" (percent) } {} } }
}

/// A sum of money, in the currency of the manifest.
pub fn money(value: f64) -> String {
    match value {
        ..0.1 => number(value),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_named_by_its_heading() {
        let section = Section { id: "cost", title: "Cost", body: html! { p { "x" } } };
        let expected = "<section id=\"cost\" aria-labelledby=\"cost-title\">\
                        <h2 id=\"cost-title\">Cost</h2><p>x</p></section>";
        assert_eq!(section.render().into_string(), expected);
    }
}
