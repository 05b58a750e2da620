//! The frame of pages that a local server shows: style, script and security policy.

use cache::Digest;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::STYLE;

/// The common functions of all page scripts: requests with the token, and making nodes.
const COMMON: &str = include_str!("local/common.js");

/// A page that loads nothing from elsewhere and runs its own script only.
pub struct Page {
    html: String,
    rules: String,
}

/// The parts of a page. The title is that of the window as well.
pub struct Parts<'a> {
    pub title: &'a str,
    pub style: &'a str,
    /// Runs behind [`COMMON`](self), which has `ask`, `made`, `part`, `told`.
    pub script: &'a str,
    pub body: Markup,
}

impl Page {
    pub fn new(parts: Parts) -> Page {
        let script = format!("{COMMON}{}", parts.script);
        let nonce = Digest::of(script.as_bytes()).short();
        let rules = format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; \
             connect-src 'self'; media-src blob:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        Page { html: document(&parts, &script, &nonce, html! {}, html! {}), rules }
    }

    /// A page as a file that needs no server; its script finds this JSON in the element `data`.
    pub fn file(parts: Parts, data: &serde_json::Value) -> String {
        let script = format!("{COMMON}{}", parts.script);
        // A text inside the data cannot know the digest of all of it.
        let data = data.to_string().replace('<', "\\u003c");
        let nonce = Digest::of(format!("{script}{data}").as_bytes()).short();
        let rules = format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; \
             connect-src 'none'; media-src blob:; base-uri 'none'; form-action 'none'"
        );
        let head = html! { meta http-equiv="Content-Security-Policy" content=(rules); };
        let behind = html! { script #data type="application/json" { (PreEscaped(data)) } };
        document(&parts, &script, &nonce, head, behind)
    }

    pub fn html(&self) -> &str {
        &self.html
    }

    /// The content security policy.
    pub fn rules(&self) -> &str {
        &self.rules
    }
}

/// The whole document; `behind` goes before the script.
fn document(parts: &Parts, script: &str, nonce: &str, head: Markup, behind: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                (head)
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (parts.title) }
                style { (PreEscaped(STYLE)) (PreEscaped(parts.style)) }
            }
            body {
                main {
                    header.title { p.kicker { "throstle" } h1 { (parts.title) } }
                    (parts.body)
                }
                (behind)
                script nonce=(nonce) { (PreEscaped(script)) }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_nothing_and_lets_only_its_own_script_run() {
        let parts = Parts { title: "A <b>", style: "", script: "told('');", body: html! {} };
        let page = Page::new(parts);
        assert!(page.rules().starts_with("default-src 'none'"), "{}", page.rules());
        let nonce = page.rules().split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next());
        assert!(page.html().contains(&format!("nonce=\"{}\"", nonce.unwrap_or("?"))));
        assert!(page.html().contains("<h1>A &lt;b&gt;</h1>"));
        for outside in ["http:", "https:", "src=", "innerHTML"] {
            assert!(!page.html().contains(outside), "{outside}");
        }
    }
}
