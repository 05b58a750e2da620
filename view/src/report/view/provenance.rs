//! Provenance and licences.

use maud::{Markup, html};

use super::table::{Cell, HtmlTable};
use super::{Section, text};
use crate::report::provenance::{Provenance, StageOrigin};

pub fn section(provenance: &Provenance) -> Section {
    let body = html! {
        (licenses(provenance))
        (assets(provenance))
        (stages(provenance))
    };
    Section { id: "provenance", title: "Provenance", body }
}

fn licenses(provenance: &Provenance) -> Markup {
    let mut table = HtmlTable::new(
        "Licences, and stages with outputs derived from works under them",
        &["Licence", "Stages"],
    );
    for (license, stages) in &provenance.licenses {
        table.row([Cell::text(text(license)), Cell::prose(text(&stages.join(", ")))]);
    }
    let unknown = provenance.assets.iter().any(|asset| asset.license.is_none());
    html! {
        @if table.is_empty() { p.lead { "No asset has a licence." } }
        @else { (table.render()) }
        @if unknown { p.note { "Some assets have no licence: ask their authors before you publish derived works." } }
    }
}

fn assets(provenance: &Provenance) -> Markup {
    let mut table = HtmlTable::new("Assets", &["Asset", "Path", "Licence", "Read by"]);
    for asset in &provenance.assets {
        let license = match &asset.license {
            Some(license) => html! { (text(license)) },
            None => html! { span.failed { "not stated" } },
        };
        table.row([
            Cell::text(text(&asset.name)),
            Cell::text(html! { code { (text(&asset.path)) } }),
            Cell::text(license),
            Cell::text(text(&asset.used_by.join(", "))),
        ]);
    }
    if table.is_empty() {
        html! {}
    } else {
        table.render()
    }
}

fn stages(provenance: &Provenance) -> Markup {
    let headings = ["Stage", "Kind", "Key", "Content", "Licences", "-Parameters"];
    let mut table = HtmlTable::new("Inputs of each result", &headings);
    for origin in &provenance.stages {
        let short = |digest: Option<&cache::Digest>| digest.map_or_else(String::new, |d| d.short());
        let licenses: Vec<&str> = origin.licenses.iter().map(String::as_str).collect();
        let source = if origin.is_source { " (source)" } else { "" };
        table.row([
            Cell::text(html! { (text(&origin.stage)) span.unit { (source) } }),
            Cell::text(
                html! { code { (origin.kind) } " " span.unit { "version " (origin.version) } },
            ),
            Cell::text(html! { code { (short(origin.key.as_ref())) } }),
            Cell::text(html! { code { (short(origin.content.as_ref())) } }),
            Cell::text(text(&licenses.join(", "))),
            Cell::text(parameters(origin)),
        ]);
    }
    table.render()
}

fn parameters(origin: &StageOrigin) -> Markup {
    let count = origin.parameters.len() + origin.files.len();
    html! {
        @if count > 0 {
            details {
                summary { (count) }
                dl.measures {
                    @for (name, value) in &origin.parameters { div { dt { (name) } dd { (text(value)) } } }
                    @for (name, digest) in &origin.files { div { dt { "file " (name) } dd { code { (digest.short()) } } } }
                }
            }
        }
    }
}
