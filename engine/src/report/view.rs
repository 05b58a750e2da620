//! What the page is made of, as HTML. Texts that come from outside go through [`text`].

pub mod clips;
pub mod cost;
pub mod overview;
pub mod player;
pub mod provenance;
pub mod quarantine;
pub mod samples;
pub mod stages;
pub mod table;
pub mod training;

use std::borrow::Cow;

use maud::{Markup, PreEscaped, html};

use crate::show::escape::clean;

/// Foreign text as it may stand in a page: bounded, on one line, and with nothing in it that
/// reorders what is around it. Mark-up is escaped where it is written.
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

/// A chart with what it shows in words, for those who do not see it.
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

/// With three or four digits that count.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if !value.is_finite() => return "–".into(),
        _ if size == 0.0 => return "0".into(),
        _ if !(1e-4..1e7).contains(&size) => return format!("{value:.2e}"),
        _ if size < 0.01 => 6,
        _ if size < 1.0 => 4,
        _ if size < 10.0 => 3,
        _ if size < 100.0 => 2,
        _ if size < 1000.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A sum of money, in whatever the manifest counts it.
pub fn money(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_count() {
        let shown = [0.0, 7.7350, 0.00021, 1e-9, 16_000.0, -23.456, f64::NAN].map(number);
        assert_eq!(shown, ["0", "7.735", "0.00021", "1.00e-9", "16000", "-23.46", "–"]);
    }

    #[test]
    fn a_section_is_named_by_its_heading() {
        let section = Section { id: "cost", title: "Cost", body: html! { p { "x" } } };
        let expected = "<section id=\"cost\" aria-labelledby=\"cost-title\">\
                        <h2 id=\"cost-title\">Cost</h2><p>x</p></section>";
        assert_eq!(section.render().into_string(), expected);
    }
}
