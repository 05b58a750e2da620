//! The page on which a person listens to clips and corrects them. It asks the server that it came
//! from; the pictures of sounds are drawn in the browser.

use maud::html;

use crate::local::{Page, Parts};

const STYLE: &str = include_str!("review/page.css");
const PICTURE: &str = include_str!("review/picture.js");
const SCRIPT: &str = include_str!("review/page.js");

/// The keys, and what they do.
const KEYS: [(&str, &str); 10] = [
    ("j  k", "next, previous clip"),
    ("space", "play or pause"),
    ("r", "play from the start"),
    ("← →", "previous, next word"),
    ("shift ← →", "20 ms back, forward"),
    ("e", "edit the text; Enter saves, Esc cancels"),
    ("d", "drop, or undo the drop"),
    ("s", "split at the cursor"),
    ("m", "join with the next clip"),
    ("u", "undo"),
];

pub fn page() -> Page {
    let body = html! {
        p #told.note role="status" {}
        div.desk {
            ol #clips tabindex="-1" {}
            section #clip aria-live="polite" {
                p #name.note {}
                div #picture { canvas #canvas width="900" height="260" {} div #cursor {} }
                p #words lang="und" {}
                textarea #text rows="3" maxlength="4096" spellcheck="false" {}
                p #why.note {}
                dl.keys { @for (key, does) in KEYS { div { dt { kbd { (key) } } dd { (does) } } } }
            }
        }
    };
    let script = format!("{PICTURE}{SCRIPT}");
    Page::new(Parts { title: "Review", style: STYLE, script: &script, body })
}
