//! The page on which people type a text and hear voices. It asks the server that it came from.

use maud::html;

use crate::local::{Page, Parts};

const STYLE: &str = include_str!("voices/page.css");
const SCRIPT: &str = include_str!("voices/page.js");

pub fn page() -> Page {
    let body = html! {
        form #form {
            label for="text" { "Text" }
            textarea #text rows="4" maxlength="4096" required autofocus {}
            fieldset { legend { "Voices" } div #voices {} }
            div.speed {
                label for="speed" { "Speed" }
                input #speed type="range" min="0.5" max="2" step="0.05" value="1";
                output #rate for="speed" { "1" }
            }
            label.report {
                input #report type="checkbox";
                " Leave out letters and digits that the voice does not know"
            }
            button #speak.more type="submit" { "Speak" }
        }
        p #told.note role="status" {}
        ol #sounds-made {}
    };
    Page::new(Parts { title: "Voices", style: STYLE, script: SCRIPT, body })
}
