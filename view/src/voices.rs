//! The page on which people type a text and hear voices. It asks the server that it came from.

use cache::Digest;
use maud::{DOCTYPE, PreEscaped, html};

use crate::report::STYLE;

const OWN_STYLE: &str = include_str!("voices/page.css");
const SCRIPT: &str = include_str!("voices/page.js");

pub struct Page {
    html: String,
    rules: String,
}

impl Page {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Page {
        let nonce = Digest::of(SCRIPT.as_bytes()).short();
        let rules = format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; \
             connect-src 'self'; media-src blob:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        Page { html: page(&nonce), rules }
    }

    pub fn html(&self) -> &str {
        &self.html
    }

    /// The content security policy.
    pub fn rules(&self) -> &str {
        &self.rules
    }
}

fn page(nonce: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Voices" }
                style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body {
                main {
                    header.title { p.kicker { "throstle" } h1 { "Voices" } }
                    form #form {
                        label for="text" { "Text" }
                        textarea #text rows="4" maxlength="4096" required autofocus {}
                        fieldset { legend { "Voices" } div #voices {} }
                        div.speed {
                            label for="speed" { "Speed" }
                            input #speed type="range" min="0.5" max="2" step="0.05" value="1";
                            output #rate for="speed" { "1" }
                        }
                        button #speak.more type="submit" { "Speak" }
                    }
                    p #told.note role="status" {}
                    ol #sounds-made {}
                }
                script nonce=(nonce) { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_and_lets_only_its_own_script_run() {
        let page = Page::new();
        assert!(page.rules().starts_with("default-src 'none'"), "{}", page.rules());
        let nonce = page.rules().split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next());
        assert!(page.html().contains(&format!("nonce=\"{}\"", nonce.unwrap_or("?"))));
        for outside in ["http:", "https:", "src=", "href=", "innerHTML"] {
            assert!(!page.html().contains(outside), "{outside}");
        }
    }
}
